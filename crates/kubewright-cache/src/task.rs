//! How informers run, for futures of whatever kind.
//!
//! Generic over the future, this would be compiled for each kind of objects, with copies of all that is in it.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

pub(crate) use kubewright_client::task::Tasks;
use kubewright_http2::Doorbell;
use tokio::sync::watch;
use tokio::task::coop::poll_proceed;
use tokio_util::sync::CancellationToken;

use crate::queue::BoxFuture;

type Work<'a> = Pin<&'a mut (dyn Future<Output = ()> + Send)>;

/// Does `work` until `stop` is cancelled.
pub(crate) async fn run_until(stop: &CancellationToken, work: Work<'_>) {
    stop.run_until_cancelled(work).await;
}

/// Does all of it, side by side.
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

/// Waits until something has synced; false if it stopped before.
pub(crate) async fn synced_before(synced: &watch::Sender<bool>, stopped: &CancellationToken) -> bool {
    let mut synced = synced.subscribe();
    tokio::select! {
        // At the same instant, having synced counts.
        biased;
        _ = synced.wait_for(|synced| *synced) => true,
        () = stopped.cancelled() => false,
    }
}

/// Has a reflector and the consumer of its queue take turns until one of them ends; `is_due` says that the queue wants its consumer,
/// `reflected` is called after each turn of the reflector.
///
/// The two wake each other, and so do the parts of a connection that the reflector reads. Where the runtime hears of it, the task
/// is in line again at once, ahead of all that have used up their time: handlers on its thread came to one turn in sixty.
pub(crate) async fn take_turns(
    mut reflecting: Work<'_>,
    mut consuming: Work<'_>,
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
            // The reflector goes on at once where it has let the other have its turn: to be called again by the runtime
            // could mean on another thread, which does not have the memory of what has just been let go.
            let goes_on = was_due && !is_due();
            if bell.rest() && !goes_on {
                return Poll::Pending;
            }
            // Each turn counts, whatever else does: who wakes itself again and again must not keep others from theirs.
            ready!(poll_proceed(context)).made_progress();
        }
    })
    .await;
}
