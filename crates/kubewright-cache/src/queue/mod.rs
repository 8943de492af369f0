//! Queues between a reflector, which learns of changes, and a consumer, which applies them to a store.
//!
//! [`RealFifo`] is what informers use by default: each change in the order it happened. [`DeltaFifo`] gathers the changes of
//! an object until its turn comes; [`Fifo`] keeps the newest state only.

mod delta_fifo;
mod fifo;
mod populated;
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
use crate::{Deleted, Delta, ObjectSet};

/// A future in a box, so that traits with asynchronous methods can be objects.
pub type BoxFuture<'a, R> = Pin<Box<dyn Future<Output = R> + Send + 'a>>;

/// Changes an object on its way into the cache, for example to drop fields that nobody reads.
/// Called once for each state.
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
    // One object that it was not made for must not end the cache of all.
    let transformed = catch_unwind(AssertUnwindSafe(|| transform(Arc::unwrap_or_clone(object))));
    transformed
        .unwrap_or_else(|_| Err("it panicked".into()))
        .map(Arc::new)
        .map_err(|source| TransformError { object: identity, source })
}

/// A transform as queues keep it, which do not know the size of their objects.
type SharedTransform<T> = Arc<dyn Fn(Arc<T>) -> Result<Arc<T>, TransformError> + Send + Sync>;

fn shareable<T: Object>(transform: Transform<T>) -> SharedTransform<T> {
    let transform = Some(transform);
    Arc::new(move |object| transformed(&transform, object))
}

/// An object after a transform, if there is one.
fn through<T: ?Sized>(transform: &Option<SharedTransform<T>>, object: Arc<T>) -> Result<Arc<T>, TransformError> {
    match transform {
        Some(transform) => transform(object),
        None => Ok(object),
    }
}

/// The set after a transform, if there is one, and the errors. Objects for which it fails are
/// marked in the set.
fn all_through<T: ?Sized>(
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
        match through(transform, object) {
            Ok(object) => transformed.push(object),
            Err(error) => {
                undecodable.push(error.object.clone());
                errors.push(error);
            }
        }
    }
    (ObjectSet { objects: transformed, undecodable, version }, errors)
}

/// The queue was closed, and nothing is left in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the queue is closed")]
#[doc(alias = "ErrFIFOClosed")]
pub struct QueueClosed;

/// Where a reflector reports changes: a store, or the queue before one.
pub trait ReflectorStore<T: ?Sized>: Send + Sync + 'static {
    /// An object was added.
    ///
    /// # Errors
    /// If a transform fails. Then the object is [marked](Self::mark_undecodable) instead.
    fn add(&self, object: Arc<T>) -> Result<(), TransformError>;

    /// An object was modified.
    ///
    /// # Errors
    /// If a transform fails. Then the object is [marked](Self::mark_undecodable) instead.
    fn update(&self, object: Arc<T>) -> Result<(), TransformError>;

    /// An object was deleted.
    ///
    /// # Errors
    /// If a transform fails. Then the object is [deleted by its key](Self::delete_key) instead.
    fn delete(&self, object: Arc<T>) -> Result<(), TransformError>;

    /// An object was deleted whose final state is not available.
    fn delete_key(&self, key: ObjectKey);

    /// An object exists in a state that cannot be decoded or transformed.
    ///
    /// Its last good state stays, unless the uid shows that it belongs to another object: that one
    /// was deleted.
    fn mark_undecodable(&self, object: ObjectIdentity);

    /// These objects exist and no others. Returns the transforms that failed; their objects are
    /// marked.
    fn replace(&self, list: ObjectSet<T>) -> Vec<TransformError>;

    /// Replays all objects to the consumer, changed or not.
    fn resync(&self);

    /// Nothing has changed up to this version. Ignored by default.
    fn bookmark(&self, version: ResourceVersion) {
        let _ = version;
    }

    /// What the store has under the key of `object`, so that a list need not bring in what is here already.
    fn known(&self, object: &T) -> Option<Arc<T>> {
        let _ = object;
        None
    }

    /// Whether whoever processes changes should have its turn before more come. Never by default.
    fn is_due(&self) -> bool {
        false
    }

    /// Whether more should wait for [`room`](Self::room). Never by default.
    fn is_full(&self) -> bool {
        false
    }

    /// Resolves when there is room again. Cancel safe.
    fn room(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// A queue of deltas with one consumer.
pub trait Queue<T: ?Sized>: ReflectorStore<T> {
    /// Waits for what is next, takes it out and hands it to `process`, with whether it is part of the first list.
    ///
    /// Cancel safe: what is taken out is processed.
    ///
    /// # Errors
    /// If the queue is closed and empty.
    fn pop<'a>(&'a self, process: &'a mut Process<'_, T>) -> BoxFuture<'a, Result<(), QueueClosed>>;

    /// Puts back what [`pop`](Self::pop) handed out, before newer deltas of the same objects.
    ///
    /// `is_in_initial_list` is what `process` was called with. Must not be called by `process`.
    fn requeue(&self, deltas: Vec<Delta<T>>, is_in_initial_list: bool);

    /// Whether the first list has been popped.
    fn has_synced(&self) -> bool;

    /// Takes nothing more; what is in can still be popped.
    fn close(&self);

    /// How many deltas, or keys with deltas, wait.
    fn len(&self) -> usize;

    /// Whether nothing waits.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What is done with deltas that come out of a queue.
#[doc(alias = "PopProcessFunc")]
pub type Process<'a, T> = dyn FnMut(Vec<Delta<T>>, bool) + Send + 'a;

/// What a queue asks the store behind it.
#[doc(alias = "KeyListerGetter")]
pub trait KnownObjects<T: ?Sized>: Send + Sync + 'static {
    /// The object of this key.
    fn get_by_key(&self, key: &ObjectKey) -> Option<Arc<T>>;

    /// The object that has the key of `object`.
    fn get(&self, object: &T) -> Option<Arc<T>>;

    /// The keys of all objects, those that are only known to exist included.
    fn list_keys(&self) -> Vec<ObjectKey>;

    /// Whether the object is known to exist, be its state known or not.
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

/// A reflector can feed a store without a queue between.
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

/// Whether an object of this key is in a namespace, of which the empty one stands for all.
fn is_in(namespace: &str, key: &ObjectKey) -> bool {
    namespace.is_empty() || *key.namespace() == *namespace
}

/// A deletion that nobody saw, with what the store behind a queue knows of the object.
fn tombstone<T: ?Sized>(key: ObjectKey, object: Option<Arc<T>>) -> Delta<T> {
    Delta::Deleted(Deleted::LastKnown { key, object })
}

impl<T: ?Sized> fmt::Debug for dyn KnownObjects<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KnownObjects")
    }
}
