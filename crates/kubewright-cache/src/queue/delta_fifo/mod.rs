//! Changes grouped by object, in the order in which the objects first changed.

mod options;
mod state;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kubewright_core::stream::ObjectIdentity;
use kubewright_core::{ObjectKey, ResourceVersion, Str};
use tokio::sync::Notify;
use tokio::time::Instant;

pub use self::options::DeltaFifoOptions;
use self::state::DeltaFifoState;
use super::initial_list::InitialList;
use super::{
    BoxFuture, PopProcess, Queue, QueueClosed, ReflectorStore, TransformError, apply_transform_to_list, changed,
    deleted, is_in, tombstone,
};
use crate::{AnyObject, Delta, ObjectSet};

/// Processing that takes longer is logged if at least this many keys are queued behind it.
const SLOW_PROCESSING: Duration = Duration::from_millis(100);
const LONG_QUEUE: usize = 10;

/// A queue of keys, each with all changes of its object. A handle: clones share one queue.
///
/// For each object, consumers see every change since they last popped it, including deletions. The
/// order of changes across objects is lost; [`RealFifo`](super::RealFifo) keeps it.
#[doc(alias = "DeltaFIFO")]
pub struct DeltaFifo<T: ?Sized> {
    shared: Arc<SharedDeltaFifo<T>>,
}

struct SharedDeltaFifo<T: ?Sized> {
    state: Mutex<DeltaFifoState<T>>,
    changed: Notify,
    options: DeltaFifoOptions<T>,
}

impl<T: ?Sized> Clone for DeltaFifo<T> {
    fn clone(&self) -> Self {
        DeltaFifo { shared: self.shared.clone() }
    }
}

