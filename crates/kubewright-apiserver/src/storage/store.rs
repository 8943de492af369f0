//! The store itself: writes, single reads, and waiting for a revision.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::sync::watch;

use super::state::State;
use super::{Compacted, Entry, Event, EventKind, Key, Scope, StoreOptions, Watcher, WriteError};

/// Objects under one revision, with a bounded memory of the past.
///
/// A handle: clones share the same store. See the [module](super) for how it works.
///
/// The closures given to writes run under the write lock, because the new revision is part of
/// the object. They should stamp what was prepared before, and must not call the store. For
/// anything longer, read first, work on what was read, and write with the revision that was
/// read as the expected one. A closure that panics leaves the store as it was.
pub struct Store<V> {
    shared: Arc<Shared<V>>,
}

struct Shared<V> {
    state: RwLock<State<V>>,
    /// Held by a writer that waits for `state`. The standard lock lets a reader that comes back
    /// at once pass by a writer that is still waking up; those who read in steps queue here.
    turn: Mutex<()>,
    /// The newest revision whose write has returned, for those who wait for one.
    settled: watch::Sender<u64>,
}

impl<V> Clone for Store<V> {
    fn clone(&self) -> Self {
        Store { shared: Arc::clone(&self.shared) }
    }
}

impl<V> fmt::Debug for Store<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("settled", &*self.shared.settled.borrow()).finish_non_exhaustive()
    }
}

/// What a store holds at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Objects that exist.
    pub objects: usize,
    /// Events in the log.
    pub events: usize,
    /// What the values that only the log holds weigh, if the store was told how to weigh them.
    pub weight: usize,
    /// Watchers that have not been dropped.
    pub watchers: usize,
    /// Indices over the log: one for each known resource and for each narrower scope watched.
    pub topics: usize,
}

impl<V> Store<V> {
    /// An empty store.
    pub fn new(options: StoreOptions<V>) -> Self {
        Self::start(State::new(options, []))
    }

    /// A store that goes on from `revision` with the objects that existed then.
    ///
    /// Of the time before, only the state is known: a watch can start at `revision` or later.
    /// Takes the place of [`StoreOptions::start_revision`].
    pub fn restore(
        options: StoreOptions<V>,
        revision: u64,
        objects: impl IntoIterator<Item = (Key, Entry<V>)>,
    ) -> Self {
        Self::start(State::new(options.start_revision(revision), objects))
    }

    fn start(state: State<V>) -> Self {
        let settled = watch::Sender::new(state.revision);
        Store { shared: Arc::new(Shared { state: RwLock::new(state), turn: Mutex::new(()), settled }) }
    }

    /// The revision of the last write.
    pub fn current_revision(&self) -> u64 {
        self.read().revision
    }

    /// Waits until a write has taken `revision`, which may never happen.
    ///
    /// A read that must not be older than `revision` waits here first. Cancel safe.
    pub async fn wait_until(&self, revision: u64) {
        let mut settled = self.shared.settled.subscribe();
        // Fails only if the sender is gone, and we hold it.
        let _ = settled.wait_for(|settled| *settled >= revision).await;
    }

    /// Forgets all events up to now. Whoever still needs one finds it [`Compacted`].
    pub fn compact(&self) {
        // Dropped after the lock is free: there may be many.
        let _events = self.write().compact();
    }

    /// Forgets what has become too old since the last write, where more is kept of what is
    /// [recent](StoreOptions::keep_recent). Others can read and write meanwhile.
    pub fn age(&self) {
        loop {
            // Bound to a name, so that the lock is free again when they are dropped.
            let forgotten = self.write().age();
            if forgotten.is_empty() {
                return;
            }
        }
    }

    /// The current value of a key.
    pub fn get(&self, key: &Key) -> Option<Entry<V>> {
        self.read().get(key).cloned()
    }

    /// Adds the object that `make` gives for the revision it is told.
    ///
    /// # Errors
    /// [`WriteError::AlreadyExists`] with what is there; `make` is then not called.
    pub fn create(&self, key: &Key, make: impl FnOnce(u64) -> V) -> Result<Entry<V>, WriteError<V>> {
        let state = self.write();
        if let Some(found) = state.get(key) {
            return Err(WriteError::AlreadyExists(found.clone()));
        }
        let revision = state.revision + 1;
        let object = Arc::new(make(revision));
        self.commit(state, EventKind::Created, key, object, None)
    }

