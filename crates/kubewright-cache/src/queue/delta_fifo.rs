//! The changes of each object since it was last popped, objects in the order in which they first changed.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kubewright_core::stream::ObjectIdentity;
use kubewright_core::{Object, ObjectKey, ResourceVersion, Str};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::populated::Populated;
use super::{
    BoxFuture, KnownObjects, Process, Queue, QueueClosed, ReflectorStore, SharedTransform, Transform, TransformError,
    all_through, is_in, shareable, through, tombstone,
};
use crate::{AnyObject, Deleted, Delta, ObjectSet};

/// Processing that takes longer is worth a note, if this many wait behind it.
const SLOW: Duration = Duration::from_millis(100);
const MANY: usize = 10;

/// Keys waiting with all that happened to their objects. A handle: clones share one queue.
///
/// Consumers see for each object everything since they last popped it, deletions included, though not the order of
/// changes of different objects; [`RealFifo`](super::RealFifo) keeps that.
#[doc(alias = "DeltaFIFO")]
pub struct DeltaFifo<T: ?Sized> {
    shared: Arc<Shared<T>>,
}

struct Shared<T: ?Sized> {
    state: Mutex<State<T>>,
    changed: Notify,
    options: DeltaFifoOptions<T>,
}

/// Choices about a [`DeltaFifo`].
pub struct DeltaFifoOptions<T: ?Sized> {
    known_objects: Option<Arc<dyn KnownObjects<T>>>,
    emit_replaced: bool,
    emit_bookmarks: bool,
    transform: Option<SharedTransform<T>>,
}

impl<T: ?Sized> Default for DeltaFifoOptions<T> {
    fn default() -> Self {
        DeltaFifoOptions { known_objects: None, emit_replaced: false, emit_bookmarks: false, transform: None }
    }
}

impl<T: ?Sized> DeltaFifoOptions<T> {
    /// What the consumer has: objects that a list no longer contains are found here, and so is what to resync. None by
    /// default.
    #[must_use]
    pub fn known_objects(self, known: impl KnownObjects<T>) -> Self {
        self.known(Arc::new(known))
    }

    pub(crate) fn known(mut self, known: Arc<dyn KnownObjects<T>>) -> Self {
        self.known_objects = Some(known);
        self
    }

    /// Lists give [`Delta::Replaced`] rather than [`Delta::Sync`]. Off by default; informers turn it on.
    #[must_use]
    #[doc(alias = "EmitDeltaTypeReplaced")]
    pub fn emit_replaced(mut self) -> Self {
        self.emit_replaced = true;
        self
    }

