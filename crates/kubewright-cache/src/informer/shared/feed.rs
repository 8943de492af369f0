//! The queue that the reflectors of an informer feed; its objects are type-erased.

use std::sync::Arc;

use kubewright_core::stream::ObjectIdentity;
use kubewright_core::{Object, ObjectKey, ResourceVersion, Str};

use super::options::QueueKind;
use crate::queue::{
    BoxFuture, DeltaFifo, DeltaFifoOptions, KnownObjects, Queue, RealFifo, RealFifoOptions, ReflectorStore,
    TransformError,
};
use crate::store::Store;
use crate::{AnyObject, ObjectSet};

/// A queue of type-erased objects.
pub(super) type AnyQueue = dyn NamespaceQueue;

/// A queue that several reflectors can feed, each with the objects of one namespace.
pub(super) trait NamespaceQueue: Queue<dyn AnyObject> {
    /// Declares that the initial list consists of one list per namespace.
    fn await_lists_of(&self, namespaces: Vec<Str>);
    /// Replaces the objects of a namespace; all objects if it is empty.
    fn replace_in(&self, namespace: &Str, list: ObjectSet<dyn AnyObject>) -> Vec<TransformError>;
    /// Records that a namespace has not changed up to this version; all namespaces if it is empty.
    fn bookmark_in(&self, namespace: &Str, version: ResourceVersion);
}

impl NamespaceQueue for RealFifo<dyn AnyObject> {
    fn await_lists_of(&self, namespaces: Vec<Str>) {
        RealFifo::await_lists_of(self, namespaces);
    }

    fn replace_in(&self, namespace: &Str, list: ObjectSet<dyn AnyObject>) -> Vec<TransformError> {
        RealFifo::replace_in(self, namespace.clone(), list)
    }

    fn bookmark_in(&self, namespace: &Str, version: ResourceVersion) {
        RealFifo::bookmark_in(self, namespace.clone(), version);
    }
}

impl NamespaceQueue for DeltaFifo<dyn AnyObject> {
    fn await_lists_of(&self, namespaces: Vec<Str>) {
        DeltaFifo::await_lists_of(self, namespaces);
    }

    fn replace_in(&self, namespace: &Str, list: ObjectSet<dyn AnyObject>) -> Vec<TransformError> {
        DeltaFifo::replace_in(self, namespace, list)
    }

    fn bookmark_in(&self, namespace: &Str, version: ResourceVersion) {
        DeltaFifo::bookmark_in(self, namespace, version);
    }
}

pub(super) fn queue(kind: QueueKind, known: Arc<dyn KnownObjects<dyn AnyObject>>) -> Arc<AnyQueue> {
    match kind {
        // A `RealFifo` passes lists on as one delta, so it needs no known objects here.
        QueueKind::InOrder => Arc::new(RealFifo::new(RealFifoOptions::default())),
        QueueKind::DeltaFifo => {
            let options = DeltaFifoOptions::default().known(known).emit_replaced().emit_bookmarks();
            Arc::new(DeltaFifo::new(options))
        }
    }
}

/// A store as `KnownObjects` of a type-erased queue.
pub(super) struct Known<T>(pub(super) Store<T>);

impl<T: Object> KnownObjects<dyn AnyObject> for Known<T> {
    fn get_by_key(&self, key: &ObjectKey) -> Option<Arc<dyn AnyObject>> {
        Some(self.0.get_by_key(key)?)
    }

    fn get(&self, object: &dyn AnyObject) -> Option<Arc<dyn AnyObject>> {
        Some(self.0.find(object.namespace(), object.name())?)
    }

    fn list_keys(&self) -> Vec<ObjectKey> {
        self.0.known_keys()
    }

    fn contains(&self, key: &ObjectKey) -> bool {
        KnownObjects::contains(&self.0, key)
    }
}

/// Connects the typed reflector of one namespace to the type-erased queue.
pub(super) struct Feed<T> {
    pub(super) queue: Arc<AnyQueue>,
    pub(super) store: Store<T>,
    /// The namespace of the reflector; empty for all.
    pub(super) namespace: Str,
}

impl<T: Object> ReflectorStore<T> for Feed<T> {
    fn add(&self, object: Arc<T>) -> Result<(), TransformError> {
        self.queue.add(object)
    }

    fn update(&self, object: Arc<T>) -> Result<(), TransformError> {
        self.queue.update(object)
    }

    fn delete(&self, object: Arc<T>) -> Result<(), TransformError> {
        self.queue.delete(object)
    }

    fn delete_key(&self, key: ObjectKey) {
        self.queue.delete_key(key);
    }

    fn mark_undecodable(&self, object: ObjectIdentity) {
        self.queue.mark_undecodable(object);
    }

    fn replace(&self, list: ObjectSet<T>) -> Vec<TransformError> {
        self.queue.replace_in(&self.namespace, list.map(|object| object as Arc<dyn AnyObject>))
    }

    fn resync(&self) {
        self.queue.resync();
    }

    fn bookmark(&self, version: ResourceVersion) {
        self.queue.bookmark_in(&self.namespace, version);
    }

    fn known(&self, object: &T) -> Option<Arc<T>> {
        self.store.get(object)
    }

    fn is_due(&self) -> bool {
        self.queue.is_due()
    }

    fn is_full(&self) -> bool {
        self.queue.is_full()
    }

    fn room(&self) -> BoxFuture<'_, ()> {
        self.queue.room()
    }
}
