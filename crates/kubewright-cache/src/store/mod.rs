//! Holds objects by key and by index, for one writer at a time and any number of readers.
//!
//! A store publishes one immutable [`Snapshot`] through `arc-swap`. A writer changes a clone of it,
//! which shares all nodes that stay the same, and publishes the clone once per transaction. So a
//! reader never waits, sees each transaction completely or not at all, and copies no object.
//!
//! An object has a slot, and an index maps a value to slots. An update whose index values stay the
//! same therefore changes no index.
//!
//! Decision: the maps are our own persistent trie of about 290 lines (`trie`). In a prototype with
//! 100,000 objects in one map, an update with `imbl::OrdMap` took 1.4 times the CPU of the trie,
//! with `imbl::HashMap` at least 2 times. They took 30 and 127 bytes an object, `rpds::HashTrieMap`
//! 157, the trie 36. Both crates are under the MPL 2.0, which `deny.toml` does not allow. With an
//! index by namespace, the store takes 71 bytes an object (`bench-store`).
//!
//! The price of one snapshot: an update of a single object copies a path, which takes longer than
//! client-go's write to a map. It waits for the counts of the siblings, so neither narrower nor
//! wider branches help. A transaction copies each node once. `cargo xtask bench --only store`
//! measures both.

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
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use kubewright_core::{Object, ObjectKey, ResourceVersion};

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
        Store { publication: Arc::new(Publication { published, writing: Mutex::default() }) }
    }

    /// The store as it is now, in constant time.
    pub fn snapshot(&self) -> Snapshot<T> {
        Snapshot { contents: self.publication.published.load_full() }
    }

    /// The object of this key.
    pub fn get_by_key(&self, key: &ObjectKey) -> Option<Arc<T>> {
        self.publication.published.load().get_by_key(key).cloned()
    }

    /// The object of this namespace, empty for objects of the cluster, and name.
    pub(crate) fn find(&self, namespace: &str, name: &str) -> Option<Arc<T>> {
        self.publication.published.load().get(namespace, name).cloned()
    }

    /// The stored object that has the key of `object`.
    pub fn get(&self, object: &T) -> Option<Arc<T>> {
        self.find(object.namespace(), object.name())
    }

    /// All objects as of now; nothing is copied, so this takes no longer for many.
    pub fn list(&self) -> Snapshot<T> {
        self.snapshot()
    }

    /// The keys of all objects.
    pub fn list_keys(&self) -> Vec<ObjectKey> {
        self.snapshot().keys().collect()
    }

    /// The keys of all objects, and of those that are marked as undecodable and have no known
    /// state.
    pub(crate) fn known_keys(&self) -> Vec<ObjectKey> {
        let snapshot = self.snapshot();
        let unknown = snapshot.undecodable_keys().filter(|key| snapshot.get_by_key(key).is_none());
        snapshot.keys().chain(unknown.cloned()).collect()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.publication.published.load().objects.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The version of the last change, list or bookmark; empty if none had one.
    #[doc(alias = "LastStoreSyncResourceVersion")]
    pub fn resource_version(&self) -> ResourceVersion {
        self.publication.published.load().versions.last.clone()
    }

    /// Whether the newest state of this object could not be decoded or transformed.
    ///
    /// Then [`get_by_key`](Self::get_by_key) returns an older state, or nothing although the object
    /// exists.
    pub fn is_undecodable(&self, key: &ObjectKey) -> bool {
        self.publication.published.load().marks.contains(key)
    }

    /// Objects with this value in an index. Takes as long as there are hits.
    ///
    /// # Errors
    /// If there is no such index.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Arc<T>>, UnknownIndex> {
        Ok(self.publication.published.load().by_index(name, value)?.to_vec())
    }

    /// Objects that have a value in common with `object` in an index, each once.
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

    /// All values that objects have in an index; none if there is no such index.
    pub fn list_index_func_values(&self, name: &str) -> Vec<kubewright_core::Str> {
        self.snapshot().list_index_func_values(name)
    }

    /// Objects that a question over several indices selects, each once.
    ///
    /// # Errors
    /// If there is no such index.
    pub fn select(&self, query: &Query) -> Result<Vec<Arc<T>>, UnknownIndex> {
        self.snapshot().select(query)
    }

    /// Adds an object, or puts it in the place of the one with its key, which is returned.
    pub fn add(&self, object: impl Into<Arc<T>>) -> Option<Arc<T>> {
        let object = object.into();
        self.transaction(|transaction| transaction.put(object))
    }

    /// The same as [`add`](Self::add).
    pub fn update(&self, object: impl Into<Arc<T>>) -> Option<Arc<T>> {
        self.add(object)
    }

    /// Removes the object that has the key of `object`, and takes on the version of `object`.
    pub fn delete(&self, object: impl Into<Arc<T>>) -> Option<Arc<T>> {
        let deleted = Deleted::Final(object.into());
        self.transaction(|transaction| transaction.delete(&deleted))
    }

    /// Removes the object of this key, if there is one.
    pub fn delete_key(&self, key: &ObjectKey) -> Option<Arc<T>> {
        self.transaction(|transaction| transaction.remove(key.namespace(), key.name()))
    }

    /// Holds exactly these objects from now on, all at once.
    pub fn replace(&self, objects: impl IntoIterator<Item = Arc<T>>, version: impl Into<ResourceVersion>) {
        self.transaction(|transaction| transaction.replace(ObjectSet::new(objects, version)));
    }

    /// Nothing has changed up to this version.
    pub fn bookmark(&self, version: impl Into<ResourceVersion>) {
        self.transaction(|transaction| transaction.bookmark("", version.into()));
    }

    /// Does nothing: a store is where objects end up. Queues resync.
    pub fn resync(&self) {}

    /// Adds indices, over the objects that are here already as well.
    ///
    /// # Errors
    /// If an index of one of the names exists; then none is added.
    pub fn add_indexers(&self, indexers: Indexers<T>) -> Result<(), IndexerConflict> {
        self.transaction(|transaction| transaction.add_indexers(indexers))
    }

    /// Makes many changes that readers see all at once, when `change` returns; not at all if it
    /// panics.
    ///
    /// Writers wait for each other: `change` must not write to this store by another way.
    #[doc(alias = "TransactionStore")]
    pub fn transaction<R>(&self, change: impl FnOnce(&mut Transaction<T>) -> R) -> R {
        let Publication { published, writing } = &*self.publication;
        let guard = writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut transaction = Transaction { contents: Contents::clone(&published.load()) };
        let result = change(&mut transaction);
        let previous = published.swap(Arc::new(transaction.contents));
        drop(guard);
        // Freeing what only the previous contents held delays no other writer.
        drop(previous);
        result
    }
}

impl<T: Object> fmt::Debug for Store<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Store").field(&self.snapshot()).finish()
    }
}