    /// Bookmarks, and one behind each list, come out as well, so that the consumer knows its version.
    pub(crate) fn emit_bookmarks(mut self) -> Self {
        self.emit_bookmarks = true;
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
    /// Invariant: has the keys of `line`, each with at least one delta.
    items: HashMap<ObjectKey, Vec<Delta<T>>>,
    line: VecDeque<ObjectKey>,
    /// Versions that are reached when so many more have been popped.
    marks: VecDeque<(usize, Delta<T>)>,
    populated: Populated,
    is_closed: bool,
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
        let state = State {
            items: HashMap::new(),
            line: VecDeque::new(),
            marks: VecDeque::new(),
            populated: Populated::default(),
            is_closed: false,
        };
        DeltaFifo { shared: Arc::new(Shared { state: Mutex::new(state), changed: Notify::new(), options }) }
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

    /// An object was deleted. Nothing is queued for an object that neither the queue nor the
    /// consumer knows.
    ///
    /// # Errors
    /// If the transform fails. Then a tombstone is queued.
    pub fn delete(&self, object: impl Into<Arc<T>>) -> Result<(), TransformError> {
        let object = object.into();
        let key = object.key();
        {
            let mut state = self.lock();
            state.populated.by_change();
            if !state.items.contains_key(&key) && !self.is_known(&key) {
                return Ok(());
            }
        }
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

    /// These objects exist and no others: each is queued, then a tombstone for each other one that
    /// is known.
    ///
    /// Returns the transforms that failed; their objects are queued as [`Delta::Undecodable`].
    pub fn replace(&self, objects: impl IntoIterator<Item = Arc<T>>) -> Vec<TransformError> {
        self.replace_in("", ObjectSet::new(objects, ResourceVersion::default()))
    }

    /// The same for one namespace; other namespaces stay as they are. The empty namespace stands
    /// for all.
    pub fn replace_in(&self, namespace: &str, list: ObjectSet<T>) -> Vec<TransformError> {
        let options = &self.shared.options;
        let (list, errors) = all_through(&options.transform, list);
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
            // The newest state that is known, be it the one in a tombstone before.
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
        state.populated.by_list(namespace, count);
        if options.emit_bookmarks {
            state.mark(namespace, list.version);
        }
        drop(state);
        self.shared.changed.notify_waiters();
        errors
    }

    /// Nothing has changed in a namespace up to this version; in none, if it is empty.
    pub(crate) fn bookmark_in(&self, namespace: &str, version: ResourceVersion) {
        if self.shared.options.emit_bookmarks {
            self.lock().mark(namespace, version);
            self.shared.changed.notify_waiters();
        }
    }

    /// The first list is one of each of these namespaces, which come by [`replace_in`](Self::replace_in).
    pub fn await_lists_of(&self, namespaces: Vec<Str>) {
        self.lock().populated.await_lists_of(namespaces);
    }

    /// Queues a reminder of each known object that has nothing else queued.
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

    /// Queues these changes of one object unless some are queued for it.
    pub fn add_if_not_present(&self, deltas: Vec<Delta<T>>) {
        let Some(key) = deltas.last().and_then(Delta::key) else { return };
        let mut state = self.lock();
        state.populated.by_change();
        if let Entry::Vacant(vacant) = state.items.entry(key.clone()) {
            vacant.insert(deltas);
            state.line.push_back(key);
        }
        drop(state);
        self.shared.changed.notify_waiters();
    }

    /// The newest state of each object that has changes queued.
    pub fn list(&self) -> Vec<Arc<T>> {
        self.lock().items.values().filter_map(|deltas| deltas.last()?.object().cloned()).collect()
    }

    /// The keys of objects that have changes queued.
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

    /// Waits for the next object, takes it out of line and hands its changes to `process`, oldest first, with whether they
    /// are part of the first list.
    ///
    /// The queue is locked meanwhile, so that a list or a resync does not come between the queue and what the consumer
    /// knows: `process` must not use the queue. Cancel safe: what is taken out is processed.
    ///
    /// # Errors
    /// If the queue is closed and empty.
    pub async fn pop<R>(&self, process: impl FnOnce(Vec<Delta<T>>, bool) -> R) -> Result<R, QueueClosed> {
        loop {
            let changed = self.shared.changed.notified();
            {
                let mut state = self.lock();
                let is_in_initial_list = !state.populated.has_synced();
                if let Some(key) = state.line.pop_front() {
                    let mut deltas = state.items.remove(&key).expect("keys in line have deltas");
                    deltas.extend(state.pass_marks());
                    state.populated.popped(1);
                    let start = Instant::now();
                    let result = process(deltas, is_in_initial_list);
                    if state.line.len() > MANY && start.elapsed() > SLOW {
                        tracing::debug!(%key, depth = state.line.len(), took = ?start.elapsed(), "slow processing of deltas");
                    }
                    return Ok(result);
                }
                // Those of lists of nothing, and of bookmarks that found nothing in line.
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

    /// Whether all of the first list, tombstones included, has been popped; true at once if changes came before a list.
    pub fn has_synced(&self) -> bool {
        self.lock().populated.has_synced()
    }

    /// Whoever waits for changes stops once none are left.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.shared.changed.notify_waiters();
    }

    /// Whether the queue is closed.
    pub fn is_closed(&self) -> bool {
        self.lock().is_closed
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
        let mut state = self.lock();
        state.populated.by_change();
        state.append(delta);
        drop(state);
        self.shared.changed.notify_waiters();
    }

    fn is_known(&self, key: &ObjectKey) -> bool {
        self.shared.options.known_objects.as_ref().is_some_and(|known| known.contains(key))
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> State<T> {
    /// What is in line now leads to this version.
    fn mark(&mut self, namespace: &str, version: ResourceVersion) {
        if !version.is_empty() {
            self.marks.push_back((self.line.len(), Delta::Bookmark { namespace: namespace.into(), version }));
        }
    }

    /// One has been taken out of line, if there was one: the versions that are reached by that.
    fn pass_marks(&mut self) -> Vec<Delta<T>> {
        self.marks.iter_mut().for_each(|(left, _)| *left = left.saturating_sub(1));
        let reached = self.marks.iter().take_while(|(left, _)| *left == 0).count();
        self.marks.drain(..reached).map(|(_, bookmark)| bookmark).collect()
    }
}

impl<T: AnyObject + ?Sized> State<T> {
    fn append(&mut self, delta: Delta<T>) {
        let key = delta.key().expect("only changes of one object get here");
        match self.items.entry(key) {
            Entry::Occupied(mut deltas) => {
                deltas.get_mut().push(delta);
                collapse_deletions(deltas.get_mut());
            }
            Entry::Vacant(vacant) => {
                self.line.push_back(vacant.key().clone());
                vacant.insert(vec![delta]);
            }
        }
    }
}

/// Of two deletions in a row one is enough: the one that knows the final state, or else the one
/// that knows a state, the later first.
fn collapse_deletions<T: AnyObject + ?Sized>(deltas: &mut Vec<Delta<T>>) {
    if let [.., Delta::Deleted(older), Delta::Deleted(newer)] = &deltas[..] {
        let is_older_better = older.is_final() || !newer.is_final() && newer.object().is_none();
        let redundant = if is_older_better { deltas.len() - 1 } else { deltas.len() - 2 };
        deltas.remove(redundant);
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
    fn pop<'a>(&'a self, process: &'a mut Process<'_, T>) -> BoxFuture<'a, Result<(), QueueClosed>> {
        Box::pin(DeltaFifo::pop(self, process))
    }

    /// Puts the key at the end of the line, or the deltas before newer ones of the same object.
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
        // Their versions are reached when all that is in line now has been processed.
        let count = state.line.len();
        state.marks.extend(bookmarks.into_iter().map(|bookmark| (count, bookmark)));
        if is_in_initial_list {
            state.populated.requeued(count);
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

impl<T: ?Sized> fmt::Debug for DeltaFifoOptions<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeltaFifoOptions").field("emit_replaced", &self.emit_replaced).finish_non_exhaustive()
    }
}