impl<T: AnyObject + ?Sized> DeltaFifo<T> {
    /// An empty queue.
    #[doc(alias = "NewDeltaFIFOWithOptions")]
    #[must_use]
    pub fn new(options: DeltaFifoOptions<T>) -> Self {
        let state = DeltaFifoState {
            items: HashMap::new(),
            line: VecDeque::new(),
            marks: VecDeque::new(),
            initial_list: InitialList::default(),
            is_closed: false,
        };
        DeltaFifo { shared: Arc::new(SharedDeltaFifo { state: Mutex::new(state), changed: Notify::new(), options }) }
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

    /// Queues the deletion of an object, unless neither the queue nor the consumer knows the
    /// object.
    ///
    /// # Errors
    /// If the transform fails. Then a tombstone is queued.
    pub fn delete(&self, object: impl Into<Arc<T>>) -> Result<(), TransformError> {
        let object = object.into();
        let key = object.key();
        {
            let mut state = self.lock();
            state.initial_list.note_change();
            if !state.items.contains_key(&key) && !self.is_known(&key) {
                return Ok(());
            }
        }
        self.enqueue_transformed(deleted(&self.shared.options.transform, object))
    }

    /// Queues a tombstone, for a deletion whose final state is not available.
    pub fn delete_key(&self, key: ObjectKey) {
        self.enqueue(tombstone(key, None));
    }

    /// Queues [`Delta::Undecodable`], for an object that exists in a state that cannot be decoded.
    pub fn mark_undecodable(&self, object: ObjectIdentity) {
        self.enqueue(Delta::Undecodable(object));
    }

    /// Queues the result of a list: each object, then a tombstone for each other known object.
    ///
    /// Returns the transforms that failed; their objects are queued as [`Delta::Undecodable`].
    pub fn replace(&self, objects: impl IntoIterator<Item = Arc<T>>) -> Vec<TransformError> {
        self.replace_in("", ObjectSet::new(objects, ResourceVersion::default()))
    }

    /// Like [`replace`](Self::replace), for one namespace; other namespaces stay as they are. The
    /// empty namespace means all.
    pub fn replace_in(&self, namespace: &str, list: ObjectSet<T>) -> Vec<TransformError> {
        let options = &self.shared.options;
        let (list, errors) = apply_transform_to_list(&options.transform, list);
        let mut state = self.lock();
        let mut listed: HashSet<ObjectKey> = HashSet::with_capacity(list.objects.len() + list.undecodable.len());
        for object in list.objects {
            listed.insert(object.key());
            state.append(if options.emit_replaced { Delta::Replaced(object) } else { Delta::Sync(object) });
        }
        for object in list.undecodable {
            listed.insert(object.key.clone());
            state.append(Delta::Undecodable(object));
        }
        let mut gone: Vec<Delta<T>> = Vec::new();
        let is_gone = |key: &ObjectKey| is_in(namespace, key) && !listed.contains(key);
        for (key, deltas) in state.items.iter().filter(|(key, _)| is_gone(key)) {
            // The newest known state, possibly that of an earlier tombstone.
            let newest = deltas.iter().rev().find_map(Delta::object);
            gone.push(tombstone(key.clone(), newest.cloned()));
        }
        if let Some(known) = &options.known_objects {
            let unseen = |key: &ObjectKey| is_gone(key) && !state.items.contains_key(key);
            let keys = known.list_keys().into_iter().filter(unseen);
            gone.extend(keys.map(|key| tombstone(key.clone(), known.get_by_key(&key))).collect::<Vec<_>>());
        }
        gone.into_iter().for_each(|delta| state.append(delta));
        let count = state.line.len();
        state.initial_list.note_list(namespace, count);
        if options.emit_bookmarks {
            state.mark(namespace, list.version);
        }
        drop(state);
        self.shared.changed.notify_waiters();
        errors
    }

    /// Records that a namespace has not changed up to this version; all namespaces if it is empty.
    pub(crate) fn bookmark_in(&self, namespace: &str, version: ResourceVersion) {
        if self.shared.options.emit_bookmarks {
            self.lock().mark(namespace, version);
            self.shared.changed.notify_waiters();
        }
    }

    /// Declares that the initial list consists of one list per namespace, each passed to
    /// [`replace_in`](Self::replace_in).
    pub fn await_lists_of(&self, namespaces: Vec<Str>) {
        self.lock().initial_list.await_lists_of(namespaces);
    }

    /// Queues a resync of each known object that has no queued changes.
    pub fn resync(&self) {
        let Some(known) = &self.shared.options.known_objects else { return };
        let mut state = self.lock();
        for key in known.list_keys() {
            if !state.items.contains_key(&key)
                && let Some(object) = known.get_by_key(&key)
            {
                state.append(Delta::Sync(object));
            }
        }
        drop(state);
        self.shared.changed.notify_waiters();
    }

    /// Queues these changes of one object unless it has queued changes.
    pub fn add_if_not_present(&self, deltas: Vec<Delta<T>>) {
        let Some(key) = deltas.last().and_then(Delta::key) else { return };
        let mut state = self.lock();
        state.initial_list.note_change();
        if let Entry::Vacant(vacant) = state.items.entry(key.clone()) {
            vacant.insert(deltas);
            state.line.push_back(key);
        }
        drop(state);
        self.shared.changed.notify_waiters();
    }

    /// The newest state of each object with queued changes.
    pub fn list(&self) -> Vec<Arc<T>> {
        self.lock().items.values().filter_map(|deltas| deltas.last()?.object().cloned()).collect()
    }

    /// The keys of objects with queued changes.
    pub fn list_keys(&self) -> Vec<ObjectKey> {
        self.lock().items.keys().cloned().collect()
    }

    /// The changes queued under the key of `object`.
    pub fn get(&self, object: &T) -> Option<Vec<Delta<T>>> {
        self.get_by_key(&object.key())
    }

    /// The changes queued under this key.
    pub fn get_by_key(&self, key: &ObjectKey) -> Option<Vec<Delta<T>>> {
        self.lock().items.get(key).cloned()
    }

    /// Waits for the next object, removes it from the queue and passes its changes to `process`,
    /// oldest first, with a flag that tells whether they belong to the initial list.
    ///
    /// The queue is locked during the call, so that no list or resync intervenes between the queue
    /// and the consumer's store: `process` must not use the queue. Cancel safe: changes that were
    /// removed are processed.
    ///
    /// # Errors
    /// If the queue is closed and empty.
    pub async fn pop<R>(&self, process: impl FnOnce(Vec<Delta<T>>, bool) -> R) -> Result<R, QueueClosed> {
        loop {
            let changed = self.shared.changed.notified();
            {
                let mut state = self.lock();
                let is_in_initial_list = !state.initial_list.has_synced();
                if let Some(key) = state.line.pop_front() {
                    let mut deltas = state.items.remove(&key).expect("keys in line have deltas");
                    deltas.extend(state.pass_marks());
                    state.initial_list.popped(1);
                    let start = Instant::now();
                    let result = process(deltas, is_in_initial_list);
                    if state.line.len() > LONG_QUEUE && start.elapsed() > SLOW_PROCESSING {
                        tracing::debug!(%key, depth = state.line.len(), took = ?start.elapsed(), "slow processing of deltas");
                    }
                    return Ok(result);
                }
                // Bookmarks without keys before them, for example after an empty list.
                let marks = state.pass_marks();
                if !marks.is_empty() {
                    return Ok(process(marks, is_in_initial_list));
                }
                if state.is_closed {
                    return Err(QueueClosed);
                }
            }
            changed.await;
        }
    }

    /// Whether the initial list, including tombstones, has been popped; true immediately if changes
    /// came before a list.
    pub fn has_synced(&self) -> bool {
        self.lock().initial_list.has_synced()
    }

    /// Closes the queue. Waiting consumers return once it is empty.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.shared.changed.notify_waiters();
    }

