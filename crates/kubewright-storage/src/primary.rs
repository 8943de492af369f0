//! The seam between a store and a database that several stores share.
//!
//! Such a store is a watch cache: it shows the writes of all servers, in the order of the
//! database's revisions, because somebody [follows](Store::follow) the database for it. Its own
//! writes go to the [`Primary`] first, which executes them as transactions and returns when the
//! store shows them.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use crate::backend::Draft;
use crate::error::WriteError;
use crate::event::{EventKind, StoreEvent, VersionedValue};
use crate::key::{Key, KeyRange};
use crate::list::StoreListOptions;
use crate::store::Store;

/// Executes the writes of a store in a database that several stores share.
pub trait Primary<V>: Send + Sync {
    /// Executes writes of different keys in one transaction, if each key is still at its expected
    /// revision. Returns the revision of the transaction, which the store has reached.
    ///
    /// Blocks the thread. It must not be called where that blocks the [follower](Store::follow).
    ///
    /// # Errors
    /// [`PrimaryError`].
    fn write(&self, writes: Vec<PrimaryWrite<V>>) -> Result<u64, PrimaryError>;

    /// The same value at another revision.
    fn stamp(&self, value: &V, revision: u64) -> V;
}

/// How often a write is repeated whose conflict the store does not show.
const MAX_ATTEMPTS: usize = 64;

/// A write of one key.
pub struct PrimaryWrite<V> {
    /// The key.
    pub key: Key,
    /// The kind of the write.
    pub kind: EventKind,
    /// The revision that the key must be at. Zero if it must not exist.
    pub expected: u64,
    /// The value, stamped with revision 0.
    pub value: Arc<V>,
}

impl<V> Clone for PrimaryWrite<V> {
    fn clone(&self) -> Self {
        let PrimaryWrite { key, kind, expected, value } = self;
        PrimaryWrite { key: key.clone(), kind: *kind, expected: *expected, value: Arc::clone(value) }
    }
}

/// Why a write was not executed.
#[derive(Debug)]
pub enum PrimaryError {
    /// A key was not at the expected revision. The store has reached the state that shows it.
    Conflict,
    /// The database cannot execute it, or the result is unknown.
    Unavailable(io::Error),
}

/// A change of a key in the database.
#[derive(Debug)]
pub struct FollowedChange<V> {
    /// The key.
    pub key: Key,
    /// The new value. None if the key was deleted.
    pub value: Option<Arc<V>>,
}

impl<V> Store<V> {
    /// Shows the changes that one transaction of the database made at `revision`, which must be
    /// higher than all before. Without changes, notes only that the database has reached it.
    ///
    /// Only for a store with a [primary](crate::StoreOptions::primary).
    pub fn follow(&self, revision: u64, changes: Vec<FollowedChange<V>>) {
        let Some(primary) = self.primary() else { return };
        let mut state = self.write();
        if revision <= state.revision {
            return;
        }
        let event = |FollowedChange { key, value }| {
            let previous = state.newest(&key).cloned();
            let (kind, object) = match (value, &previous) {
                (Some(value), None) => (EventKind::Created, value),
                (Some(value), Some(_)) => (EventKind::Modified, value),
                (None, Some(previous)) => (EventKind::Deleted, Arc::new(primary.stamp(&previous.object, revision))),
                (None, None) => return None,
            };
            let indexed = state.indexed(&key, &object, previous.as_ref());
            Some(StoreEvent { key, kind, object, previous, revision, indexed })
        };
        let events = changes.into_iter().filter_map(event).collect();
        let aftermath = state.follow(revision, events);
        drop(state);
        self.notify(aftermath, revision);
    }

    /// Shows exactly these objects, the state of the database at `revision`.
    ///
    /// The events since the last followed revision are unknown, so all watches end
    /// [`Compacted`](crate::Compacted).
    pub fn follow_list(&self, revision: u64, objects: Vec<(Key, VersionedValue<V>)>) {
        let Some(primary) = self.primary() else { return };
        let known = self.list(&KeyRange::everything(), StoreListOptions::default());
        let known = known.map(|page| page.entries).unwrap_or_default();
        let mut gone: HashMap<Key, u64> = known.into_iter().map(|(key, entry)| (key, entry.revision)).collect();
        let mut events = Vec::new();
        let mut state = self.write();
        for (key, entry) in objects {
            if gone.remove(&key) == Some(entry.revision) {
                continue;
            }
            let previous = state.newest(&key).cloned();
            let kind = if previous.is_some() { EventKind::Modified } else { EventKind::Created };
            let indexed = state.indexed(&key, &entry.object, previous.as_ref());
            let VersionedValue { object, revision } = entry;
            events.push(StoreEvent { key, kind, object, previous, revision, indexed });
        }
        // The log holds the events for a moment only, but it must be in order.
        events.sort_by_key(|event| event.revision);
        for key in gone.into_keys() {
            let Some(previous) = state.newest(&key).cloned() else { continue };
            let object = Arc::new(primary.stamp(&previous.object, revision));
            let kind = EventKind::Deleted;
            events.push(StoreEvent { key, kind, object, previous: Some(previous), revision, indexed: [None, None] });
        }
        let changed = state.follow(revision, events);
        let skipped = state.skip_to(revision);
        drop(state);
        self.notify(changed, revision);
        self.notify(skipped, revision);
    }

    /// Executes a write in the primary, with its companions.
    pub(crate) fn write_through(
        &self,
        primary: &dyn Primary<V>,
        kind: EventKind,
        key: &Key,
        expected: Option<u64>,
        draft: impl Draft<V>,
        companions: Vec<PrimaryWrite<V>>,
    ) -> Result<VersionedValue<V>, WriteError<V>> {
        let value = Arc::new(draft.stamp(0));
        for _ in 0..MAX_ATTEMPTS {
            match (self.newest(key), expected) {
                (Some(found), None) => return Err(WriteError::AlreadyExists(found)),
                (None, Some(_)) => return Err(WriteError::NotFound),
                (Some(found), Some(expected)) if found.revision != expected => {
                    return Err(WriteError::Conflict { expected, found });
                }
                _ => {}
            }
            let revision_of = |key| self.newest(key).map_or(0, |entry| entry.revision);
            if companions.iter().any(|companion| revision_of(&companion.key) != companion.expected) {
                return Err(WriteError::Contended);
            }
            let expected = expected.unwrap_or_default();
            let write = PrimaryWrite { key: key.clone(), kind, expected, value: Arc::clone(&value) };
            match primary.write([write].into_iter().chain(companions.iter().cloned()).collect()) {
                Ok(revision) => {
                    let written = self.read().log.at(revision).find(|event| event.key == *key).cloned();
                    // A store that had to list again has no event of it.
                    let object = match written {
                        Some(event) => Arc::clone(&event.object),
                        None => Arc::new(primary.stamp(&value, revision)),
                    };
                    return Ok(VersionedValue { object, revision });
                }
                // A key has changed, and may have changed back: an object that was in the way of a
                // creation can be gone.
                Err(PrimaryError::Conflict) => {}
                Err(PrimaryError::Unavailable(error)) => return Err(WriteError::Backend(error)),
            }
        }
        Err(WriteError::Backend(io::Error::other("the database reports conflicts with keys that cannot be read")))
    }
}
