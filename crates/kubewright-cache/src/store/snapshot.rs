//! The whole store at one moment.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use kubewright_core::{Object, ObjectKey, ResourceVersion, Str};

use super::contents::Contents;
use super::index::UnknownIndex;
use super::objects::Objects;
use super::query::Query;
use crate::typed::typed;

/// All objects and indices of a store at one version; making one costs nothing, and it never
/// changes.
///
/// Objects are shared, not copied. A snapshot keeps alive what it holds: let go of it when it is
/// old.
pub struct Snapshot<T> {
    pub(super) contents: Arc<Contents<T>>,
}

impl<T> Clone for Snapshot<T> {
    fn clone(&self) -> Self {
        Snapshot { contents: self.contents.clone() }
    }
}

impl<T: Object> Snapshot<T> {
    /// The object of this key.
    #[doc(alias = "GetByKey")]
    pub fn get_by_key(&self, key: &ObjectKey) -> Option<&Arc<T>> {
        self.contents.get_by_key(key)
    }

    /// The object of this namespace, empty for objects of the cluster, and name.
    pub fn get(&self, namespace: &str, name: &str) -> Option<&Arc<T>> {
        self.contents.get(namespace, name)
    }

    /// All objects, in no order that means anything.
    #[doc(alias = "List")]
    pub fn iter(&self) -> Objects<'_, T> {
        Objects::all(&self.contents.objects)
    }

    /// The first object in this slot or a higher one, for iterations that pause.
    pub(crate) fn first_from(&self, slot: u32) -> Option<(u32, &Arc<T>)> {
        self.contents.objects.iter_from(slot).next()
    }

    /// The same without its type, for those who only keep it.
    pub(crate) fn into_any(self) -> Arc<dyn Any + Send + Sync> {
        self.contents
    }

    /// Reverses [`into_any`](Self::into_any). Panics if the object type differs.
    pub(crate) fn of(any: &Arc<dyn Any + Send + Sync>) -> Self {
        Snapshot { contents: typed(any.clone()) }
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.contents.objects.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The keys of all objects.
    #[doc(alias = "ListKeys")]
    pub fn keys(&self) -> impl Iterator<Item = ObjectKey> {
        self.iter().map(|object| object.key())
    }

    /// All objects as a list of one's own.
    pub fn to_vec(&self) -> Vec<Arc<T>> {
        self.iter().to_vec()
    }

    /// The version of the last change, list or bookmark that is part of this; empty if none had
    /// one.
    #[doc(alias = "LastStoreSyncResourceVersion")]
    pub fn resource_version(&self) -> &ResourceVersion {
        &self.contents.versions.last
    }

    /// The version up to which all that happened in a namespace is part of this. That of the last
    /// change, unless namespaces are [watched one by one](crate::FactoryOptions::namespaces); then
    /// empty, if this one is not among them.
    pub fn resource_version_of(&self, namespace: &str) -> &ResourceVersion {
        self.contents.versions.of(namespace)
    }

    /// Whether the newest state of this object could not be decoded or transformed.
    ///
    /// Then [`get_by_key`](Self::get_by_key) returns an older state, or nothing although the object
    /// exists.
    pub fn is_undecodable(&self, key: &ObjectKey) -> bool {
        self.contents.marks.contains(key)
    }

    /// The keys of all objects whose newest state could not be decoded or transformed, in order.
    pub fn undecodable_keys(&self) -> impl Iterator<Item = &ObjectKey> {
        self.contents.marks.keys()
    }

    /// Objects with this value in an index. Takes as long as there are hits.
    ///
    /// # Errors
    /// If there is no such index.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Objects<'_, T>, UnknownIndex> {
        self.contents.by_index(name, value)
    }

    /// Objects that have a value in common with `object` in an index, each once; `object` need not
    /// be in the store.
    ///
    /// # Errors
    /// If there is no such index.
    pub fn index(&self, name: &str, object: &T) -> Result<Vec<Arc<T>>, UnknownIndex> {
        let values = self.contents.index(name)?.values(object);
        let query = Query::Any(values.iter().map(|value| Query::index(name, value)).collect());
        self.select(&query)
    }

    /// The values of an object, stored or not, in an index.
    ///
    /// # Errors
    /// If there is no such index.
    pub fn values(&self, name: &str, object: &T) -> Result<Vec<Str>, UnknownIndex> {
        Ok(self.contents.index(name)?.values(object))
    }

    /// The keys of objects with this value in an index, sorted.
    ///
    /// # Errors
    /// If there is no such index.
    pub fn index_keys(&self, name: &str, value: &str) -> Result<Vec<ObjectKey>, UnknownIndex> {
        let mut keys: Vec<ObjectKey> = self.by_index(name, value)?.map(|object| object.key()).collect();
        keys.sort();
        Ok(keys)
    }

    /// All values that objects have in an index; none if there is no such index.
    pub fn list_index_func_values(&self, name: &str) -> Vec<Str> {
        let index = self.contents.index(name);
        index.map_or_else(|_| Vec::new(), |index| index.all_values().cloned().collect())
    }

    /// The names of all indices.
    #[doc(alias = "GetIndexers")]
    pub fn indexers(&self) -> impl Iterator<Item = &str> {
        self.contents.indices.iter().map(|index| index.name.as_str())
    }

    /// Objects that a question over several indices selects, each once.
    ///
    /// # Errors
    /// If there is no such index.
    pub fn select(&self, query: &Query) -> Result<Vec<Arc<T>>, UnknownIndex> {
        query.names().into_iter().try_for_each(|name| self.contents.index(name).map(drop))?;
        Ok(self.contents.select(query))
    }

    /// The changes from this snapshot to `later`, a snapshot of the same store. Takes as long as
    /// there are changes.
    pub fn changes<'a>(&'a self, later: &'a Snapshot<T>) -> Vec<Change<'a, T>> {
        let mut changes = Vec::new();
        self.contents.objects.differences(&later.contents.objects, &mut |old, new| match (old, new) {
            (Some(old), Some(new)) if Arc::ptr_eq(old, new) => {}
            (Some(old), Some(new)) if has_key_of(&**old, &**new) => changes.push(Change::Updated { old, new }),
            (old, new) => {
                // A slot passes from a removed object to an added one.
                if let Some(old) = old {
                    match later.get(old.namespace(), old.name()) {
                        Some(new) if Arc::ptr_eq(old, new) => {}
                        Some(new) => changes.push(Change::Updated { old, new }),
                        None => changes.push(Change::Removed(old)),
                    }
                }
                changes.extend(
                    new.filter(|new| self.get(new.namespace(), new.name()).is_none()).map(|new| Change::Added(new)),
                );
            }
        });
        changes
    }
}

fn has_key_of<T: Object>(one: &T, other: &T) -> bool {
    one.name() == other.name() && one.namespace() == other.namespace()
}

/// One difference between two snapshots.
#[derive(Debug)]
pub enum Change<'a, T> {
    /// Only the later one has it.
    Added(&'a Arc<T>),
    /// Both have one of this key, and not the same.
    Updated {
        /// The earlier one's.
        old: &'a Arc<T>,
        /// The later one's.
        new: &'a Arc<T>,
    },
    /// Only the earlier one has it.
    Removed(&'a Arc<T>),
}

impl<T: Object> fmt::Debug for Snapshot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.resource_version();
        f.debug_struct("Snapshot").field("objects", &self.len()).field("version", &version.as_str()).finish()
    }
}

impl<'a, T: Object> IntoIterator for &'a Snapshot<T> {
    type Item = &'a Arc<T>;
    type IntoIter = Objects<'a, T>;

    fn into_iter(self) -> Objects<'a, T> {
        self.iter()
    }
}
