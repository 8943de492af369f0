//! Helpers to run informers, over boxed futures.
//!
//! Generic versions would be compiled once per object type.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

pub(crate) use kubewright_client::task::Tasks;
use kubewright_net::http2::Doorbell;
use tokio::sync::watch;
use tokio::task::coop::poll_proceed;
use tokio_util::sync::CancellationToken;

use crate::queue::BoxFuture;

type PinnedFuture<'a> = Pin<&'a mut (dyn Future<Output = ()> + Send)>;

/// Runs `work` until `stop` is cancelled.
pub(crate) async fn run_until(stop: &CancellationToken, work: PinnedFuture<'_>) {
    stop.run_until_cancelled(work).await;
}

/// Runs all futures concurrently.
pub(crate) fn all(works: Vec<BoxFuture<'_, ()>>) -> BoxFuture<'_, ()> {
    let mut works: Vec<Option<BoxFuture<'_, ()>>> = works.into_iter().map(Some).collect();
    Box::pin(poll_fn(move |context| {
        for place in &mut works {
            if place.as_mut().is_some_and(|work| work.as_mut().poll(context).is_ready()) {
                *place = None;
            }
        }
        if works.iter().all(Option::is_none) { Poll::Ready(()) } else { Poll::Pending }
    }))
}

/// Waits for a sync; false if it stopped before.
pub(crate) async fn synced_before(synced: &watch::Sender<bool>, stopped: &CancellationToken) -> bool {
    let mut synced = synced.subscribe();
    tokio::select! {
        // If both happen at the same instant, the sync wins.
        biased;
        _ = synced.wait_for(|synced| *synced) => true,
        () = stopped.cancelled() => false,
    }
}

/// Polls a reflector and the consumer of its queue alternately until one of them ends. `is_due`
/// tells that the consumer should run; `reflected` is called after each poll of the reflector.
///
/// The two futures wake each other, and so do the parts of the connection that the reflector reads.
/// Passing those wake-ups to the runtime would reschedule this task ahead of tasks that have used
/// up their budget, and starve handlers on the same thread.
pub(crate) async fn take_turns(
    mut reflecting: PinnedFuture<'_>,
    mut consuming: PinnedFuture<'_>,
    is_due: &(dyn Fn() -> bool + Sync),
    reflected: &mut (dyn FnMut() + Send),
) {
    let bell = Doorbell::default();
    let waker = bell.waker();
    poll_fn(|context| {
        bell.wake_later(context.waker());
        let mut inside = Context::from_waker(&waker);
        loop {
            bell.begin();
            let has_ended = reflecting.as_mut().poll(&mut inside).is_ready();
            reflected();
            let was_due = is_due();
            if has_ended || consuming.as_mut().poll(&mut inside).is_ready() {
                return Poll::Ready(());
            }
            // If the reflector only yielded to the consumer, it continues immediately: rescheduling
            // might move it to another thread, away from the memory that was just freed.
            let goes_on = was_due && !is_due();
            if bell.rest() && !goes_on {
                return Poll::Pending;
            }
            // Consumes budget for each iteration, so that a task that keeps waking itself yields to
            // others.
            ready!(poll_proceed(context)).made_progress();
        }
    })
    .await;
}
