//! Runs the work of a request: in the task of its connection, or in its own task.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::task::{JoinError, JoinHandle};

/// The requests of one connection that have no response yet.
#[derive(Clone, Default)]
pub(super) struct ConnectionRequests(Arc<AtomicUsize>);

/// One of these requests.
pub(super) struct PendingRequests(ConnectionRequests);

impl ConnectionRequests {
    pub(super) fn add(&self) -> PendingRequests {
        self.0.fetch_add(1, Ordering::Relaxed);
        PendingRequests(self.clone())
    }
}

impl PendingRequests {
    /// Whether this is the only pending request: then the connection's task can run it without
    /// waking another thread.
    pub(super) fn is_alone(&self) -> bool {
        self.0.0.load(Ordering::Relaxed) == 1
    }
}

impl Drop for PendingRequests {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs `work` in the current task. Returns `None` if it panics.
pub(super) async fn guarded<T>(mut work: Pin<&mut impl Future<Output = T>>) -> Option<T> {
    poll_fn(|context| {
        // Unwind safe: the work is not polled again, and it holds no locks across polls.
        let state = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context)));
        state.map_or(Poll::Ready(None), |state| state.map(Some))
    })
    .await
}

/// A task that is aborted when its owner is dropped.
pub(super) struct AbortOnDrop<T>(JoinHandle<T>);

impl<T: Send + 'static> AbortOnDrop<T> {
    pub(super) fn spawn(work: impl Future<Output = T> + Send + 'static) -> Self {
        AbortOnDrop(tokio::spawn(work))
    }
}

impl<T> Future for AbortOnDrop<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context)
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    #[tokio::test]
    async fn a_panic_ends_the_task_and_not_its_waiter() {
        assert_eq!(guarded(pin!(async { 1 })).await, Some(1));
        let failing = pin!(async {
            tokio::task::yield_now().await;
            panic!("on purpose");
        });
        assert!(guarded(failing).await.is_none());
    }
}
