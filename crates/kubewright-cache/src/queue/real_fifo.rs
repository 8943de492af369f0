//! Every change separately, in the order in which the reflector received it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kubewright_core::stream::ObjectIdentity;
use kubewright_core::{Object, ObjectKey, ResourceVersion, Str, hash};
use tokio::sync::Notify;

use super::initial_list::InitialList;
use super::{
    BoxFuture, KnownObjects, PopProcess, Queue, QueueClosed, ReflectorStore, SharedTransform, Transform,
    TransformError, apply_transform_to_list, changed, deleted, erase_transform, is_in, tombstone,
};
use crate::{AnyObject, Deleted, Delta, ObjectSet};

/// Maximum number of changes per batch.
const BATCH: usize = 1000;
/// With this many queued changes, the reflector must wait.
const HIGH_WATER_MARK: usize = 2 * BATCH;
/// With this many queued changes, the consumer should run. The number is small so that the
/// allocator can reuse the blocks of a freed object for one of the next objects; with a hundred
/// objects it merges and splits blocks instead.
const DUE: usize = 16;

/// Every change in order, for one consumer. A handle: clones share one queue.
///
/// Nothing is merged: consumers see every change in order, across objects as well. Changes of
/// different objects are popped in batches, which the consumer can apply together. A list is one
/// change that states which objects exist; the consumer derives additions and deletions.
/// Backpressure bounds the queue: a reflector that is faster than the consumer has to wait.
#[doc(alias = "RealFIFO")]
pub struct RealFifo<T: ?Sized> {
    shared: Arc<SharedRealFifo<T>>,
}

struct SharedRealFifo<T: ?Sized> {
    state: Mutex<RealFifoState<T>>,
    changed: Notify,
    drained: Notify,
    /// Held while a consumer processes.
    consumer: tokio::sync::Mutex<()>,
    options: RealFifoOptions<T>,
}

/// Options of a [`RealFifo`].
pub struct RealFifoOptions<T: ?Sized> {
    known_objects: Option<Arc<dyn KnownObjects<T>>>,
    item_by_item: bool,
    transform: Option<SharedTransform<T>>,
}

impl<T: ?Sized> Default for RealFifoOptions<T> {
    fn default() -> Self {
        RealFifoOptions { known_objects: None, item_by_item: false, transform: None }
    }
}

impl<T: ?Sized> RealFifoOptions<T> {
    /// The consumer's store, from which objects that a list repeats are reused. With
    /// [`item_by_item`](Self::item_by_item), it also supplies tombstones and the objects to resync.
    /// None by default.
    #[must_use]
    pub fn known_objects(mut self, known: impl KnownObjects<T>) -> Self {
        self.known_objects = Some(Arc::new(known));
        self
    }

    /// Lists and resyncs are popped as changes of single objects instead of as one change. Off by
    /// default.
    #[must_use]
    #[doc(alias = "AtomicEvents")]
    pub fn item_by_item(mut self) -> Self {
        self.item_by_item = true;
        self
    }

    /// Transforms each object once, when it is added. None by default.
    #[must_use]
    pub fn transform(mut self, transform: Transform<T>) -> Self
    where
        T: Object,
    {
        self.transform = Some(erase_transform(transform));
        self
    }
}

struct RealFifoState<T: ?Sized> {
    line: VecDeque<Delta<T>>,
    /// Hashes of the keys of the current batch; kept to reuse its memory.
    hashes: HashSet<u32>,
    initial_list: InitialList,
    is_closed: bool,
}

impl<T: ?Sized> Clone for RealFifo<T> {
    fn clone(&self) -> Self {
        RealFifo { shared: self.shared.clone() }
    }
}

impl<T: AnyObject + ?Sized> RealFifo<T> {
    /// An empty queue.
    #[must_use]
    pub fn new(options: RealFifoOptions<T>) -> Self {
        let state = RealFifoState {
            line: VecDeque::new(),
            hashes: HashSet::new(),
            initial_list: InitialList::default(),
            is_closed: false,
        };
        RealFifo {
            shared: Arc::new(SharedRealFifo {
                state: Mutex::new(state),
                changed: Notify::new(),
                drained: Notify::new(),
                consumer: tokio::sync::Mutex::new(()),
                options,
            }),
        }
    }

