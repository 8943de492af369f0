//! How the next state of a store is made.
//!
//! There are two states that take turns. One is published; in the other, which nobody reads any more, the writer changes in
//! place what is to change, publishes it, and plays the same steps on the one that readers have just left. So a write
//! costs twice the steps and copies nothing. Where a reader still holds that other state, as a snapshot, the
//! writer does not wait: it begins with a copy of the published one, which is made in no time, shares all nodes, and has those copied
//! that change, once each, as they change. The state that is held stays the writer's: it catches up when the reader has left, who would
//! otherwise be the one to free all of it.

use std::fmt;
use std::sync::Arc;

use kubewright_core::stream::ObjectIdentity;
use kubewright_core::{Object, ObjectKey, ResourceVersion};

use super::buckets::Buckets;
use super::index::{IndexerConflict, Indexers};
use super::marks::Marks;
use super::published::Published;
use super::slots::Slots;
use super::snapshot::Snapshot;
use super::state::State;
use super::steps::{Log, Step};
use super::table::Table;
use crate::{Deleted, ObjectSet};

/// How often to look whether a reader has left; long enough for one that is just getting an object.
const PATIENCE: usize = 100;

/// A state that is so many steps behind is given up: a snapshot is held, and no look.
const BEHIND_MAX: usize = 4096;

/// The lower bits of a number count the snapshots of one transaction, so that none is used twice, even after a panic.
const SNAPSHOTS: u32 = 16;

/// What the writers of a store hand on.
pub(super) struct Writer<T> {
    /// The number of the last write; see [`SNAPSHOTS`].
    write: u64,
    spare: Spare<T>,
    /// Memory for the next log.
    steps: Vec<Step<T>>,
}

/// The state whose turn is next.
enum Spare<T> {
    None,
    /// As the published one; nobody else has it.
    Ready(Arc<State<T>>),
    /// Some writes behind, and somebody was reading it.
    Behind(Arc<State<T>>, Vec<Log<T>>),
}

impl<T> Default for Writer<T> {
    fn default() -> Self {
        Writer { write: 0, spare: Spare::None, steps: Vec::new() }
    }
}

impl<T: Object> Writer<T> {
    /// Begins with the state as it is published.
    pub(super) fn begin(&mut self, published: &Published<State<T>>) -> Transaction<T> {
        // If the change panics, a spare that is ready is gone, and with it what the change had done.
        let state = match std::mem::replace(&mut self.spare, Spare::None) {
            Spare::None => None,
            Spare::Ready(state) => Some(state),
            Spare::Behind(state, logs) => match left(state, published) {
                Ok(mut state) => {
                    let newest = published.load();
                    let (versions, marks) = (&newest.versions, &newest.marks);
                    logs.into_iter().for_each(|log| self.steps = log.replay(own(&mut state), versions, marks));
                    Some(state)
                }
                Err(held) => {
                    self.spare = Spare::Behind(held, logs);
                    None
                }
            },
        };
        let state = state.unwrap_or_else(|| Arc::new(State::clone(&published.load())));
        self.write = ((self.write >> SNAPSHOTS) + 1) << SNAPSHOTS;
        Transaction { state, log: Log::new(self.write, std::mem::take(&mut self.steps)) }
    }

    /// Publishes, and makes the state from before the next one, if readers have left it. Gives what is to be dropped.
    pub(super) fn publish(&mut self, transaction: Transaction<T>, published: &Published<State<T>>) -> Outdated<T> {
        let Transaction { state, log } = transaction;
        self.write = log.write;
        let (versions, marks) = (state.versions.clone(), state.marks.clone());
        let mut before = published.swap(state);
        let spare = std::mem::replace(&mut self.spare, Spare::None);
        if !log.is_complete() {
            return Outdated { _before: Some(before), _spare: spare };
        }
        let spare = match spare {
            // A log without steps, as that of a bookmark, takes memory as well.
            Spare::Behind(held, mut logs) if logs.iter().map(|log| log.len().max(1)).sum::<usize>() < BEHIND_MAX => {
                logs.push(log);
                self.spare = Spare::Behind(held, logs);
                return Outdated { _before: Some(before), _spare: Spare::None };
            }
            given_up => given_up,
        };
        self.spare = match Arc::get_mut(&mut before) {
            Some(state) => {
                self.steps = log.replay(state, &versions, &marks);
                Spare::Ready(before)
            }
            None => Spare::Behind(before, vec![log]),
        };
        Outdated { _before: None, _spare: spare }
    }
}

/// States that nobody needs any more, to be dropped where nobody waits for it.
pub(super) struct Outdated<T> {
    _before: Option<Arc<State<T>>>,
    _spare: Spare<T>,
}

/// The state, if all readers leave it soon.
fn left<T>(mut state: Arc<State<T>>, published: &Published<State<T>>) -> Result<Arc<State<T>>, Arc<State<T>>> {
    for _ in 0..PATIENCE {
        published.clear_seats();
        if Arc::get_mut(&mut state).is_some() {
            return Ok(state);
        }
        std::hint::spin_loop();
    }
    Err(state)
}

/// A state that only the writer has.
fn own<T>(state: &mut Arc<State<T>>) -> &mut State<T> {
    Arc::get_mut(state).expect("nobody is given a state before it is published")
}

/// Changes on their way into a store.
pub struct Transaction<T> {
    /// Nobody else has it.
    state: Arc<State<T>>,
    log: Log<T>,
}

impl<T: Object> Transaction<T> {
    /// The object of this namespace and name, changes so far included.
    pub fn get(&self, namespace: &str, name: &str) -> Option<&Arc<T>> {
        self.state.get(namespace, name)
    }

