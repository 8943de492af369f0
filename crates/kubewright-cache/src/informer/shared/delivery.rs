//! The task of one handler: takes work, calls the handler, and survives its panics.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::coop::consume_budget;
use tokio::time::sleep;

use super::batch::HandlerWork;
use super::dispatcher::Dispatch;
use super::listener::{Listener, QueuedWork};
use super::options::OnPanic;
use crate::informer::handler::{DeliveryOutcome, caught, panicked};
use crate::queue::BoxFuture;

/// Delay between a panic and the replay.
const PANIC_DELAY: Duration = Duration::from_secs(1);

/// A value that lives as long as a handler.
pub(crate) type HandlerGuard = Option<Arc<dyn Any + Send + Sync>>;

/// Delivers work to a handler until it is removed or the informer stops. An event in progress is
/// finished first.
pub(super) fn deliver(
    listener: Arc<Listener>,
    dispatcher: Box<dyn Dispatch>,
    keep_alive: HandlerGuard,
) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let _stopped = ListenerStop(&listener);
        Delivery { listener: &listener, dispatcher, _keep_alive: keep_alive, has_panicked: false, has_missed: false }
            .run()
            .await;
    })
}

/// Signals on drop that the task has ended.
struct ListenerStop<'a>(&'a Listener);

impl Drop for ListenerStop<'_> {
    fn drop(&mut self) {
        self.0.end();
        self.0.stopped.cancel();
    }
}

struct Delivery<'a> {
    listener: &'a Listener,
    dispatcher: Box<dyn Dispatch>,
    _keep_alive: HandlerGuard,
    has_panicked: bool,
    /// An event was dropped because the handler is stopping.
    has_missed: bool,
}

impl Delivery<'_> {
    async fn run(&mut self) {
        while let Some(QueuedWork { work, after, ends_initial_list }) = self.listener.take().await {
            self.work_through(work).await;
            if self.has_missed {
                return;
            }
            match (std::mem::take(&mut self.has_panicked), self.listener.options.on_panic) {
                (false, _) | (true, OnPanic::Skip) => self.listener.done(after, ends_initial_list),
                (true, OnPanic::Replay) => {
                    self.listener.replay(after, ends_initial_list);
                    tokio::select! {
                        () = self.listener.ended() => return,
                        () = sleep(PANIC_DELAY) => {}
                    }
                }
                (true, OnPanic::Remove) => return,
            }
        }
    }

    async fn work_through(&mut self, work: HandlerWork) {
        let is_initial = !*self.listener.synced.borrow();
        self.dispatcher.begin(&work, is_initial);
        // Drops the parts of the work that the dispatcher does not need before it starts.
        let rest = resync_after(work);
        self.deliver_all().await;
        if let Some(rest) = rest {
            self.dispatcher.begin(&rest, is_initial);
            self.deliver_all().await;
        }
    }

    async fn deliver_all(&mut self) {
        while self.dispatcher.advance() {
            if self.listener.has_ended() {
                self.has_missed = true;
                break;
            }
            if self.has_panicked && self.listener.options.on_panic != OnPanic::Skip {
                break;
            }
            self.deliver().await;
            // Yields to other tasks once the budget is used up.
            consume_budget().await;
        }
        self.dispatcher.end();
    }

    async fn deliver(&mut self) {
        let outcome = match catch_unwind(AssertUnwindSafe(|| self.dispatcher.try_deliver())) {
            Ok(true) => DeliveryOutcome::Delivered,
            Ok(false) => tokio::select! {
                () = self.listener.ended() => {
                    self.has_missed = true;
                    return;
                }
                outcome = deliver_when_ready(&mut *self.dispatcher) => outcome,
            },
            Err(_) => DeliveryOutcome::Panicked,
        };
        if outcome == DeliveryOutcome::Panicked {
            if let Some(key) = self.dispatcher.key() {
                panicked(&key);
            }
            self.listener.panicked();
            self.has_panicked = true;
        }
    }
}

async fn deliver_when_ready(dispatcher: &mut dyn Dispatch) -> DeliveryOutcome {
    // The inner `async` block turns a panic of the call itself into a panic of `poll`.
    caught(pin!(async { dispatcher.deliver_when_ready().await })).await
}

/// Resyncs of the unchanged objects, if they follow a difference.
fn resync_after(work: HandlerWork) -> Option<HandlerWork> {
    match work {
        HandlerWork::Difference { from: Some(from), to, all: true } => {
            Some(HandlerWork::Resync { before: Some(from), after: to })
        }
        _ => None,
    }
}
