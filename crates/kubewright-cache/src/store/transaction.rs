//! Writes to a store that become visible together.
//!
//! A transaction works on a clone of the published contents. Nodes that it changes are copied once,
//! so the cost of a write falls with the size of the transaction.

use std::fmt;
use std::sync::Arc;

use kubewright_core::stream::ObjectIdentity;
use kubewright_core::{Object, ResourceVersion};

use super::contents::Contents;
use super::index::{IndexerConflict, Indexers};
use super::snapshot::Snapshot;
use crate::{Deleted, ObjectSet};

/// Changes to a store that become visible atomically, when the transaction is published.
pub struct Transaction<T> {
    pub(super) contents: Contents<T>,
}

impl<T: Object> Transaction<T> {
    /// The object with this namespace and name, including changes of this transaction.
    pub fn get(&self, namespace: &str, name: &str) -> Option<&Arc<T>> {
        self.contents.get(namespace, name)
    }

    /// Whether the store has no objects, including changes of this transaction.
    pub fn is_empty(&self) -> bool {
        self.contents.objects.len() == 0
    }

    /// Adds an object. Replaces and returns the stored object with the same key, if any.
    pub fn put(&mut self, object: Arc<T>) -> Option<Arc<T>> {
        self.move_to(&object);
        self.contents.marks.remove(object.namespace(), object.name());
        self.contents.put(object)
    }

    /// Marks an object as undecodable, and keeps its last good state. If the stored object has
    /// another uid, it was deleted: it is removed and returned.
    pub fn mark_undecodable(&mut self, object: ObjectIdentity) -> Option<Arc<T>> {
        let ObjectIdentity { key, resource_version, .. } = &object;
        let contents = &mut self.contents;
        contents.versions.change(key.namespace(), resource_version.as_str());
        let is_another = contents.get_by_key(key).is_some_and(|stored| object.is_other_than(stored.uid()));
        let removed = if is_another { contents.remove(key.namespace(), key.name()) } else { None };
        contents.marks.insert(object);
        removed
    }

    /// Removes the marks of a namespace, or all marks if it is empty.
    pub(crate) fn clear_marks(&mut self, namespace: &str) {
        self.contents.marks.clear(namespace);
    }

    /// Removes an object. Only a final state updates the resource version, a last known state does
    /// not.
    pub fn delete(&mut self, deleted: &Deleted<T>) -> Option<Arc<T>> {
        match deleted {
            Deleted::Final(object) => {
                self.move_to(object);
                self.remove(object.namespace(), object.name())
            }
            Deleted::LastKnown { key, .. } => self.remove(key.namespace(), key.name()),
        }
    }

    /// Replaces all objects with these. Undecodable objects keep their last good state.
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

    /// Sets the resource version up to which nothing changed in a namespace, or in any namespace if
    /// it is empty.
    pub fn bookmark(&mut self, namespace: &str, version: ResourceVersion) {
        self.contents.versions.bookmark(namespace, version);
    }

    /// Sets the resource version of a complete list of a namespace, or of all namespaces if it is
    /// empty.
    pub(crate) fn listed(&mut self, namespace: &str, version: ResourceVersion) {
        self.contents.versions.list(namespace, version);
    }

    /// A snapshot that includes the changes of this transaction.
    pub fn snapshot(&mut self) -> Snapshot<T> {
        Snapshot { contents: Arc::new(self.contents.clone()) }
    }

    pub(super) fn remove(&mut self, namespace: &str, name: &str) -> Option<Arc<T>> {
        self.contents.marks.remove(namespace, name);
        self.contents.remove(namespace, name)
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
