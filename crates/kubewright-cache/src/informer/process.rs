//! Applies deltas to a store and derives the events for handlers.

use std::collections::HashSet;
use std::sync::Arc;

use kubewright_core::Object;
use kubewright_core::stream::ObjectIdentity;

use super::event::Event;
use crate::store::{Snapshot, Store, Transaction};
use crate::{Deleted, Delta};

/// How handlers see an object that was deleted and recreated while no watch was open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Recreated {
    /// As a deletion followed by an add.
    #[default]
    DeletedThenAdded,
    /// As an update, as in client-go; handlers must compare uids.
    Updated,
}

/// The result of applying deltas.
pub(crate) struct Applied<T> {
    /// The derived events, in order.
    pub(crate) events: Vec<Event<T>>,
    /// Snapshots of the store before and after.
    pub(crate) before: Snapshot<T>,
    pub(crate) after: Snapshot<T>,
    pub(crate) resync_scope: ResyncScope,
}

/// The unchanged objects to resync to handlers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResyncScope {
    None,
    /// The objects that a list repeated.
    Repeated,
    /// All objects, because a resync is due.
    All,
}

/// Applies `deltas` in one transaction.
pub(crate) fn apply<T: Object>(
    store: &Store<T>,
    deltas: impl ExactSizeIterator<Item = Delta<T>>,
    is_in_initial_list: bool,
    recreated: Recreated,
) -> Applied<T> {
    let before = store.snapshot();
    let mut derived = Derived { events: Vec::with_capacity(deltas.len()), is_in_initial_list, recreated };
    let mut resync_scope = ResyncScope::None;
    store.transaction(|transaction| {
        for delta in deltas {
            match delta {
                Delta::Sync(object) if is_stored(transaction, &object) => {
                    // Nothing is written, so an undecodable mark stays.
                    derived.events.push(Event::Updated { old: object.clone(), new: object });
                }
                Delta::Added(object) | Delta::Updated(object) | Delta::Replaced(object) | Delta::Sync(object) => {
                    derived.put(transaction, object);
                }
                Delta::Deleted(deleted) => derived.delete(transaction, deleted),
                Delta::Undecodable(object) => derived.mark(transaction, object),
                Delta::ReplacedAll { namespace, list } => {
                    derived.replace(transaction, &namespace, list.objects, list.undecodable);
                    transaction.listed(&namespace, list.version);
                    // A list of one namespace does not resync: it would resync all other namespaces
                    // too.
                    if namespace.is_empty() {
                        resync_scope = ResyncScope::Repeated;
                    }
                }
                Delta::SyncAll => resync_scope = ResyncScope::All,
                Delta::Bookmark { namespace, version } => transaction.bookmark(&namespace, version),
            }
        }
    });
    Applied { events: derived.events, before, after: store.snapshot(), resync_scope }
}

/// Collects events.
struct Derived<T> {
    events: Vec<Event<T>>,
    is_in_initial_list: bool,
    recreated: Recreated,
}

impl<T: Object> Derived<T> {
    fn put(&mut self, transaction: &mut Transaction<T>, object: Arc<T>) {
        let old = transaction.put(object.clone());
        self.changed(old, object);
    }

    fn changed(&mut self, old: Option<Arc<T>>, new: Arc<T>) {
        let added = |object, is_in_initial_list| Event::Added { object, is_in_initial_list };
        match old {
            None => self.events.push(added(new, self.is_in_initial_list)),
            Some(old) if self.recreated == Recreated::DeletedThenAdded && is_another(&*old, &*new) => {
                self.events.push(Event::Deleted(Deleted::LastKnown { key: old.key(), object: Some(old) }));
                self.events.push(added(new, self.is_in_initial_list));
            }
            Some(old) => self.events.push(Event::Updated { old, new }),
        }
    }

    fn delete(&mut self, transaction: &mut Transaction<T>, deleted: Deleted<T>) {
        let stored = transaction.delete(&deleted);
        let deleted = match deleted {
            // The object was never in the store.
            Deleted::LastKnown { object: None, .. } if stored.is_none() => return,
            Deleted::LastKnown { key, object: None } => Deleted::LastKnown { key, object: stored },
            deleted => deleted,
        };
        self.events.push(Event::Deleted(deleted));
    }

    /// Keeps the last good state of an object, unless it belongs to an object with a different uid,
    /// which then is deleted.
    fn mark(&mut self, transaction: &mut Transaction<T>, object: ObjectIdentity) {
        if let Some(gone) = transaction.mark_undecodable(object) {
            self.events.push(Event::Deleted(Deleted::LastKnown { key: gone.key(), object: Some(gone) }));
        }
    }

    /// Applies a list by writing only differences, so that the two snapshots share the rest.
    /// Deletions come first, then the objects in list order. With a namespace, other namespaces are
    /// not touched.
    fn replace(
        &mut self,
        transaction: &mut Transaction<T>,
        namespace: &str,
        objects: Vec<Arc<T>>,
        undecodable: Vec<ObjectIdentity>,
    ) {
        transaction.clear_marks(namespace);
        if transaction.is_empty() {
            // The store is empty, so every object is new and none is deleted.
            self.events.reserve_exact(objects.len());
            objects.into_iter().for_each(|object| self.put(transaction, object));
            undecodable.into_iter().for_each(|object| self.mark(transaction, object));
            return;
        }
        let at_first = self.events.len();
        for object in objects.iter() {
            match transaction.get(object.namespace(), object.name()) {
                Some(stored) if Arc::ptr_eq(stored, object) => {}
                _ => self.put(transaction, object.clone()),
            }
        }
        let address = |object: &Arc<T>| Arc::as_ptr(object).addr();
        let mut listed: HashSet<usize> = objects.iter().map(address).collect();
        for object in undecodable {
            let key = object.key.clone();
            self.mark(transaction, object);
            listed.extend(transaction.get(key.namespace(), key.name()).map(address));
        }
        let is_in = |object: &T| namespace.is_empty() || object.namespace() == namespace;
        let is_gone = |object: &&Arc<T>| is_in(object) && !listed.contains(&address(object));
        let gone: Vec<Arc<T>> = transaction.snapshot().iter().filter(is_gone).cloned().collect();
        let mut deletions = Vec::with_capacity(gone.len());
        for object in gone {
            let deleted = Deleted::LastKnown { key: object.key(), object: Some(object) };
            transaction.delete(&deleted);
            deletions.push(Event::Deleted(deleted));
        }
        if !deletions.is_empty() {
            let mut changed = self.events.split_off(at_first);
            self.events.append(&mut deletions);
            self.events.append(&mut changed);
        }
    }
}

/// Whether the store holds this exact state.
fn is_stored<T: Object>(transaction: &Transaction<T>, object: &Arc<T>) -> bool {
    transaction.get(object.namespace(), object.name()).is_some_and(|stored| Arc::ptr_eq(stored, object))
}

fn is_another<T: Object>(old: &T, new: &T) -> bool {
    !old.uid().is_empty() && !new.uid().is_empty() && old.uid() != new.uid()
}
