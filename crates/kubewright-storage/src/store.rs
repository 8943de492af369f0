//! The store itself: writes, single reads, and waiting for a revision.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::sync::watch;

use crate::backend::Draft;
use crate::error::WriteError;
use crate::event::{EventKind, StoreEvent, VersionedValue};
use crate::key::{Key, KeyRange};
use crate::options::StoreOptions;
use crate::primary::{Primary, PrimaryWrite};
use crate::state::{Aftermath, State};

/// Objects under one global revision, with a bounded history.
///
/// A handle: clones share the same store. The [crate documentation](crate) describes how it works.
///
/// A write names the revision that its caller has read. Read the object, prepare the new value as a
/// [`Draft`] without any lock, and propose it. After a [conflict](WriteError::Conflict), start
/// again.
pub struct Store<V> {
    shared: Arc<SharedStore<V>>,
}

struct SharedStore<V> {
    state: RwLock<State<V>>,
    /// Held by a writer that waits for `state`. The standard lock lets a reader that returns at
    /// once overtake a writer that is still waking up. Lists that read in steps queue here.
    turn: Mutex<()>,
    /// The revision of the newest committed write.
    committed: watch::Sender<u64>,
    /// Executes the writes, if the store follows a shared database.
    primary: Option<Box<dyn Primary<V>>>,
}

impl<V> Clone for Store<V> {
    fn clone(&self) -> Self {
        Store { shared: Arc::clone(&self.shared) }
    }
}

impl<V> fmt::Debug for Store<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("committed", &*self.shared.committed.borrow()).finish_non_exhaustive()
    }
}

/// The size of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreUsage {
    /// Objects that exist.
    pub objects: usize,
    /// Events in the log.
    pub events: usize,
    /// The weight of values that only the log holds; see [`StoreOptions::window_weight`].
    pub weight: usize,
    /// Watchers that have not been dropped.
    pub watchers: usize,
    /// Indices over the log: one for each known resource and for each narrower scope watched.
    pub topics: usize,
}

impl<V> Store<V> {
    /// An empty store.
    pub fn new(mut options: StoreOptions<V>) -> Self {
        let primary = options.primary.take();
        Self::start(State::new(options, [], []), primary)
    }

    /// A store that continues at `revision` with the objects of that revision.
    ///
    /// `events` are the newest ones up to `revision`, ascending and complete. A watch can start
    /// before the first of them, or at `revision` if there are none.
    /// Overrides [`StoreOptions::start_revision`].
    pub fn restore(
        mut options: StoreOptions<V>,
        revision: u64,
        objects: impl IntoIterator<Item = (Key, VersionedValue<V>)>,
        events: impl IntoIterator<Item = StoreEvent<V>>,
    ) -> Self {
        let primary = options.primary.take();
        Self::start(State::new(options.start_revision(revision), objects, events), primary)
    }

    fn start(state: State<V>, primary: Option<Box<dyn Primary<V>>>) -> Self {
        let committed = watch::Sender::new(state.committed);
        Store { shared: Arc::new(SharedStore { state: RwLock::new(state), turn: Mutex::new(()), committed, primary }) }
    }

    /// The revision of the newest committed write.
    pub fn current_revision(&self) -> u64 {
        self.read().committed
    }

    /// The revision of the newest write, committed or not.
    pub fn newest_revision(&self) -> u64 {
        self.read().revision
    }

    /// Waits until a write of `revision` or a later one is committed, which may never happen.
    ///
    /// A read that must not be older than `revision` waits here first. Cancel safe.
    pub async fn wait_until(&self, revision: u64) {
        let mut committed = self.shared.committed.subscribe();
        // Cannot fail: it needs a dropped sender, and we hold it.
        let _ = committed.wait_for(|committed| *committed >= revision).await;
    }

