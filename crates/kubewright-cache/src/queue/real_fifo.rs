//! Each change by itself, in the order in which the reflector learned of it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kubewright_core::stream::ObjectIdentity;
use kubewright_core::{Object, ObjectKey, ResourceVersion, Str, hash};
use tokio::sync::Notify;

use super::populated::Populated;
use super::{
    BoxFuture, KnownObjects, Process, Queue, QueueClosed, ReflectorStore, SharedTransform, Transform, TransformError,
    all_through, is_in, shareable, through, tombstone,
};
use crate::{AnyObject, Deleted, Delta, ObjectSet};

/// How many changes are handed out together at the most.
const BATCH: usize = 1000;
/// With this many waiting, whoever brings more is asked to wait.
const FULL: usize = 2 * BATCH;
/// With this many waiting, they are due. Few, so that the memory of an object that is let go is used again by one of the
/// next: of a hundred objects an allocator makes larger pieces, and takes those apart again.
const DUE: usize = 16;

/// Every change in order, for one consumer. A handle: clones share one queue.
///
/// Nothing is compressed: consumers see what happened as it happened, across objects as well. Changes of different objects
/// come out in batches, which the consumer can apply at once. A list is one change, which says what there is; what is
/// new or gone is for the consumer to find out. A reflector that is faster than the consumer has to wait, so that the
/// queue does not grow without bound.
#[doc(alias = "RealFIFO")]
pub struct RealFifo<T: ?Sized> {
    shared: Arc<Shared<T>>,
}

struct Shared<T: ?Sized> {
    state: Mutex<State<T>>,
    changed: Notify,
    drained: Notify,
    /// Held by the one who processes.
    consumer: tokio::sync::Mutex<()>,
    options: RealFifoOptions<T>,
}

/// Choices about a [`RealFifo`].
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
    /// What the consumer has: objects that a list repeats are taken from here. With
    /// [`item_by_item`](Self::item_by_item), tombstones and what to resync are found here as well. None by default.
    #[must_use]
    pub fn known_objects(mut self, known: impl KnownObjects<T>) -> Self {
        self.known_objects = Some(Arc::new(known));
        self
    }

    /// Lists and resyncs come out as changes of single objects instead of as one. Off by default.
    #[must_use]
    #[doc(alias = "AtomicEvents")]
    pub fn item_by_item(mut self) -> Self {
        self.item_by_item = true;
        self
    }

    /// Changes each object once on its way in. None by default.
    #[must_use]
    pub fn transform(mut self, transform: Transform<T>) -> Self
    where
        T: Object,
    {
        self.transform = Some(shareable(transform));
        self
    }
}

