//! The task of one handler: takes work, tells the handler, and survives its panics.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::coop::consume_budget;
use tokio::time::sleep;

use super::batch::Work;
use super::listener::{Listener, Turn};
use super::options::OnPanic;
use super::teller::Tell;
use crate::informer::handler::{Told, caught, panicked};
use crate::queue::BoxFuture;

/// How long a handler that panicked rests before it is told of everything again.
const REST: Duration = Duration::from_secs(1);

/// What lives as long as a handler does.
pub(crate) type Kept = Option<Arc<dyn Any + Send + Sync>>;

/// Tells a handler of all that comes until it is removed or the informer stops. The event in hand is finished first.
pub(super) fn deliver(listener: Arc<Listener>, teller: Box<dyn Tell>, kept: Kept) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let _stopped = Stopped(&listener);
        Delivery { listener: &listener, teller, _kept: kept, has_panicked: false, has_missed: false }.run().await;
    })
}

/// Says that the task is over, however it came to that.
struct Stopped<'a>(&'a Listener);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.0.end();
        self.0.stopped.cancel();
    }
}

struct Delivery<'a> {
    listener: &'a Listener,
    teller: Box<dyn Tell>,
    _kept: Kept,
    has_panicked: bool,
    /// An event was let go because the handler is to stop.
    has_missed: bool,
}

impl Delivery<'_> {
    async fn run(&mut self) {
        while let Some(Turn { work, after, ends_initial_list }) = self.listener.take().await {
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
                        () = sleep(REST) => {}
                    }
                }
                (true, OnPanic::Remove) => return,
            }
        }
    }

    async fn work_through(&mut self, work: Work) {
        let is_initial = !*self.listener.synced.borrow();
        self.teller.begin(&work, is_initial);
        // What the teller does not need any more is let go of before it begins.
        let rest = reminders_after(work);
        self.tell_all().await;
        if let Some(rest) = rest {
            self.teller.begin(&rest, is_initial);
            self.tell_all().await;
        }
    }

    async fn tell_all(&mut self) {
        while self.teller.advance() {
            if self.listener.has_ended() {
                self.has_missed = true;
                break;
            }
            if self.has_panicked && self.listener.options.on_panic != OnPanic::Skip {
                break;
            }
            self.tell().await;
            // Lets others have their turn.
            consume_budget().await;
        }
        self.teller.end();
    }

    async fn tell(&mut self) {
        let told = match catch_unwind(AssertUnwindSafe(|| self.teller.try_tell())) {
            Ok(true) => Told::Yes,
            Ok(false) => tokio::select! {
                () = self.listener.ended() => {
                    self.has_missed = true;
                    return;
                }
                told = tell_when_ready(&mut *self.teller) => told,
            },
            Err(_) => Told::Panicked,
        };
        if told == Told::Panicked {
            if let Some(key) = self.teller.key() {
                panicked(&key);
            }
            self.listener.panicked();
            self.has_panicked = true;
        }
    }
}

async fn tell_when_ready(teller: &mut dyn Tell) -> Told {
    // What panics when it is called does so when it is polled.
    caught(pin!(async { teller.tell_when_ready().await })).await
}

/// Reminders of the rest, where a difference is to be followed by them.
fn reminders_after(work: Work) -> Option<Work> {
    match work {
        Work::Difference { from: Some(from), to, all: true } => Some(Work::Reminders { before: Some(from), after: to }),
        _ => None,
    }
}
