//! A store that reports its whole content after each change.

use std::fmt;
use std::sync::Arc;

use kubewright_core::stream::ObjectIdentity;
use kubewright_core::{Object, ObjectKey, ResourceVersion};

use crate::ObjectSet;
use crate::queue::{ReflectorStore, TransformError};
use crate::store::{Snapshot, Store};

/// Calls a function with all objects after each change.
///
/// Concurrent changes may report the same content twice. Changes of one thread are reported in
/// order.
///
/// ```
/// use std::sync::mpsc;
/// use kubewright_cache::UndeltaStore;
/// use kubewright_core::DynamicObject;
/// let (sender, receiver) = mpsc::channel();
/// let store = UndeltaStore::new(move |all| sender.send(all.len()).unwrap());
/// store.add(DynamicObject::default());
/// assert_eq!(receiver.recv()?, 1);
/// # Ok::<(), mpsc::RecvError>(())
/// ```
pub struct UndeltaStore<T> {
    store: Store<T>,
    push: Box<dyn Fn(Snapshot<T>) + Send + Sync>,
}

impl<T: Object> UndeltaStore<T> {
    /// An empty store that calls `push` after each change.
    pub fn new(push: impl Fn(Snapshot<T>) + Send + Sync + 'static) -> Self {
        UndeltaStore { store: Store::default(), push: Box::new(push) }
    }

    /// Adds or replaces an object.
    pub fn add(&self, object: impl Into<Arc<T>>) {
        self.store.add(object);
        self.push();
    }

    /// The same as [`add`](Self::add).
    pub fn update(&self, object: impl Into<Arc<T>>) {
        self.add(object);
    }

    /// Removes the object that has the key of `object`.
    pub fn delete(&self, object: impl Into<Arc<T>>) {
        self.store.delete(object);
        self.push();
    }

    /// Replaces the contents of the store.
    pub fn replace(&self, objects: impl IntoIterator<Item = Arc<T>>, version: impl Into<ResourceVersion>) {
        self.store.replace(objects, version);
        self.push();
    }

    /// Does nothing; part of client-go's `Store` interface.
    pub fn resync(&self) {}

    /// All objects.
    pub fn list(&self) -> Snapshot<T> {
        self.store.list()
    }

    /// The keys of all objects.
    pub fn list_keys(&self) -> Vec<ObjectKey> {
        self.store.list_keys()
    }

    /// The stored object that has the key of `object`.
    pub fn get(&self, object: &T) -> Option<Arc<T>> {
        self.store.get(object)
    }

    /// The object with this key.
    pub fn get_by_key(&self, key: &ObjectKey) -> Option<Arc<T>> {
        self.store.get_by_key(key)
    }

    fn push(&self) {
        (self.push)(self.store.snapshot());
    }
}

impl<T: Object> ReflectorStore<T> for UndeltaStore<T> {
    fn add(&self, object: Arc<T>) -> Result<(), TransformError> {
        UndeltaStore::add(self, object);
        Ok(())
    }

    fn update(&self, object: Arc<T>) -> Result<(), TransformError> {
        UndeltaStore::add(self, object);
        Ok(())
    }

    fn delete(&self, object: Arc<T>) -> Result<(), TransformError> {
        UndeltaStore::delete(self, object);
        Ok(())
    }

    fn delete_key(&self, key: ObjectKey) {
        self.store.delete_key(&key);
        self.push();
    }

    fn mark_undecodable(&self, object: ObjectIdentity) {
        ReflectorStore::mark_undecodable(&self.store, object);
        self.push();
    }

    fn replace(&self, list: ObjectSet<T>) -> Vec<TransformError> {
        let errors = ReflectorStore::replace(&self.store, list);
        self.push();
        errors
    }

    fn resync(&self) {}

    fn known(&self, object: &T) -> Option<Arc<T>> {
        self.store.get(object)
    }
}

impl<T: Object> fmt::Debug for UndeltaStore<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UndeltaStore").field("store", &self.store).finish_non_exhaustive()
    }
}