    /// Whether the queue is closed.
    pub fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    fn enqueue_transformed(
        &self,
        (delta, result): (Delta<T>, Result<(), TransformError>),
    ) -> Result<(), TransformError> {
        self.enqueue(delta);
        result
    }

    fn enqueue(&self, delta: Delta<T>) {
        let mut state = self.lock();
        state.initial_list.note_change();
        state.append(delta);
        drop(state);
        self.shared.changed.notify_waiters();
    }

    fn is_known(&self, key: &ObjectKey) -> bool {
        self.shared.options.known_objects.as_ref().is_some_and(|known| known.contains(key))
    }

    fn lock(&self) -> MutexGuard<'_, DeltaFifoState<T>> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: AnyObject + ?Sized> ReflectorStore<T> for DeltaFifo<T> {
    fn add(&self, object: Arc<T>) -> Result<(), TransformError> {
        DeltaFifo::add(self, object)
    }

    fn update(&self, object: Arc<T>) -> Result<(), TransformError> {
        DeltaFifo::update(self, object)
    }

    fn delete(&self, object: Arc<T>) -> Result<(), TransformError> {
        DeltaFifo::delete(self, object)
    }

    fn delete_key(&self, key: ObjectKey) {
        DeltaFifo::delete_key(self, key);
    }

    fn mark_undecodable(&self, object: ObjectIdentity) {
        DeltaFifo::mark_undecodable(self, object);
    }

    fn replace(&self, list: ObjectSet<T>) -> Vec<TransformError> {
        self.replace_in("", list)
    }

    fn resync(&self) {
        DeltaFifo::resync(self);
    }

    fn bookmark(&self, version: ResourceVersion) {
        self.bookmark_in("", version);
    }

    fn known(&self, object: &T) -> Option<Arc<T>> {
        self.shared.options.known_objects.as_ref()?.get(object)
    }
}

impl<T: AnyObject + ?Sized> Queue<T> for DeltaFifo<T> {
    fn pop<'a>(&'a self, process: &'a mut PopProcess<'_, T>) -> BoxFuture<'a, Result<(), QueueClosed>> {
        Box::pin(DeltaFifo::pop(self, process))
    }

    /// Appends the key, or inserts the deltas before newer ones of the same object.
    fn requeue(&self, deltas: Vec<Delta<T>>, is_in_initial_list: bool) {
        let mut state = self.lock();
        let (bookmarks, mut deltas): (Vec<_>, Vec<_>) = deltas.into_iter().partition(|delta| delta.key().is_none());
        if let Some(key) = deltas.first().and_then(Delta::key) {
            match state.items.entry(key) {
                Entry::Occupied(mut newer) => {
                    deltas.append(newer.get_mut());
                    newer.insert(deltas);
                }
                Entry::Vacant(vacant) => {
                    let key = vacant.key().clone();
                    vacant.insert(deltas);
                    state.line.push_back(key);
                }
            }
        }
        // The bookmarks take effect after everything that is queued now.
        let count = state.line.len();
        state.marks.extend(bookmarks.into_iter().map(|bookmark| (count, bookmark)));
        if is_in_initial_list {
            state.initial_list.requeued(count);
        }
        drop(state);
        self.shared.changed.notify_waiters();
    }

    fn has_synced(&self) -> bool {
        DeltaFifo::has_synced(self)
    }

    fn close(&self) {
        DeltaFifo::close(self);
    }

    fn len(&self) -> usize {
        self.lock().line.len()
    }
}

impl<T: AnyObject + ?Sized> fmt::Debug for DeltaFifo<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeltaFifo").field("keys", &self.lock().line.len()).finish_non_exhaustive()
    }
}
