//! A worker's hold on a key.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::queue::Shared;
use crate::state::Taken;

/// A key that is being worked on, and that no other worker gets meanwhile.
///
/// Dropping it says that the work is done, also when the worker panics or its task is cancelled. It may outlive every
/// handle to the queue.
pub struct Claim<T> {
    /// Invariant: `None` only on the way out of [`Claim::into_key`].
    key: Option<T>,
    shared: Arc<Shared<T>>,
    number: u32,
    ticket: u64,
    priority: i32,
}

impl<T> Claim<T> {
    pub(crate) fn new(shared: Arc<Shared<T>>, taken: Taken<T>) -> Self {
        let Taken { key, number, ticket, priority } = taken;
        Self { key: Some(key), shared, number, ticket, priority }
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &T {
        self.key.as_ref().expect("taken only by value")
    }

    /// The priority with which the key was handed out; 0 in a queue without priorities.
    ///
    /// A retry that is to keep its importance is added with it again.
    #[must_use]
    pub fn priority(&self) -> i32 {
        self.priority
    }

    /// Says that the work is done, as dropping the claim does.
    pub fn done(self) {}

    /// Takes the key out. It stays in work until [`WorkQueue::done`](crate::WorkQueue::done) is called for it.
    #[must_use]
    pub fn into_key(mut self) -> T {
        self.key.take().expect("taken only by value")
    }
}

impl<T> Drop for Claim<T> {
    fn drop(&mut self) {
        if self.key.is_some() {
            self.shared.finish(self.number, self.ticket);
        }
    }
}

impl<T> Deref for Claim<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.key()
    }
}

impl<T: fmt::Debug> fmt::Debug for Claim<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Claim").field(self.key()).finish()
    }
}
