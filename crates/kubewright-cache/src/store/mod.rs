//! Objects by key and by index, with one writer at a time and any number of readers.
//!
//! A store publishes one immutable [`Snapshot`] through `arc-swap`. A writer changes a clone of it,
//! which shares all nodes that stay the same, and publishes the clone once per transaction. So a
//! reader never waits, sees each transaction completely or not at all, and copies no object.
//!
//! An object has a slot, and an index maps a value to slots. An update whose index values stay the
//! same therefore changes no index.
//!
//! Decision: the maps are our own persistent trie (`trie`). `imbl` takes at least 1.4 times the CPU
//! for an update, `rpds` 4 times the memory, and `deny.toml` does not allow their licence.
//!
//! Decision: a single update takes about twice client-go's write to a mutable map, because it
//! copies a path of nodes and counts a reference to each sibling. To be faster is no goal: a writer
//! that changed nodes in place until a reader asks would make that reader wait for its lock.

mod contents;
mod index;
mod marks;
mod objects;
mod query;
mod snapshot;
mod transaction;
mod trie;
mod versions;

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arc_swap::{ArcSwap, Guard};
use kubewright_core::Decoder;
use kubewright_core::json::Reader;
use kubewright_core::{Object, ObjectKey, ResourceVersion};
use kubewright_net::observation::{self, CacheWriter};

pub use index::{IndexerConflict, Indexers, NAMESPACE_INDEX, UnknownIndex};
pub use objects::Objects;
pub use query::Query;
pub use snapshot::{Change, Snapshot};
pub use transaction::Transaction;
pub(crate) use trie::Trie;

use crate::{Deleted, ObjectSet};
use contents::Contents;

/// Objects by key and by index. A handle: clones share one store.
///
/// ```
/// use kubewright_cache::{Indexers, Store};
/// use kubewright_core::{DynamicObject, ObjectKey};
/// let store = Store::new(Indexers::by_namespace());
/// let web: DynamicObject = r#"{"metadata": {"namespace": "default", "name": "web", "resourceVersion": "7"}}"#.parse()?;
/// store.add(web);
/// assert!(store.get_by_key(&ObjectKey::namespaced("default", "web")).is_some());
/// assert_eq!(store.by_index("namespace", "default")?.len(), 1);
/// assert_eq!(store.snapshot().resource_version(), "7");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "Indexer")]
#[doc(alias = "ThreadSafeStore")]
#[doc(alias = "NewIndexer")]
pub struct Store<T> {
    publication: Arc<Publication<T>>,
}

/// The published contents, shared by all handles.
struct Publication<T> {
    published: ArcSwap<Contents<T>>,
    /// Held by a writer from reading the published contents to publishing new ones.
    writing: Mutex<()>,
    /// The number of the cache for the observer of reads, if there is one.
    observed_as: OnceLock<u64>,
}

impl<T> Clone for Store<T> {
    fn clone(&self) -> Self {
        Store { publication: self.publication.clone() }
    }
}

impl<T: Object> Default for Store<T> {
    fn default() -> Self {
        Self::new(Indexers::new())
    }
}

impl<T: Object> Store<T> {
    /// An empty store with these indices.
    #[doc(alias = "NewStore")]
    #[must_use]
    pub fn new(indexers: Indexers<T>) -> Self {
        let published = ArcSwap::from_pointee(Contents::new(indexers.into_indices().collect()));
        Store {
            publication: Arc::new(Publication { published, writing: Mutex::default(), observed_as: OnceLock::new() }),
        }
    }

    /// The current contents, in constant time.
    pub fn snapshot(&self) -> Snapshot<T> {
        Snapshot { contents: Guard::into_inner(self.read()) }
    }

    /// Reports reads of observed reconciles under this number.
    pub(crate) fn observe_as(&self, cache: u64) {
        let _ = self.publication.observed_as.set(cache);
    }

    /// The published contents, for a reader.
    fn read(&self) -> Guard<Arc<Contents<T>>> {
        let published = &self.publication.published;
        match self.publication.observed_as.get() {
            None => published.load(),
            Some(cache) => observation::read_cache(*cache, || {
                let contents = published.load();
                (contents.generation, contents)
            }),
        }
    }

    /// The object of this key.
    pub fn get_by_key(&self, key: &ObjectKey) -> Option<Arc<T>> {
        self.read().get_by_key(key).cloned()
    }

    /// The object with this namespace and name. The namespace of cluster-scoped objects is empty.
    pub(crate) fn find(&self, namespace: &str, name: &str) -> Option<Arc<T>> {
        self.read().get(namespace, name).cloned()
    }

    /// The stored object that has the key of `object`.
    pub fn get(&self, object: &T) -> Option<Arc<T>> {
        self.find(object.namespace(), object.name())
    }

    /// All current objects, in constant time: nothing is copied.
    pub fn list(&self) -> Snapshot<T> {
        self.snapshot()
    }

    /// The keys of all objects.
    pub fn list_keys(&self) -> Vec<ObjectKey> {
        self.snapshot().keys().collect()
    }

