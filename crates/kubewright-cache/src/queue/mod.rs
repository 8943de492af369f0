//! Queues between a reflector, which receives changes, and a consumer, which applies them to a
//! store.
//!
//! [`RealFifo`], the default of informers, keeps every change in order. [`DeltaFifo`] groups
//! changes by object. [`Fifo`] keeps only the newest state.

mod delta_fifo;
mod fifo;
mod initial_list;
mod real_fifo;

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;

use kubewright_core::stream::ObjectIdentity;
use kubewright_core::{Object, ObjectKey, ResourceVersion};

pub use delta_fifo::{DeltaFifo, DeltaFifoOptions};
pub use fifo::Fifo;
pub use real_fifo::{RealFifo, RealFifoOptions};

use crate::store::Store;
use crate::{AnyObject, Deleted, Delta, ObjectSet};

/// A boxed future, for object-safe asynchronous methods.
pub type BoxFuture<'a, R> = Pin<Box<dyn Future<Output = R> + Send + 'a>>;

/// Changes an object before it enters the cache, for example to drop unused fields. Called once per
/// state.
///
/// A state for which it fails or panics does not enter the cache. The last good state of the object
/// stays, and its key is [marked](crate::Store::is_undecodable).
#[doc(alias = "TransformFunc")]
pub type Transform<T> = Arc<dyn Fn(T) -> Result<T, Box<dyn Error + Send + Sync>> + Send + Sync>;

/// A transform failed or panicked.
#[derive(Debug, thiserror::Error)]
#[error("cannot transform {}", object.key)]
pub struct TransformError {
    /// The object.
    pub object: ObjectIdentity,
    source: Box<dyn Error + Send + Sync>,
}

/// Applies a transform, if there is one.
pub(crate) fn transformed<T: Object>(
    transform: &Option<Transform<T>>,
    object: Arc<T>,
) -> Result<Arc<T>, TransformError> {
    let Some(transform) = transform else { return Ok(object) };
    let identity = ObjectIdentity::of(&*object);
    // A panic for one object must not end the cache of all objects.
    let transformed = catch_unwind(AssertUnwindSafe(|| transform(Arc::unwrap_or_clone(object))));
    transformed
        .unwrap_or_else(|_| Err("it panicked".into()))
        .map(Arc::new)
        .map_err(|source| TransformError { object: identity, source })
}

/// A transform for queues of unsized objects.
type SharedTransform<T> = Arc<dyn Fn(Arc<T>) -> Result<Arc<T>, TransformError> + Send + Sync>;

fn erase_transform<T: Object>(transform: Transform<T>) -> SharedTransform<T> {
    let transform = Some(transform);
    Arc::new(move |object| transformed(&transform, object))
}

/// Applies the transform, if there is one.
fn apply_transform<T: ?Sized>(
    transform: &Option<SharedTransform<T>>,
    object: Arc<T>,
) -> Result<Arc<T>, TransformError> {
    match transform {
        Some(transform) => transform(object),
        None => Ok(object),
    }
}

/// The delta that reports an added or changed object, after its transform. If that fails, the delta
/// is [`Delta::Undecodable`].
fn changed<T: AnyObject + ?Sized>(
    transform: &Option<SharedTransform<T>>,
    object: Arc<T>,
    delta: fn(Arc<T>) -> Delta<T>,
) -> (Delta<T>, Result<(), TransformError>) {
    match apply_transform(transform, object) {
        Ok(object) => (delta(object), Ok(())),
        Err(error) => (Delta::Undecodable(error.object.clone()), Err(error)),
    }
}

/// The delta that reports a deleted object, after its transform. If that fails, the delta is a
/// tombstone.
fn deleted<T: AnyObject + ?Sized>(
    transform: &Option<SharedTransform<T>>,
    object: Arc<T>,
) -> (Delta<T>, Result<(), TransformError>) {
    let key = object.key();
    match apply_transform(transform, object) {
        Ok(object) => (Delta::Deleted(Deleted::Final(object)), Ok(())),
        Err(error) => (tombstone(key, None), Err(error)),
    }
}

/// Applies the transform to a list, if there is one, and returns the errors. Objects for which it
/// fails are marked in the set.
fn apply_transform_to_list<T: ?Sized>(
    transform: &Option<SharedTransform<T>>,
    list: ObjectSet<T>,
) -> (ObjectSet<T>, Vec<TransformError>) {
    if transform.is_none() {
        return (list, Vec::new());
    }
    let ObjectSet { objects, mut undecodable, version } = list;
    let mut transformed = Vec::with_capacity(objects.len());
    let mut errors = Vec::new();
    for object in objects {
        match apply_transform(transform, object) {
            Ok(object) => transformed.push(object),
            Err(error) => {
                undecodable.push(error.object.clone());
                errors.push(error);
            }
        }
    }
    (ObjectSet { objects: transformed, undecodable, version }, errors)
}

/// The queue was closed and is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the queue is closed")]
#[doc(alias = "ErrFIFOClosed")]
pub struct QueueClosed;