    /// Queues the addition of an object.
    ///
    /// # Errors
    /// If the transform fails. Then [`Delta::Undecodable`] is queued.
    pub fn add(&self, object: impl Into<Arc<T>>) -> Result<(), TransformError> {
        self.enqueue_transformed(changed(&self.shared.options.transform, object.into(), Delta::Added))
    }

    /// Queues a change of an object.
    ///
    /// # Errors
    /// If the transform fails. Then [`Delta::Undecodable`] is queued.
    pub fn update(&self, object: impl Into<Arc<T>>) -> Result<(), TransformError> {
        self.enqueue_transformed(changed(&self.shared.options.transform, object.into(), Delta::Updated))
    }

    /// Queues the deletion of an object, known or not.
    ///
    /// # Errors
    /// If the transform fails. Then a tombstone is queued.
    pub fn delete(&self, object: impl Into<Arc<T>>) -> Result<(), TransformError> {
        self.enqueue_transformed(deleted(&self.shared.options.transform, object.into()))
    }

    /// Queues a tombstone, for a deletion whose final state is not available.
    pub fn delete_key(&self, key: ObjectKey) {
        self.enqueue(tombstone(key, None));
    }

    /// Queues [`Delta::Undecodable`], for an object that exists in a state that cannot be decoded.
    pub fn mark_undecodable(&self, object: ObjectIdentity) {
        self.enqueue(Delta::Undecodable(object));
    }

    /// Queues the result of a list: exactly these objects exist.
    ///
    /// Returns the transforms that failed; their objects are marked in the list.
    pub fn replace(
        &self,
        objects: impl IntoIterator<Item = Arc<T>>,
        version: impl Into<ResourceVersion>,
    ) -> Vec<TransformError> {
        self.replace_in(Str::new(), ObjectSet::new(objects, version))
    }

    /// Like [`replace`](Self::replace), for one namespace; other namespaces stay as they are. The
    /// empty namespace means all.
    pub fn replace_in(&self, namespace: Str, list: ObjectSet<T>) -> Vec<TransformError> {
        let options = &self.shared.options;
        let (list, errors) = apply_transform_to_list(&options.transform, list);
        self.change(|state| {
            if options.item_by_item {
                let gone = self.tombstones(state, &list, &namespace);
                state.line.extend(gone);
                state.line.extend(list.objects.into_iter().map(Delta::Replaced));
                state.line.extend(list.undecodable.into_iter().map(Delta::Undecodable));
            } else {
                state.line.push_back(Delta::ReplacedAll { namespace: namespace.clone(), list });
            }
            let count = state.line.len();
            state.initial_list.note_list(&namespace, count);
        });
        errors
    }

    /// Queues a resync of all objects.
    pub fn resync(&self) {
        if !self.shared.options.item_by_item {
            return self.change(|state| state.line.push_back(Delta::SyncAll));
        }
        let Some(known) = &self.shared.options.known_objects else { return };
        self.change(|state| {
            let queued: HashSet<ObjectKey> = state.line.iter().filter_map(Delta::key).collect();
            let keys = known.list_keys().into_iter().filter(|key| !queued.contains(key));
            state.line.extend(keys.filter_map(|key| known.get_by_key(&key)).map(Delta::Sync));
        });
    }

    /// Queues a bookmark. Ignored with [`item_by_item`](RealFifoOptions::item_by_item).
    pub fn bookmark(&self, version: impl Into<ResourceVersion>) {
        self.bookmark_in(Str::new(), version);
    }

    /// Like [`bookmark`](Self::bookmark), for one namespace. The empty namespace means all.
    pub fn bookmark_in(&self, namespace: Str, version: impl Into<ResourceVersion>) {
        if !self.shared.options.item_by_item {
            let version = version.into();
            self.change(|state| state.line.push_back(Delta::Bookmark { namespace, version }));
        }
    }

    /// Declares that the initial list consists of one list per namespace, each passed to
    /// [`replace_in`](Self::replace_in).
    pub fn await_lists_of(&self, namespaces: Vec<Str>) {
        self.lock().initial_list.await_lists_of(namespaces);
    }

