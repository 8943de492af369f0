//! The streams of a connection, as futures that somebody else polls.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use hyper::rt::Executor;

/// A stream that is served, or whatever else hyper has to do for a connection.
pub(crate) type Served = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Takes the streams that a connection opens, for the [`Driver`](crate::Driver) to poll.
#[derive(Clone, Default)]
pub struct Streams {
    opened: Arc<Mutex<Vec<Served>>>,
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, stream: F) {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).push(Box::pin(stream));
    }
}

impl Streams {
    /// Those that were opened since this was asked last.
    pub(crate) fn take(&self) -> Vec<Served> {
        std::mem::take(&mut *self.opened.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
