//! The streams of a connection, polled by the connection's own task.
//!
//! An event wakes the watches of a connection together. As tasks of their own each would be scheduled by itself, and the connection
//! woken in between; here one wake-up finds all of them, and what they say leaves together.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use futures_core::Stream;
use futures_util::stream::FuturesUnordered;
use hyper::rt::Executor;
use tokio::task::{JoinError, JoinHandle};

type Served = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Takes the streams that a connection opens.
#[derive(Clone, Default)]
pub(super) struct Streams {
    opened: Arc<Mutex<Vec<Served>>>,
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, stream: F) {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).push(Box::pin(stream));
    }
}

impl Streams {
    /// Polls a connection and those of its streams that have something to do, until all wait.
    pub(super) fn poll_with<C: Future>(
        &self,
        mut connection: Pin<&mut C>,
        running: &mut FuturesUnordered<Served>,
        context: &mut Context<'_>,
    ) -> Poll<C::Output> {
        loop {
            while let Poll::Ready(Some(())) = Pin::new(&mut *running).poll_next(context) {}
            let state = connection.as_mut().poll(context);
            let opened = std::mem::take(&mut *self.opened.lock().unwrap_or_else(PoisonError::into_inner));
            if opened.is_empty() || state.is_ready() {
                return state;
            }
            running.extend(opened);
        }
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