    /// Waits for changes, removes as many as can be applied together and passes them to `process`,
    /// with a flag that tells whether they belong to the initial list.
    ///
    /// A batch contains changes of different objects, or a single change that concerns all objects.
    /// The queue is not locked during the call, but a second consumer waits. Cancel safe: changes
    /// that were removed are processed.
    ///
    /// # Errors
    /// If the queue is closed and empty.
    #[doc(alias = "PopBatch")]
    pub async fn pop<R>(&self, process: impl FnOnce(Vec<Delta<T>>, bool) -> R) -> Result<R, QueueClosed> {
        let consumer = self.shared.consumer.lock().await;
        loop {
            let changed = self.shared.changed.notified();
            // Read together, so that changes queued before the queue was closed are not missed.
            let (batch, is_in_initial_list, is_closed) = {
                let mut state = self.lock();
                let is_in_initial_list = !state.initial_list.has_synced();
                (state.take_batch(), is_in_initial_list, state.is_closed)
            };
            if !batch.is_empty() {
                self.shared.drained.notify_waiters();
                let count = batch.len();
                // Also counted when `process` panics, because the batch is not processed again.
                let done = OnDrop(|| self.lock().initial_list.popped(count));
                let result = process(batch, is_in_initial_list);
                drop(done);
                drop(consumer);
                return Ok(result);
            }
            if is_closed {
                return Err(QueueClosed);
            }
            changed.await;
        }
    }

    /// Whether the initial list has been processed; true immediately if changes came before a list.
    pub fn has_synced(&self) -> bool {
        self.lock().initial_list.has_synced()
    }

    /// Closes the queue. Waiting consumers return once it is empty; waiting reflectors return
    /// immediately.
    pub fn close(&self) {
        self.change(|state| state.is_closed = true);
        // No consumer may be left to make room.
        self.shared.drained.notify_waiters();
    }

    /// Whether the queue is closed.
    pub fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// Number of queued changes.
    pub fn len(&self) -> usize {
        self.lock().line.len()
    }

    /// Whether no change is queued.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tombstones for objects of a namespace that its list no longer contains: queued objects
    /// first, then objects that only the consumer has.
    fn tombstones(&self, state: &RealFifoState<T>, list: &ObjectSet<T>, namespace: &str) -> Vec<Delta<T>> {
        let mut listed: HashSet<ObjectKey> = list.objects.iter().map(|object| object.key()).collect();
        listed.extend(list.undecodable.iter().map(|object| object.key.clone()));
        // Per key: whether its last delta is a deletion, and its newest queued state.
        let mut queued: HashMap<ObjectKey, (bool, Option<&Arc<T>>)> = HashMap::new();
        let mut order: Vec<ObjectKey> = Vec::new();
        for delta in &state.line {
            let Some(key) = delta.key().filter(|key| is_in(namespace, key)) else { continue };
            let (is_deleted, newest) = queued.entry(key.clone()).or_insert_with(|| {
                order.push(key);
                (false, None)
            });
            *is_deleted = delta.is_deletion();
            *newest = delta.object().or(*newest);
        }
        let mut gone = Vec::new();
        for key in order.iter().filter(|key| !listed.contains(key)) {
            let (is_deleted, newest) = queued[key];
            if !is_deleted {
                gone.push(tombstone(key.clone(), newest.cloned()));
            }
        }
        if let Some(known) = &self.shared.options.known_objects {
            let is_gone = |key: &ObjectKey| is_in(namespace, key) && !listed.contains(key) && !queued.contains_key(key);
            let keys = known.list_keys().into_iter().filter(is_gone);
            gone.extend(keys.map(|key| tombstone(key.clone(), known.get_by_key(&key))));
        }
        gone
    }

    fn enqueue_transformed(
        &self,
        (delta, result): (Delta<T>, Result<(), TransformError>),
    ) -> Result<(), TransformError> {
        self.enqueue(delta);
        result
    }

    fn enqueue(&self, delta: Delta<T>) {
        self.change(|state| {
            state.initial_list.note_change();
            state.line.push_back(delta);
        });
    }

