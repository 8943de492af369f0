//! Who does the work that a request asks for: the task of its connection, or one of its own.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::task::{JoinError, JoinHandle};

/// The requests of one connection that have no answer yet.
#[derive(Clone, Default)]
pub(super) struct Requests(Arc<AtomicUsize>);

/// One of them.
pub(super) struct Pending(Requests);

impl Requests {
    pub(super) fn add(&self) -> Pending {
        self.0.fetch_add(1, Ordering::Relaxed);
        Pending(self.clone())
    }
}

impl Pending {
    /// Whether nobody else waits for the connection's task: then it can do the work itself, and wakes no other thread.
    pub(super) fn is_alone(&self) -> bool {
        self.0.0.load(Ordering::Relaxed) == 1
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A task that ends with its owner.
pub(super) struct Owned<T>(JoinHandle<T>);

impl<T: Send + 'static> Owned<T> {
    pub(super) fn spawn(work: impl Future<Output = T> + Send + 'static) -> Self {
        Owned(tokio::spawn(work))
    }
}

impl<T> Future for Owned<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context)
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