    /// Whether the store has no object, changes so far included.
    pub fn is_empty(&self) -> bool {
        self.state.slots.len() == 0
    }

    /// Adds an object, or puts it in the place of the one with its key, which is returned.
    pub fn put(&mut self, object: Arc<T>) -> Option<Arc<T>> {
        self.move_to(&object);
        let state = own(&mut self.state);
        if !state.marks.is_empty() {
            state.marks.remove(&object.key());
        }
        state.put(object, &mut self.log)
    }

    /// Notes that an object exists in a state that cannot be decoded. Its last good state stays. If
    /// the one in the store has another uid, it was deleted: it is removed and returned.
    pub fn mark_undecodable(&mut self, object: ObjectIdentity) -> Option<Arc<T>> {
        let ObjectIdentity { key, resource_version, .. } = &object;
        let state = own(&mut self.state);
        state.versions.change(key.namespace(), resource_version.as_str());
        let is_another = state.get_by_key(key).is_some_and(|stored| object.is_other_than(stored.uid()));
        let removed = if is_another { state.remove(key.namespace(), key.name(), &mut self.log) } else { None };
        state.marks.insert(object);
        removed
    }

    /// Removes the marks of a namespace; of all, if it is empty.
    pub(crate) fn clear_marks(&mut self, namespace: &str) {
        own(&mut self.state).marks.clear(namespace);
    }

    /// Removes an object. A last known state, unlike a final one, does not move the version.
    pub fn delete(&mut self, deleted: &Deleted<T>) -> Option<Arc<T>> {
        match deleted {
            Deleted::Final(object) => {
                self.move_to(object);
                self.remove(object.namespace(), object.name())
            }
            Deleted::LastKnown { key, .. } => self.remove(key.namespace(), key.name()),
        }
    }

    /// Holds exactly these objects from now on, and the last good states of those that cannot be
    /// decoded.
    pub fn replace(&mut self, list: ObjectSet<T>) {
        self.log.give_up();
        let ObjectSet { objects, undecodable, version } = list;
        let state = own(&mut self.state);
        let kept: Vec<Arc<T>> = undecodable
            .iter()
            .filter_map(|object| {
                state.get_by_key(&object.key).filter(|stored| !object.is_other_than(stored.uid())).cloned()
            })
            .collect();
        state.table = Table::default();
        state.slots = Slots::default();
        state.indices.iter_mut().for_each(|index| index.buckets = Buckets::default());
        state.marks = Marks::default();
        kept.into_iter().chain(objects).for_each(|object| drop(state.put(object, &mut self.log)));
        undecodable.into_iter().for_each(|object| state.marks.insert(object));
        self.listed("", version);
    }

    /// Nothing has changed in a namespace up to this version; in none, if it is empty.
    pub fn bookmark(&mut self, namespace: &str, version: ResourceVersion) {
        own(&mut self.state).versions.bookmark(namespace, version);
    }

    /// A namespace is now what was listed at this version; all of them, if it is empty.
    pub(crate) fn listed(&mut self, namespace: &str, version: ResourceVersion) {
        own(&mut self.state).versions.list(namespace, version);
    }

    /// The changes so far, as they will be seen.
    pub fn snapshot(&mut self) -> Snapshot<T> {
        // What changes from now on must not pass for what the snapshot holds.
        self.log.give_up();
        self.log.write += 1;
        Snapshot { state: Arc::new(State::clone(&self.state)) }
    }

    pub(super) fn remove(&mut self, namespace: &str, name: &str) -> Option<Arc<T>> {
        let state = own(&mut self.state);
        if !state.marks.is_empty() {
            state.marks.remove(&ObjectKey::namespaced(namespace, name));
        }
        state.remove(namespace, name, &mut self.log)
    }

    pub(super) fn add_indexers(&mut self, indexers: Indexers<T>) -> Result<(), IndexerConflict> {
        let (state, log) = (own(&mut self.state), &mut self.log);
        let conflicts: Vec<String> =
            indexers.names().filter(|name| state.index(name).is_ok()).map(str::to_owned).collect();
        if !conflicts.is_empty() {
            return Err(IndexerConflict { names: conflicts });
        }
        log.give_up();
        let slots = state.slots.clone();
        for index in indexers.into_indices() {
            let at = state.indices.len();
            state.indices.push(index);
            for (slot, object) in slots.entries() {
                state.reindex(at, slot, None, Some(&**object), log);
            }
        }
        Ok(())
    }

    fn move_to(&mut self, object: &T) {
        own(&mut self.state).versions.change(object.namespace(), object.resource_version());
    }
}

impl<T: Object> fmt::Debug for Transaction<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").field("objects", &self.state.slots.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use kubewright_core::DynamicObject;

    use super::*;

    // ST-11, ST-12: bookmarks alone do not fill the memory for as long as a snapshot is held.
    #[test]
    fn a_held_snapshot_costs_no_more_than_so_many_writes() {
        let published = Published::new(State::new(Vec::new()));
        let mut writer = Writer::<DynamicObject>::default();
        let held = published.load_full();
        let mut most = 0;
        for at in 0..3 * BEHIND_MAX {
            let mut transaction = writer.begin(&published);
            transaction.bookmark("", at.to_string().as_str().into());
            drop(writer.publish(transaction, &published));
            if let Spare::Behind(_, logs) = &writer.spare {
                most = most.max(logs.len());
            }
        }
        assert!((1..=BEHIND_MAX).contains(&most), "{most}");
        assert_eq!((held.versions.last.as_str(), published.load().versions.last.as_str()), ("", "12287"));
    }
}
