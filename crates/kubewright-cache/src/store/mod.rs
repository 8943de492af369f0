//! Holds objects by key and by index, for one writer at a time and any number of readers.
//!
//! A store is a pointer to a [`Snapshot`] that does not change while anybody looks at it. A writer makes the next one and moves
//! the pointer once for a whole batch of writes. So a reader never waits, neither for a writer nor for another
//! reader, sees each batch whole or not at all, and copies no object. How the next one is made without copying much is the
//! matter of `transaction`.
//!
//! Each object has a slot (`slots`). A table of hashes leads from a key to the number of the slot (`table`), an index from a value
//! to many numbers (`numbers`), so that an update writes one slot and nothing else while its index values stay the same. Keys are
//! those of the objects and are not stored again: an object costs about 25 bytes, and 4 to 8 for each value in an index; twice that
//! where it was written since the last big change.

mod buckets;
mod index;
mod marks;
mod numbers;
mod objects;
mod published;
mod query;
mod slots;
mod snapshot;
mod state;
mod steps;
mod table;
mod threads;
mod transaction;
mod trie;
mod versions;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kubewright_core::{Object, ObjectKey, ResourceVersion};

pub use index::{IndexerConflict, Indexers, NAMESPACE_INDEX, UnknownIndex};
pub use objects::Objects;
pub use query::Query;
pub use snapshot::{Change, Snapshot};
pub(crate) use table::Table;
pub use transaction::Transaction;

use crate::{Deleted, ObjectSet};
use published::Published;
use state::State;
use transaction::Writer;

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
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    published: Published<State<T>>,
    writer: Mutex<Writer<T>>,
}

impl<T> Clone for Store<T> {
    fn clone(&self) -> Self {
        Store { shared: self.shared.clone() }
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
        let state = State::new(indexers.into_indices().collect());
        Store { shared: Arc::new(Shared { published: Published::new(state), writer: Mutex::default() }) }
    }

    /// The store as it is now, in constant time.
    pub fn snapshot(&self) -> Snapshot<T> {
        Snapshot { state: self.shared.published.load_full() }
    }

    /// The object of this key.
    pub fn get_by_key(&self, key: &ObjectKey) -> Option<Arc<T>> {
        self.shared.published.look(|state| state.get_by_key(key).cloned())
    }

    /// The object of this namespace, empty for objects of the cluster, and name.
    pub(crate) fn find(&self, namespace: &str, name: &str) -> Option<Arc<T>> {
        self.shared.published.look(|state| state.get(namespace, name).cloned())
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
        self.shared.published.look(|state| state.slots.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The version of the last change, list or bookmark; empty if none had one.
    #[doc(alias = "LastStoreSyncResourceVersion")]
    pub fn resource_version(&self) -> ResourceVersion {
        self.shared.published.look(|state| state.versions.last.clone())
    }

    /// Whether the newest state of this object could not be decoded or transformed.
    ///
    /// Then [`get_by_key`](Self::get_by_key) returns an older state, or nothing although the object
    /// exists.
    pub fn is_undecodable(&self, key: &ObjectKey) -> bool {
        self.shared.published.look(|state| state.marks.contains(key))
    }

    /// Objects with this value in an index. Takes as long as there are hits.
    ///
    /// # Errors
    /// If there is no such index.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Arc<T>>, UnknownIndex> {
        Ok(self.shared.published.load().by_index(name, value)?.to_vec())
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

    /// Makes many changes that readers see all at once, when `change` returns; not at all if it panics.
    ///
    /// Writers wait for each other: `change` must not write to this store by another way.
    #[doc(alias = "TransactionStore")]
    pub fn transaction<R>(&self, change: impl FnOnce(&mut Transaction<T>) -> R) -> R {
        let Shared { published, writer } = &*self.shared;
        let mut writer: MutexGuard<'_, Writer<T>> = writer.lock().unwrap_or_else(PoisonError::into_inner);
        let mut transaction = writer.begin(published);
        let result = change(&mut transaction);
        let outdated = writer.publish(transaction, published);
        drop(writer);
        // Nobody waits while what only the old state held is freed.
        drop(outdated);
        result
    }
}

impl<T: Object> fmt::Debug for Store<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Store").field(&self.snapshot()).finish()
    }
}