struct State<T: ?Sized> {
    line: VecDeque<Delta<T>>,
    /// Hashes of the keys of a batch while it is put together. Room for them is not made each time.
    hashes: HashSet<u32>,
    populated: Populated,
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
        let state =
            State { line: VecDeque::new(), hashes: HashSet::new(), populated: Populated::default(), is_closed: false };
        RealFifo {
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                changed: Notify::new(),
                drained: Notify::new(),
                consumer: tokio::sync::Mutex::new(()),
                options,
            }),
        }
    }

    /// An object was added.
    ///
    /// # Errors
    /// If the transform fails. Then [`Delta::Undecodable`] is queued.
    pub fn add(&self, object: impl Into<Arc<T>>) -> Result<(), TransformError> {
        self.enqueue_transformed(object.into(), Delta::Added)
    }

    /// An object was modified.
    ///
    /// # Errors
    /// If the transform fails. Then [`Delta::Undecodable`] is queued.
    pub fn update(&self, object: impl Into<Arc<T>>) -> Result<(), TransformError> {
        self.enqueue_transformed(object.into(), Delta::Updated)
    }

    /// An object was deleted, whether anybody knew of it or not.
    ///
    /// # Errors
    /// If the transform fails. Then a tombstone is queued.
    pub fn delete(&self, object: impl Into<Arc<T>>) -> Result<(), TransformError> {
        let object = object.into();
        let key = object.key();
        match through(&self.shared.options.transform, object) {
            Ok(object) => {
                self.enqueue(Delta::Deleted(Deleted::Final(object)));
                Ok(())
            }
            Err(error) => {
                self.delete_key(key);
                Err(error)
            }
        }
    }

    /// An object was deleted whose final state is not available: a tombstone is queued.
    pub fn delete_key(&self, key: ObjectKey) {
        self.enqueue(tombstone(key, None));
    }

    /// An object exists in a state that cannot be decoded: [`Delta::Undecodable`] is queued.
    pub fn mark_undecodable(&self, object: ObjectIdentity) {
        self.enqueue(Delta::Undecodable(object));
    }

    /// These objects exist and no others.
    ///
    /// Returns the transforms that failed; their objects are marked in the list.
    pub fn replace(
        &self,
        objects: impl IntoIterator<Item = Arc<T>>,
        version: impl Into<ResourceVersion>,
    ) -> Vec<TransformError> {
        self.replace_in(Str::new(), ObjectSet::new(objects, version))
    }

    /// The same for one namespace; other namespaces stay as they are. The empty namespace stands
    /// for all.
    pub fn replace_in(&self, namespace: Str, list: ObjectSet<T>) -> Vec<TransformError> {
        let options = &self.shared.options;
        let (list, errors) = all_through(&options.transform, list);
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
            state.populated.by_list(&namespace, count);
        });
        errors
    }

    /// Queues a reminder of all objects.
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

    /// Queues that nothing has changed up to this version; not [`item_by_item`](RealFifoOptions::item_by_item).
    pub fn bookmark(&self, version: impl Into<ResourceVersion>) {
        self.bookmark_in(Str::new(), version);
    }

    /// The same of one namespace. The empty one stands for all.
    pub fn bookmark_in(&self, namespace: Str, version: impl Into<ResourceVersion>) {
        if !self.shared.options.item_by_item {
            let version = version.into();
            self.change(|state| state.line.push_back(Delta::Bookmark { namespace, version }));
        }
    }

    /// The first list is one of each of these namespaces, which come by [`replace_in`](Self::replace_in).
    pub fn await_lists_of(&self, namespaces: Vec<Str>) {
        self.lock().populated.await_lists_of(namespaces);
    }

    /// Waits for changes, takes out as many as can be applied at once and hands them to `process`, with whether they are
    /// part of the first list.
    ///
    /// A batch has changes of different objects only, or is one change that concerns all. The queue is not locked meanwhile,
    /// but a second consumer waits. Cancel safe: what is taken out is processed.
    ///
    /// # Errors
    /// If the queue is closed and empty.
    #[doc(alias = "PopBatch")]
    pub async fn pop<R>(&self, process: impl FnOnce(Vec<Delta<T>>, bool) -> R) -> Result<R, QueueClosed> {
        let consumer = self.shared.consumer.lock().await;
        loop {
            let changed = self.shared.changed.notified();
            // At one moment: what comes before the queue is closed is not missed.
            let (batch, is_in_initial_list, is_closed) = {
                let mut state = self.lock();
                let is_in_initial_list = !state.populated.has_synced();
                (state.take_batch(), is_in_initial_list, state.is_closed)
            };
            if !batch.is_empty() {
                self.shared.drained.notify_waiters();
                let count = batch.len();
                // Also when `process` panics, for nobody would process these again.
                let done = OnDrop(|| self.lock().populated.popped(count));
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

    /// Whether all of the first list has been processed; true at once if changes came before a list.
    pub fn has_synced(&self) -> bool {
        self.lock().populated.has_synced()
    }

    /// Whoever waits for changes stops once none are left, and whoever waits for room at once.
    pub fn close(&self) {
        self.change(|state| state.is_closed = true);
        // Nobody may come to make room.
        self.shared.drained.notify_waiters();
    }

    /// Whether the queue is closed.
    pub fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// How many changes wait.
    pub fn len(&self) -> usize {
        self.lock().line.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Deletions of all in a namespace that its list no longer contains: first of what is queued, then of what only the consumer has.
    fn tombstones(&self, state: &State<T>, list: &ObjectSet<T>, namespace: &str) -> Vec<Delta<T>> {
        let mut listed: HashSet<ObjectKey> = list.objects.iter().map(|object| object.key()).collect();
        listed.extend(list.undecodable.iter().map(|object| object.key.clone()));
        // Whether the last delta of a key is a deletion, and the newest state that is queued.
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

    fn enqueue_transformed(&self, object: Arc<T>, delta: fn(Arc<T>) -> Delta<T>) -> Result<(), TransformError> {
        match through(&self.shared.options.transform, object) {
            Ok(object) => {
                self.enqueue(delta(object));
                Ok(())
            }
            Err(error) => {
                self.mark_undecodable(error.object.clone());
                Err(error)
            }
        }
    }

    fn enqueue(&self, delta: Delta<T>) {
        self.change(|state| {
            state.populated.by_change();
            state.line.push_back(delta);
        });
    }

    fn change(&self, change: impl FnOnce(&mut State<T>)) {
        change(&mut self.lock());
        self.shared.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: AnyObject + ?Sized> State<T> {
    fn take_batch(&mut self) -> Vec<Delta<T>> {
        // A batch never crosses the end of the first list, so that all of it is of that list or none is.
        let limit = match self.populated.pending() {
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
                // Two keys with one hash only end the batch early.
                Some((namespace, name)) if self.hashes.insert(hash::key(namespace, name)) => count += 1,
                None if count == 0 => {
                    count = 1;
                    break;
                }
                _ => break,
            }
        }
        let batch: Vec<Delta<T>> = self.line.drain(..count).collect();
        // A burst leaves no memory behind.
        if self.line.is_empty() && self.line.capacity() > FULL {
            (self.line, self.hashes) = (VecDeque::new(), HashSet::new());
        }
        batch
    }
}

/// Calls a function when it goes.
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
        self.len() >= FULL
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
    fn pop<'a>(&'a self, process: &'a mut Process<'_, T>) -> BoxFuture<'a, Result<(), QueueClosed>> {
        Box::pin(RealFifo::pop(self, process))
    }

    /// Puts the deltas before all others, because the queue promises the order of changes.
    fn requeue(&self, deltas: Vec<Delta<T>>, is_in_initial_list: bool) {
        self.change(|state| {
            let pending = state.populated.pending() + deltas.len();
            deltas.into_iter().rev().for_each(|delta| state.line.push_front(delta));
            if is_in_initial_list {
                state.populated.requeued(pending);
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
