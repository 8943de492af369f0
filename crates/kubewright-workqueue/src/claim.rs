//! A worker's exclusive claim on a key.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::shared_queue::SharedQueue;
use crate::state::TakenKey;

/// A key being processed. No other worker receives the key while the claim exists.
///
/// Dropping the claim marks the key as done, also when the worker panics or its task is cancelled.
/// The claim borrows the queue handle; [`into_owned`](Self::into_owned) returns one that may
/// outlive every handle.
pub struct Claim<'a, T> {
    /// Invariant: `None` only while [`Claim::into_key`] or [`Claim::into_owned`] consumes the
    /// claim.
    key: Option<T>,
    shared: QueueRef<'a, T>,
    number: u32,
    ticket: u64,
    priority: i32,
}

/// A claim's reference to its queue.
enum QueueRef<'a, T> {
    /// Avoids touching the reference count: that would cost as much as the lock, and workers on
    /// different cores would contend for it.
    Borrowed(&'a Arc<SharedQueue<T>>),
    Owned(Arc<SharedQueue<T>>),
}

impl<T> QueueRef<'_, T> {
    fn as_arc(&self) -> &Arc<SharedQueue<T>> {
        match self {
            Self::Borrowed(shared) => shared,
            Self::Owned(shared) => shared,
        }
    }
}

impl<'a, T> Claim<'a, T> {
    pub(crate) fn new(shared: &'a Arc<SharedQueue<T>>, taken: TakenKey<T>) -> Self {
        let TakenKey { key, number, ticket, priority } = taken;
        Self { key: Some(key), shared: QueueRef::Borrowed(shared), number, ticket, priority }
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &T {
        self.key.as_ref().expect("taken only by value")
    }

    /// The priority with which the key was handed out; 0 in a queue without priorities.
    ///
    /// Pass it to the next add to retry with the same priority.
    #[must_use]
    pub fn priority(&self) -> i32 {
        self.priority
    }

    /// Returns a claim that borrows nothing, for example to hand it to another task.
    #[must_use = "a claim that is dropped is done"]
    pub fn into_owned(mut self) -> Claim<'static, T> {
        let shared = QueueRef::Owned(self.shared.as_arc().clone());
        Claim { key: self.key.take(), shared, number: self.number, ticket: self.ticket, priority: self.priority }
    }

    /// Marks the key as done, as dropping the claim does.
    pub fn done(self) {}

    /// Returns the key. It stays claimed until [`WorkQueue::done`](crate::WorkQueue::done) is
    /// called for it.
    #[must_use]
    pub fn into_key(mut self) -> T {
        self.key.take().expect("taken only by value")
    }
}

impl<T> Drop for Claim<'_, T> {
    fn drop(&mut self) {
        if self.key.is_some() {
            self.shared.as_arc().finish(self.number, self.ticket);
        }
    }
}

impl<T> Deref for Claim<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.key()
    }
}

impl<T: fmt::Debug> fmt::Debug for Claim<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Claim").field(self.key()).finish()
    }
}
