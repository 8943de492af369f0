//! The seam between a store and what makes its writes durable.
//!
//! The store gives a write its revision and passes the event to [`Backend::propose`]. The backend
//! later reports what became of it to a [`Follower`], which tells the store. Revisions ascend. They
//! may have gaps: a write that was undone never gives its revision to another one.

use std::io;
use std::sync::Arc;

use crate::event::StoreEvent;
use crate::record::Undo;

/// A value that has not been written yet and does not know its revision.
///
/// Prepare everything before the write: [`stamp`](Self::stamp) runs under the store's lock.
pub trait Draft<V> {
    /// The value as it is stored at this revision.
    fn stamp(self, revision: u64) -> V;
}

/// Takes the writes of a store, to make them durable.
///
/// The store calls it under its lock, so an implementation queues the event and returns. It must
/// not call the store.
pub trait Backend<V>: Send + Sync {
    /// Takes the event of the next revision. Events up to revision `forgotten` have left the log.
    ///
    /// # Errors
    /// If the backend cannot take writes now. The store then rejects the write, which leaves no
    /// trace.
    fn propose(&mut self, event: &StoreEvent<V>, forgotten: u64) -> io::Result<()>;
}

/// Follows what becomes of the writes that a backend has taken.
pub trait Follower: Send + 'static {
    /// All writes up to `revision` are durable. See [`Store::commit`](crate::Store::commit).
    fn commit(&self, revision: u64);

    /// The uncommitted writes cannot become durable. See
    /// [`Store::roll_back`](crate::Store::roll_back).
    ///
    /// Calls `fence` under the store's lock, undoes the writes, and returns the values that their
    /// keys have again.
    fn roll_back(&self, fence: &mut dyn FnMut()) -> Vec<Undo>;
}

/// Keeps lookups in step with the newest state of a store.
///
/// The store calls it under its lock, so that lookups show exactly the writes that the store has
/// accepted. An implementation must not call the store.
pub trait Observer<V>: Send + Sync {
    /// A write was accepted. It may not be durable yet.
    fn apply(&self, event: &StoreEvent<V>);

    /// An accepted write was undone. Later writes of the same key were undone before.
    fn revert(&self, event: &StoreEvent<V>);
}

impl<F: Follower + Sync + ?Sized> Follower for Arc<F> {
    fn commit(&self, revision: u64) {
        (**self).commit(revision);
    }

    fn roll_back(&self, fence: &mut dyn FnMut()) -> Vec<Undo> {
        (**self).roll_back(fence)
    }
}

impl<V, O: Observer<V> + ?Sized> Observer<V> for Arc<O> {
    fn apply(&self, event: &StoreEvent<V>) {
        (**self).apply(event);
    }

    fn revert(&self, event: &StoreEvent<V>) {
        (**self).revert(event);
    }
}