    /// Makes all writes up to `revision` visible to readers and watchers, because they are durable.
    ///
    /// Only for a store whose writes [wait](StoreOptions::commit_when_durable) for it.
    pub fn commit(&self, revision: u64) {
        let mut state = self.write();
        let aftermath = state.commit(revision);
        let committed = state.committed;
        drop(state);
        self.notify(aftermath, committed);
    }

    /// Undoes all writes that are not committed, and returns their events, the newest first.
    ///
    /// `fence` runs first, under the write lock, so that no write can come in between. Use it to
    /// reject writes until they can become durable again.
    pub fn roll_back(&self, fence: impl FnOnce()) -> Vec<Arc<StoreEvent<V>>> {
        let mut state = self.write();
        fence();
        state.roll_back()
    }

    /// Drops all events so far. A watch or list that still needs one is
    /// [`Compacted`](crate::Compacted).
    pub fn compact(&self) {
        // Dropped after the lock is released, because there may be many.
        let _events = self.write().compact();
    }

    /// Drops events that are no longer [recent](StoreOptions::keep_recent), in short steps.
    pub fn age(&self) {
        loop {
            // Bound to a variable, so that they are dropped after the lock is released.
            let forgotten = self.write().age();
            if forgotten.is_empty() {
                return;
            }
        }
    }

    /// The committed value of a key.
    pub fn get(&self, key: &Key) -> Option<VersionedValue<V>> {
        self.read().get(key).cloned()
    }

    /// The newest value of a key, which may not be committed yet.
    ///
    /// This is what a write is compared with. A response that is based on it must wait until
    /// [`newest_revision`](Store::newest_revision) is committed.
    pub fn newest(&self, key: &Key) -> Option<VersionedValue<V>> {
        self.read().newest(key).cloned()
    }

    /// Writes an object that does not exist yet.
    ///
    /// # Errors
    /// [`WriteError::AlreadyExists`] with the current entry; [`WriteError::Backend`].
    pub fn create(&self, key: &Key, draft: impl Draft<V>) -> Result<VersionedValue<V>, WriteError<V>> {
        if let Some(primary) = self.primary() {
            return self.write_through(primary, EventKind::Created, key, None, draft, Vec::new());
        }
        let state = self.write();
        match state.newest(key) {
            Some(found) => Err(WriteError::AlreadyExists(found.clone())),
            None => self.propose(state, EventKind::Created, key, draft, None),
        }
    }

    /// Replaces the object, which must still be at the `expected` revision.
    ///
    /// # Errors
    /// [`WriteError::NotFound`]; [`WriteError::Conflict`] with the current entry;
    /// [`WriteError::Backend`].
    pub fn update(&self, key: &Key, expected: u64, draft: impl Draft<V>) -> Result<VersionedValue<V>, WriteError<V>> {
        if let Some(primary) = self.primary() {
            return self.write_through(primary, EventKind::Modified, key, Some(expected), draft, Vec::new());
        }
        let state = self.write();
        let found = expect(&state, key, expected)?;
        self.propose(state, EventKind::Modified, key, draft, Some(found))
    }

    /// Removes the object, which must still be at the `expected` revision, and returns its last
    /// value.
    ///
    /// The event of the deletion carries `last`, stamped with the revision of the deletion.
    ///
    /// # Errors
    /// As for [`update`](Store::update).
    pub fn delete(&self, key: &Key, expected: u64, last: impl Draft<V>) -> Result<VersionedValue<V>, WriteError<V>> {
        if let Some(primary) = self.primary() {
            return self.write_through(primary, EventKind::Deleted, key, Some(expected), last, Vec::new());
        }
        let state = self.write();
        let found = expect(&state, key, expected)?;
        self.propose(state, EventKind::Deleted, key, last, Some(found))
    }

