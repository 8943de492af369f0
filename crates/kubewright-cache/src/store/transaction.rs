//! Writes to a store that become visible together.
//!
//! A transaction works on a clone of the published contents. Nodes that it changes are copied once,
//! so the cost of a write falls with the size of the transaction.

use std::fmt;
use std::sync::Arc;

use kubewright_core::stream::ObjectIdentity;
use kubewright_core::{Object, ObjectKey, ResourceVersion};

use super::contents::Contents;
use super::index::{IndexerConflict, Indexers};
use super::snapshot::Snapshot;
use crate::{Deleted, ObjectSet};

/// Changes that readers see together, once the transaction is published.
pub struct Transaction<T> {
    pub(super) contents: Contents<T>,
}

impl<T: Object> Transaction<T> {
    /// The object of this namespace and name, changes so far included.
    pub fn get(&self, namespace: &str, name: &str) -> Option<&Arc<T>> {
        self.contents.get(namespace, name)
    }

    /// Whether the store has no object, changes so far included.
    pub fn is_empty(&self) -> bool {
        self.contents.objects.len() == 0
    }

    /// Adds an object, or puts it in the place of the one with its key, which is returned.
    pub fn put(&mut self, object: Arc<T>) -> Option<Arc<T>> {
        self.move_to(&object);
        let contents = &mut self.contents;
        if !contents.marks.is_empty() {
            contents.marks.remove(&object.key());
        }
        contents.put(object)
    }

    /// Notes that an object exists in a state that cannot be decoded. Its last good state stays. If
    /// the one in the store has another uid, it was deleted: it is removed and returned.
    pub fn mark_undecodable(&mut self, object: ObjectIdentity) -> Option<Arc<T>> {
        let ObjectIdentity { key, resource_version, .. } = &object;
        let contents = &mut self.contents;
        contents.versions.change(key.namespace(), resource_version.as_str());
        let is_another = contents.get_by_key(key).is_some_and(|stored| object.is_other_than(stored.uid()));
        let removed = if is_another { contents.remove(key.namespace(), key.name()) } else { None };
        contents.marks.insert(object);
        removed
    }

    /// Removes the marks of a namespace; of all, if it is empty.
    pub(crate) fn clear_marks(&mut self, namespace: &str) {
        self.contents.marks.clear(namespace);
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
        let ObjectSet { objects, undecodable, version } = list;
        let contents = &mut self.contents;
        let kept: Vec<Arc<T>> = undecodable
            .iter()
            .filter_map(|object| {
                contents.get_by_key(&object.key).filter(|stored| !object.is_other_than(stored.uid())).cloned()
            })
            .collect();
        contents.clear();
        kept.into_iter().chain(objects).for_each(|object| drop(contents.put(object)));
        undecodable.into_iter().for_each(|object| contents.marks.insert(object));
        self.listed("", version);
    }

    /// Nothing has changed in a namespace up to this version; in none, if it is empty.
    pub fn bookmark(&mut self, namespace: &str, version: ResourceVersion) {
        self.contents.versions.bookmark(namespace, version);
    }

    /// A namespace is now what was listed at this version; all of them, if it is empty.
    pub(crate) fn listed(&mut self, namespace: &str, version: ResourceVersion) {
        self.contents.versions.list(namespace, version);
    }

    /// The changes so far, as they will be seen.
    pub fn snapshot(&mut self) -> Snapshot<T> {
        Snapshot { contents: Arc::new(self.contents.clone()) }
    }

    pub(super) fn remove(&mut self, namespace: &str, name: &str) -> Option<Arc<T>> {
        let contents = &mut self.contents;
        if !contents.marks.is_empty() {
            contents.marks.remove(&ObjectKey::namespaced(namespace, name));
        }
        contents.remove(namespace, name)
    }

    pub(super) fn add_indexers(&mut self, indexers: Indexers<T>) -> Result<(), IndexerConflict> {
        let names = indexers.names().filter(|name| self.contents.index(name).is_ok());
        let conflicts: Vec<String> = names.map(str::to_owned).collect();
        if !conflicts.is_empty() {
            return Err(IndexerConflict { names: conflicts });
        }
        indexers.into_indices().for_each(|index| self.contents.add_index(index));
        Ok(())
    }

    fn move_to(&mut self, object: &T) {
        self.contents.versions.change(object.namespace(), object.resource_version());
    }
}

impl<T: Object> fmt::Debug for Transaction<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").field("objects", &self.contents.objects.len()).finish_non_exhaustive()
    }
}
