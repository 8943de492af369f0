//! Immutable snapshots of a store, and their differences.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use kubewright_core::{Object, ObjectKey, ResourceVersion, Str};

use super::contents::Contents;
use super::index::{Index, UnknownIndex};
use super::objects::Objects;
use super::query::Query;
use crate::typed::typed;

/// All objects and indices of a store at one version. Immutable, and created in constant time.
///
/// Objects are shared, not copied. A snapshot keeps its objects in memory, so drop it when it is no
/// longer needed.
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

    /// The object with this namespace and name. The namespace of cluster-scoped objects is empty.
    pub fn get(&self, namespace: &str, name: &str) -> Option<&Arc<T>> {
        self.contents.get(namespace, name)
    }

    /// All objects, in arbitrary order.
    #[doc(alias = "List")]
    pub fn iter(&self) -> Objects<'_, T> {
        Objects::all(&self.contents.objects)
    }

    /// The first object in this slot or a higher one, for iterations that pause.
    pub(crate) fn first_from(&self, slot: u32) -> Option<(u32, &Arc<T>)> {
        self.contents.objects.iter_from(slot).next()
    }

    /// The snapshot without its object type, for storage.
    pub(crate) fn into_any(self) -> Arc<dyn Any + Send + Sync> {
        self.contents
    }

    /// Reverses [`into_any`](Self::into_any). Panics if the object type differs.
    pub(crate) fn of(any: &Arc<dyn Any + Send + Sync>) -> Self {
        Snapshot { contents: typed(any.clone()) }
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.contents.objects.len()
    }

    /// Whether the snapshot has no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The keys of all objects.
    #[doc(alias = "ListKeys")]
    pub fn keys(&self) -> impl Iterator<Item = ObjectKey> {
        self.iter().map(|object| object.key())
    }

    /// All objects as a vector.
    pub fn to_vec(&self) -> Vec<Arc<T>> {
        self.iter().to_vec()
    }

    /// The resource version of the last change, list or bookmark in this snapshot. Empty if none
    /// had a version.
    #[doc(alias = "LastStoreSyncResourceVersion")]
    pub fn resource_version(&self) -> &ResourceVersion {
        &self.contents.versions.last
    }

    /// Number of transactions before this snapshot.
    pub(crate) fn generation(&self) -> u64 {
        self.contents.generation
    }

    /// The resource version up to which the snapshot includes all changes of a namespace. Equal to
    /// [`resource_version`](Self::resource_version) unless the informer watches [selected
    /// namespaces](crate::FactoryOptions::namespaces). Then it is empty for other namespaces.
    pub fn resource_version_of(&self, namespace: &str) -> &ResourceVersion {
        self.contents.versions.of(namespace)
    }

    /// Whether the newest state of this object could not be decoded or transformed.
    ///
    /// If so, [`get_by_key`](Self::get_by_key) returns the last good state, or `None` although the
    /// object exists.
    pub fn is_undecodable(&self, key: &ObjectKey) -> bool {
        self.contents.marks.contains(key)
    }

    /// The sorted keys of all objects whose newest state could not be decoded or transformed.
    pub fn undecodable_keys(&self) -> impl Iterator<Item = &ObjectKey> {
        self.contents.marks.keys()
    }

    /// The objects with this value in an index. Takes time proportional to their number.
    ///
    /// # Errors
    /// If there is no such index.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Objects<'_, T>, UnknownIndex> {
        self.contents.by_index(name, value)
    }

    /// The objects that share a value with `object` in an index, without duplicates. `object` need
    /// not be in the store.
    ///
    /// # Errors
    /// If there is no such index.
    pub fn index(&self, name: &str, object: &T) -> Result<Vec<Arc<T>>, UnknownIndex> {
        let values = self.contents.index(name)?.values(object);
        let query = Query::Any(values.iter().map(|value| Query::index(name, value)).collect());
        self.select(&query)
    }

    /// The values of an object in an index. The object need not be in the store.
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

    /// All values in an index. Empty if there is no such index.
    pub fn list_index_func_values(&self, name: &str) -> Vec<Str> {
        self.contents.index(name).into_iter().flat_map(Index::all_values).cloned().collect()
    }

    /// The names of all indices.
    #[doc(alias = "GetIndexers")]
    pub fn indexers(&self) -> impl Iterator<Item = &str> {
        self.contents.indices.iter().map(|index| index.name.as_str())
    }

    /// The objects that a query over several indices selects, without duplicates.
    ///
    /// # Errors
    /// If there is no such index.
    pub fn select(&self, query: &Query) -> Result<Vec<Arc<T>>, UnknownIndex> {
        query.names().into_iter().try_for_each(|name| self.contents.index(name).map(drop))?;
        Ok(self.contents.select(query))
    }

    /// The changes from this snapshot to `later`, a snapshot of the same store. Takes time
    /// proportional to the number of changes.
    pub fn changes<'a>(&'a self, later: &'a Snapshot<T>) -> Vec<Change<'a, T>> {
        let mut changes = Vec::new();
        self.contents.objects.differences(&later.contents.objects, &mut |old, new| match (old, new) {
            (Some(old), Some(new)) if Arc::ptr_eq(old, new) => {}
            (Some(old), Some(new)) if old.name() == new.name() && old.namespace() == new.namespace() => {
                changes.push(Change::Updated { old, new })
            }
            (old, new) => {
                // An added object has reused the slot of a removed one.
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

/// One difference between two snapshots.
#[derive(Debug)]
pub enum Change<'a, T> {
    /// Only the later snapshot has the object.
    Added(&'a Arc<T>),
    /// Both snapshots have an object with this key, in different states.
    Updated {
        /// The state in the earlier snapshot.
        old: &'a Arc<T>,
        /// The state in the later snapshot.
        new: &'a Arc<T>,
    },
    /// Only the earlier snapshot has the object.
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