    /// Replaces the object by what `change` makes of it for the revision it is told.
    ///
    /// `None` from `change` leaves everything as it is: no revision is consumed, no event
    /// happens, and the current entry is returned.
    ///
    /// # Errors
    /// [`WriteError::NotFound`]; [`WriteError::Conflict`] if the object is not at the `expected`
    /// revision; [`WriteError::Refused`] with the error of `change`.
    pub fn update<E>(
        &self,
        key: &Key,
        expected: Option<u64>,
        change: impl FnOnce(&Entry<V>, u64) -> Result<Option<V>, E>,
    ) -> Result<Entry<V>, WriteError<V, E>> {
        let state = self.write();
        let found = expect(&state, key, expected)?;
        match change(&found, state.revision + 1).map_err(WriteError::Refused)? {
            None => Ok(found),
            Some(object) => self.commit(state, EventKind::Modified, key, Arc::new(object), Some(found)),
        }
    }

    /// Removes the object, if `stamp` agrees, and returns it as `stamp` left it.
    ///
    /// `stamp` checks the preconditions and gives the last state of the object for the revision
    /// of the deletion, which the event carries.
    ///
    /// # Errors
    /// As for [`update`](Store::update).
    pub fn delete<E>(
        &self,
        key: &Key,
        expected: Option<u64>,
        stamp: impl FnOnce(&Entry<V>, u64) -> Result<V, E>,
    ) -> Result<Entry<V>, WriteError<V, E>> {
        let state = self.write();
        let found = expect(&state, key, expected)?;
        let object = stamp(&found, state.revision + 1).map_err(WriteError::Refused)?;
        self.commit(state, EventKind::Deleted, key, Arc::new(object), Some(found))
    }

    /// Follows the events of `scope` after revision `from`, each one once and in order.
    ///
    /// A `from` in the future is allowed: the events up to it are left out when they come.
    ///
    /// # Errors
    /// [`Compacted`] if events after `from` have been dropped.
    pub fn watch(&self, scope: &Scope, from: u64) -> Result<Watcher<V>, Compacted> {
        let changed = self.write().subscribe(scope, from)?;
        Ok(Watcher::new(self.clone(), scope.clone(), from, changed))
    }

    /// Counts what the store holds. Walks over resources and watched scopes, not over objects.
    pub fn usage(&self) -> Usage {
        let state = self.read();
        Usage {
            objects: state.shards.values().map(|shard| shard.objects.len()).sum(),
            events: state.log.len(),
            weight: state.log.weight(),
            watchers: state.watchers(),
            topics: state.topics(),
        }
    }

    /// The number of objects of the resource of `scope`, or of all resources. The scope itself may
    /// have fewer. Does not walk over objects.
    pub fn resource_len(&self, scope: &Scope) -> usize {
        let state = self.read();
        match scope.resource_str() {
            Some(resource) => state.shards.get(resource).map_or(0, |shard| shard.objects.len()),
            None => state.shards.values().map(|shard| shard.objects.len()).sum(),
        }
    }

    /// Commits the write of the next revision and does what is left when the lock is free.
    fn commit<E>(
        &self,
        mut state: RwLockWriteGuard<'_, State<V>>,
        kind: EventKind,
        key: &Key,
        object: Arc<V>,
        previous: Option<Entry<V>>,
    ) -> Result<Entry<V>, WriteError<V, E>> {
        let revision = state.revision + 1;
        let entry = Entry { object: Arc::clone(&object), revision };
        let event = Event { key: key.clone(), kind, object, previous, revision };
        let aftermath = state.commit(event).map_err(WriteError::Journal)?;
        drop(state);
        aftermath.settle();
        // Two writers may arrive here in either order.
        self.shared.settled.send_if_modified(|settled| {
            let newer = revision > *settled;
            *settled = revision.max(*settled);
            newer
        });
        Ok(entry)
    }

    // Callers' closures can panic under the lock, but only before anything has changed, so a
    // poisoned lock protects nothing.

    pub(super) fn read(&self) -> RwLockReadGuard<'_, State<V>> {
        self.shared.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`read`](Store::read), behind the writers that wait already.
    pub(super) fn read_in_turn(&self) -> RwLockReadGuard<'_, State<V>> {
        drop(self.shared.turn.lock().unwrap_or_else(PoisonError::into_inner));
        self.read()
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, State<V>> {
        let _turn = self.shared.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The current entry, if it is there and at the expected revision.
fn expect<V, E>(state: &State<V>, key: &Key, expected: Option<u64>) -> Result<Entry<V>, WriteError<V, E>> {
    let found = state.get(key).cloned().ok_or(WriteError::NotFound)?;
    match expected {
        Some(expected) if expected != found.revision => Err(WriteError::Conflict { expected, found }),
        _ => Ok(found),
    }
}