    fn change(&self, change: impl FnOnce(&mut RealFifoState<T>)) {
        change(&mut self.lock());
        self.shared.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, RealFifoState<T>> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: AnyObject + ?Sized> RealFifoState<T> {
    fn take_batch(&mut self) -> Vec<Delta<T>> {
        // A batch never crosses the end of the initial list, so it belongs to that list entirely or
        // not at all.
        let limit = match self.initial_list.pending() {
            0 => BATCH,
            pending => BATCH.min(pending),
        };
        self.hashes.clear();
        let mut count = 0;
        for delta in self.line.iter().take(limit) {
            let key = match delta {
                Delta::Deleted(Deleted::LastKnown { key, .. }) | Delta::Undecodable(ObjectIdentity { key, .. }) => {
                    Some((key.namespace().as_str(), key.name().as_str()))
                }
                delta => delta.object().map(|object| (object.namespace(), object.name())),
            };
            match key {
                // A hash collision only ends the batch early.
                Some((namespace, name)) if self.hashes.insert(hash::key(namespace, name)) => count += 1,
                None if count == 0 => {
                    count = 1;
                    break;
                }
                _ => break,
            }
        }
        let batch: Vec<Delta<T>> = self.line.drain(..count).collect();
        // Releases the memory of a burst.
        if self.line.is_empty() && self.line.capacity() > HIGH_WATER_MARK {
            (self.line, self.hashes) = (VecDeque::new(), HashSet::new());
        }
        batch
    }
}

/// Calls a function on drop.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

impl<T: AnyObject + ?Sized> ReflectorStore<T> for RealFifo<T> {
    fn add(&self, object: Arc<T>) -> Result<(), TransformError> {
        RealFifo::add(self, object)
    }

    fn update(&self, object: Arc<T>) -> Result<(), TransformError> {
        RealFifo::update(self, object)
    }

    fn delete(&self, object: Arc<T>) -> Result<(), TransformError> {
        RealFifo::delete(self, object)
    }

    fn delete_key(&self, key: ObjectKey) {
        RealFifo::delete_key(self, key);
    }

    fn mark_undecodable(&self, object: ObjectIdentity) {
        RealFifo::mark_undecodable(self, object);
    }

    fn replace(&self, list: ObjectSet<T>) -> Vec<TransformError> {
        self.replace_in(Str::new(), list)
    }

    fn resync(&self) {
        RealFifo::resync(self);
    }

    fn bookmark(&self, version: ResourceVersion) {
        RealFifo::bookmark(self, version);
    }

    fn known(&self, object: &T) -> Option<Arc<T>> {
        self.shared.options.known_objects.as_ref()?.get(object)
    }

    fn is_due(&self) -> bool {
        self.len() >= DUE
    }

    fn is_full(&self) -> bool {
        self.len() >= HIGH_WATER_MARK
    }

    fn room(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            loop {
                let drained = self.shared.drained.notified();
                if !self.is_full() || self.is_closed() {
                    return;
                }
                drained.await;
            }
        })
    }
}

impl<T: AnyObject + ?Sized> Queue<T> for RealFifo<T> {
    fn pop<'a>(&'a self, process: &'a mut PopProcess<'_, T>) -> BoxFuture<'a, Result<(), QueueClosed>> {
        Box::pin(RealFifo::pop(self, process))
    }

    /// Puts the deltas at the front, to keep the order of changes.
    fn requeue(&self, deltas: Vec<Delta<T>>, is_in_initial_list: bool) {
        self.change(|state| {
            let pending = state.initial_list.pending() + deltas.len();
            deltas.into_iter().rev().for_each(|delta| state.line.push_front(delta));
            if is_in_initial_list {
                state.initial_list.requeued(pending);
            }
        });
    }

    fn has_synced(&self) -> bool {
        RealFifo::has_synced(self)
    }

    fn close(&self) {
        RealFifo::close(self);
    }

    fn len(&self) -> usize {
        RealFifo::len(self)
    }
}

impl<T: AnyObject + ?Sized> fmt::Debug for RealFifo<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RealFifo").field("deltas", &self.len()).finish_non_exhaustive()
    }
}

impl<T: ?Sized> fmt::Debug for RealFifoOptions<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RealFifoOptions").field("item_by_item", &self.item_by_item).finish_non_exhaustive()
    }
}
