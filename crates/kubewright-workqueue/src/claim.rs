//! A worker's hold on a key.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::queue::Shared;
use crate::state::Taken;

/// A key that is being worked on, and that no other worker gets meanwhile.
///
/// Dropping it says that the work is done, also when the worker panics or its task is cancelled. It borrows the handle that
/// it was got from; [`into_owned`](Self::into_owned) makes it one that may outlive every handle to the queue.
pub struct Claim<'a, T> {
    /// Invariant: `None` only on the way out of [`Claim::into_key`] and [`Claim::into_owned`].
    key: Option<T>,
    shared: Held<'a, T>,
    number: u32,
    ticket: u64,
    priority: i32,
}

/// A claim's way back to its queue.
enum Held<'a, T> {
    /// Counting references would cost as much as the lock, and workers on two processors would wait for the count.
    Borrowed(&'a Arc<Shared<T>>),
    Owned(Arc<Shared<T>>),
}

impl<T> Held<'_, T> {
    fn as_arc(&self) -> &Arc<Shared<T>> {
        match self {
            Self::Borrowed(shared) => shared,
            Self::Owned(shared) => shared,
        }
    }
}

impl<'a, T> Claim<'a, T> {
    #[inline]
    pub(crate) fn new(shared: &'a Arc<Shared<T>>, taken: Taken<T>) -> Self {
        let Taken { key, number, ticket, priority } = taken;
        Self { key: Some(key), shared: Held::Borrowed(shared), number, ticket, priority }
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

    /// Makes this a claim that borrows nothing, for example to hand it to another task.
    #[must_use = "a claim that is dropped is done"]
    pub fn into_owned(mut self) -> Claim<'static, T> {
        let shared = Held::Owned(self.shared.as_arc().clone());
        Claim { key: self.key.take(), shared, number: self.number, ticket: self.ticket, priority: self.priority }
    }

    /// Says that the work is done, as dropping the claim does.
    pub fn done(self) {}

    /// Takes the key out. It stays in work until [`WorkQueue::done`](crate::WorkQueue::done) is called for it.
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