    /// The keys of all objects, including undecodable ones without a good state.
    pub(crate) fn known_keys(&self) -> Vec<ObjectKey> {
        let snapshot = self.snapshot();
        let unknown = snapshot.undecodable_keys().filter(|key| snapshot.get_by_key(key).is_none());
        snapshot.keys().chain(unknown.cloned()).collect()
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.read().objects.len()
    }

    /// Whether the store has no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The resource version of the last change, list or bookmark. Empty if none had a version.
    #[doc(alias = "LastStoreSyncResourceVersion")]
    pub fn resource_version(&self) -> ResourceVersion {
        self.read().versions.last.clone()
    }

    /// Like [`Snapshot::is_undecodable`], for the current contents.
    pub fn is_undecodable(&self, key: &ObjectKey) -> bool {
        self.read().marks.contains(key)
    }

    /// The objects with this value in an index. Takes time proportional to their number.
    ///
    /// # Errors
    /// If there is no such index.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Arc<T>>, UnknownIndex> {
        Ok(self.read().by_index(name, value)?.to_vec())
    }

    /// The objects that share a value with `object` in an index, without duplicates.
    ///
    /// # Errors
    /// If there is no such index.
    pub fn index(&self, name: &str, object: &T) -> Result<Vec<Arc<T>>, UnknownIndex> {
        self.snapshot().index(name, object)
    }

    /// The keys of objects with this value in an index, sorted.
    ///
    /// # Errors
    /// If there is no such index.
    pub fn index_keys(&self, name: &str, value: &str) -> Result<Vec<ObjectKey>, UnknownIndex> {
        self.snapshot().index_keys(name, value)
    }

    /// All values in an index. Empty if there is no such index.
    pub fn list_index_func_values(&self, name: &str) -> Vec<kubewright_core::Str> {
        self.snapshot().list_index_func_values(name)
    }

    /// The objects that a query over several indices selects, without duplicates.
    ///
    /// # Errors
    /// If there is no such index.
    pub fn select(&self, query: &Query) -> Result<Vec<Arc<T>>, UnknownIndex> {
        self.snapshot().select(query)
    }

    /// Adds an object. Replaces and returns the stored object with the same key, if any.
    pub fn add(&self, object: impl Into<Arc<T>>) -> Option<Arc<T>> {
        let object = object.into();
        self.transaction(|transaction| transaction.put(object))
    }

    /// The same as [`add`](Self::add).
    pub fn update(&self, object: impl Into<Arc<T>>) -> Option<Arc<T>> {
        self.add(object)
    }

    /// Removes the object with the key of `object`, and adopts the resource version of `object`.
    pub fn delete(&self, object: impl Into<Arc<T>>) -> Option<Arc<T>> {
        let deleted = Deleted::Final(object.into());
        self.transaction(|transaction| transaction.delete(&deleted))
    }

    /// Removes the object with this key, if any.
    pub fn delete_key(&self, key: &ObjectKey) -> Option<Arc<T>> {
        self.transaction(|transaction| transaction.remove(key.namespace(), key.name()))
    }

    /// Replaces all objects atomically.
    pub fn replace(&self, objects: impl IntoIterator<Item = Arc<T>>, version: impl Into<ResourceVersion>) {
        self.transaction(|transaction| transaction.replace(ObjectSet::new(objects, version)));
    }

    /// Sets the resource version: no object has changed up to it.
    pub fn bookmark(&self, version: impl Into<ResourceVersion>) {
        self.transaction(|transaction| transaction.bookmark("", version.into()));
    }

    /// Adds indices, which include the objects already stored.
    ///
    /// # Errors
    /// If an index with one of the names exists. No index is added then.
    pub fn add_indexers(&self, indexers: Indexers<T>) -> Result<(), IndexerConflict> {
        self.transaction(|transaction| transaction.add_indexers(indexers))
    }

    /// Applies many changes atomically. Readers see them when `change` returns, and see none of
    /// them if it panics.
    ///
    /// Writers are serialized: `change` deadlocks if it writes to this store other than through its
    /// argument.
    #[doc(alias = "TransactionStore")]
    pub fn transaction<R>(&self, change: impl FnOnce(&mut Transaction<T>) -> R) -> R {
        let Publication { published, writing, .. } = &*self.publication;
        let guard = writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut transaction = Transaction { contents: Contents::clone(&published.load()) };
        transaction.contents.generation += 1;
        let result = change(&mut transaction);
        let previous = published.swap(Arc::new(transaction.contents));
        drop(guard);
        // Dropped after the lock is released, because freeing nodes takes time.
        drop(previous);
        result
    }
}

/// A replay writes to the store as an informer does.
impl<T: Object> CacheWriter for Store<T> {
    fn set(&self, json: &[u8]) {
        let mut decoder = Decoder::new();
        if let Ok(object) = T::from_json(&mut Reader::new(json, &mut decoder)) {
            self.add(object);
        }
    }

    fn delete(&self, key: &ObjectKey) {
        self.delete_key(key);
    }
}

impl<T: Object> fmt::Debug for Store<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Store").field(&self.snapshot()).finish()
    }
}