/// The target of a reflector: a store, or the queue in front of one.
pub trait ReflectorStore<T: ?Sized>: Send + Sync + 'static {
    /// Reports an added object.
    ///
    /// # Errors
    /// If a transform fails. Then the object is [marked](Self::mark_undecodable) instead.
    fn add(&self, object: Arc<T>) -> Result<(), TransformError>;

    /// Reports a modified object.
    ///
    /// # Errors
    /// If a transform fails. Then the object is [marked](Self::mark_undecodable) instead.
    fn update(&self, object: Arc<T>) -> Result<(), TransformError>;

    /// Reports a deleted object.
    ///
    /// # Errors
    /// If a transform fails. Then the object is [deleted by its key](Self::delete_key) instead.
    fn delete(&self, object: Arc<T>) -> Result<(), TransformError>;

    /// Reports a deleted object whose final state is not available.
    fn delete_key(&self, key: ObjectKey);

    /// Reports an object that exists in a state that cannot be decoded or transformed.
    ///
    /// Its last good state stays, unless that has a different uid: then the old object was deleted.
    fn mark_undecodable(&self, object: ObjectIdentity);

    /// Reports the result of a list: exactly these objects exist. Returns the transforms that
    /// failed; their objects are marked.
    fn replace(&self, list: ObjectSet<T>) -> Vec<TransformError>;

    /// Resyncs all objects to the consumer, changed or not.
    fn resync(&self);

    /// Reports that nothing has changed up to this version. Ignored by default.
    fn bookmark(&self, version: ResourceVersion) {
        let _ = version;
    }

    /// The stored object with the key of `object`, so that a list can reuse it.
    fn known(&self, object: &T) -> Option<Arc<T>> {
        let _ = object;
        None
    }

    /// Whether the consumer should run before more changes are reported. False by default.
    fn is_due(&self) -> bool {
        false
    }

    /// Whether the reflector should wait for [`room`](Self::room). False by default.
    fn is_full(&self) -> bool {
        false
    }

    /// Resolves when the queue accepts changes again. Cancel safe.
    fn room(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// A queue of deltas with one consumer.
pub trait Queue<T: ?Sized>: ReflectorStore<T> {
    /// Waits for the next deltas, removes them and passes them to `process`, with a flag that tells
    /// whether they belong to the initial list.
    ///
    /// Cancel safe: deltas that were removed are processed.
    ///
    /// # Errors
    /// If the queue is closed and empty.
    fn pop<'a>(&'a self, process: &'a mut PopProcess<'_, T>) -> BoxFuture<'a, Result<(), QueueClosed>>;

    /// Puts popped deltas back, before newer deltas of the same objects.
    ///
    /// `is_in_initial_list` is the flag that `process` was called with. Must not be called by
    /// `process`.
    fn requeue(&self, deltas: Vec<Delta<T>>, is_in_initial_list: bool);

    /// Whether the initial list has been popped.
    fn has_synced(&self) -> bool;

    /// Rejects new deltas; queued ones can still be popped.
    fn close(&self);

    /// Number of queued deltas, or of keys with deltas.
    fn len(&self) -> usize;

    /// Whether the queue is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Processes popped deltas.
#[doc(alias = "PopProcessFunc")]
pub type PopProcess<'a, T> = dyn FnMut(Vec<Delta<T>>, bool) + Send + 'a;

/// The consumer's store, as a queue sees it.
#[doc(alias = "KeyListerGetter")]
pub trait KnownObjects<T: ?Sized>: Send + Sync + 'static {
    /// The object with this key.
    fn get_by_key(&self, key: &ObjectKey) -> Option<Arc<T>>;

    /// The object that has the key of `object`.
    fn get(&self, object: &T) -> Option<Arc<T>>;

    /// The keys of all objects, including those that exist without a known state.
    fn list_keys(&self) -> Vec<ObjectKey>;

    /// Whether the object exists, with a known state or without.
    fn contains(&self, key: &ObjectKey) -> bool {
        self.get_by_key(key).is_some()
    }
}

impl<T: Object> KnownObjects<T> for Store<T> {
    fn get_by_key(&self, key: &ObjectKey) -> Option<Arc<T>> {
        Store::get_by_key(self, key)
    }

    fn get(&self, object: &T) -> Option<Arc<T>> {
        Store::get(self, object)
    }

    fn list_keys(&self) -> Vec<ObjectKey> {
        self.known_keys()
    }

    fn contains(&self, key: &ObjectKey) -> bool {
        self.get_by_key(key).is_some() || self.is_undecodable(key)
    }
}

/// A reflector can feed a store directly.
impl<T: Object> ReflectorStore<T> for Store<T> {
    fn add(&self, object: Arc<T>) -> Result<(), TransformError> {
        Store::add(self, object);
        Ok(())
    }

    fn update(&self, object: Arc<T>) -> Result<(), TransformError> {
        Store::update(self, object);
        Ok(())
    }

    fn delete(&self, object: Arc<T>) -> Result<(), TransformError> {
        Store::delete(self, object);
        Ok(())
    }

    fn delete_key(&self, key: ObjectKey) {
        Store::delete_key(self, &key);
    }

    fn mark_undecodable(&self, object: ObjectIdentity) {
        self.transaction(|transaction| transaction.mark_undecodable(object));
    }

    fn replace(&self, list: ObjectSet<T>) -> Vec<TransformError> {
        self.transaction(|transaction| transaction.replace(list));
        Vec::new()
    }

    fn resync(&self) {}

    fn bookmark(&self, version: ResourceVersion) {
        Store::bookmark(self, version);
    }

    fn known(&self, object: &T) -> Option<Arc<T>> {
        Store::get(self, object)
    }
}

/// Whether the key is in the namespace; the empty namespace contains all.
fn is_in(namespace: &str, key: &ObjectKey) -> bool {
    namespace.is_empty() || *key.namespace() == *namespace
}

/// A missed deletion, with the last known state of the object.
fn tombstone<T: ?Sized>(key: ObjectKey, object: Option<Arc<T>>) -> Delta<T> {
    Delta::Deleted(Deleted::LastKnown { key, object })
}

impl<T: ?Sized> fmt::Debug for dyn KnownObjects<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KnownObjects")
    }
}