    /// Writes a key together with others, in one transaction of the
    /// [primary](StoreOptions::primary).
    ///
    /// `expected` is the revision of the object. `None` creates it.
    ///
    /// # Errors
    /// As for the single writes, and [`WriteError::Contended`] if a companion is not at its
    /// expected revision. [`WriteError::Backend`] if there are companions and no primary.
    pub fn write_together(
        &self,
        kind: EventKind,
        key: &Key,
        expected: Option<u64>,
        draft: impl Draft<V>,
        companions: Vec<PrimaryWrite<V>>,
    ) -> Result<VersionedValue<V>, WriteError<V>> {
        match (self.primary(), expected) {
            (Some(primary), _) => self.write_through(primary, kind, key, expected, draft, companions),
            (None, _) if !companions.is_empty() => {
                Err(WriteError::Backend(io::Error::other("only a shared database writes several keys at once")))
            }
            (None, None) => self.create(key, draft),
            (None, Some(expected)) if kind == EventKind::Deleted => self.delete(key, expected, draft),
            (None, Some(expected)) => self.update(key, expected, draft),
        }
    }

    /// Counts objects, events and watchers. Visits resources and watched scopes, not objects.
    pub fn usage(&self) -> StoreUsage {
        let state = self.read();
        StoreUsage {
            objects: state.shards.values().map(|shard| shard.objects.len()).sum(),
            events: state.log.len(),
            weight: state.log.weight(),
            watchers: state.watchers(),
            topics: state.topics(),
        }
    }

    /// The number of objects of the resource of `scope`, or of all resources. The scope itself may
    /// have fewer. Does not visit objects.
    pub fn resource_len(&self, scope: &KeyRange) -> usize {
        let state = self.read();
        match scope.resource_str() {
            Some(resource) => state.shards.get(resource).map_or(0, |shard| shard.objects.len()),
            None => state.shards.values().map(|shard| shard.objects.len()).sum(),
        }
    }

    pub(crate) fn primary(&self) -> Option<&dyn Primary<V>> {
        self.shared.primary.as_deref()
    }

    /// Proposes the write of the next revision.
    fn propose(
        &self,
        mut state: RwLockWriteGuard<'_, State<V>>,
        kind: EventKind,
        key: &Key,
        draft: impl Draft<V>,
        previous: Option<VersionedValue<V>>,
    ) -> Result<VersionedValue<V>, WriteError<V>> {
        let revision = state.next_revision();
        let object = Arc::new(draft.stamp(revision));
        let entry = VersionedValue { object: Arc::clone(&object), revision };
        let indexed = state.indexed(key, &object, previous.as_ref());
        let event = StoreEvent { key: key.clone(), kind, object, previous, revision, indexed };
        let aftermath = state.propose(event).map_err(WriteError::Backend)?;
        let committed = state.committed;
        drop(state);
        self.notify(aftermath, committed);
        Ok(entry)
    }

    /// Wakes watchers and tasks that wait for a revision.
    pub(crate) fn notify(&self, aftermath: Aftermath<V>, revision: u64) {
        aftermath.settle();
        // Two writers may arrive here in either order.
        self.shared.committed.send_if_modified(|committed| {
            let newer = revision > *committed;
            *committed = revision.max(*committed);
            newer
        });
    }

    // A draft or a backend can panic under the lock, but only before anything has changed, so a
    // poisoned lock protects nothing.

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, State<V>> {
        self.shared.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same as [`read`](Store::read), but after the writers that are already waiting.
    pub(crate) fn read_in_turn(&self) -> RwLockReadGuard<'_, State<V>> {
        drop(self.shared.turn.lock().unwrap_or_else(PoisonError::into_inner));
        self.read()
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, State<V>> {
        let _turn = self.shared.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The current entry, if it exists and has the expected revision.
fn expect<V>(state: &State<V>, key: &Key, expected: u64) -> Result<VersionedValue<V>, WriteError<V>> {
    let found = state.newest(key).cloned().ok_or(WriteError::NotFound)?;
    if found.revision == expected { Ok(found) } else { Err(WriteError::Conflict { expected, found }) }
}
