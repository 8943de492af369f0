//! The newest state of each object, in the order in which objects were first queued.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kubewright_core::stream::ObjectIdentity;
use kubewright_core::{Object, ObjectKey, ResourceVersion};
use tokio::sync::Notify;

use super::initial_list::InitialList;
use super::{BoxFuture, PopProcess, Queue, QueueClosed, ReflectorStore, TransformError};
use crate::{Delta, ObjectSet};

/// Objects to process, each once, at its newest state.
///
/// An object that changes while queued keeps its position. One that is added after it was popped
/// goes to the end. One that is deleted while queued is never popped. A handle: clones share one
/// queue.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use kubewright_cache::Fifo;
/// use kubewright_core::{DynamicObject, Object};
/// let queue = Fifo::new();
/// let web: DynamicObject = r#"{"metadata": {"name": "web"}}"#.parse()?;
/// queue.add(web);
/// let name = queue.pop(|object, _| object.name().to_owned()).await?;
/// assert_eq!(name, "web");
/// # Ok(()) }
/// ```
#[doc(alias = "FIFO")]
pub struct Fifo<T> {
    shared: Arc<SharedFifo<T>>,
}

struct SharedFifo<T> {
    state: Mutex<FifoState<T>>,
    changed: Notify,
}

struct FifoState<T> {
    items: HashMap<ObjectKey, Arc<T>>,
    /// Invariant: contains the keys of `items`. May contain a key twice, or keys that are not in
    /// `items`; those are skipped.
    line: VecDeque<ObjectKey>,
    initial_list: InitialList,
    is_closed: bool,
}

impl<T> Clone for Fifo<T> {
    fn clone(&self) -> Self {
        Fifo { shared: self.shared.clone() }
    }
}

impl<T: Object> Default for Fifo<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Object> Fifo<T> {
    /// An empty queue.
    #[must_use]
    pub fn new() -> Self {
        let state = FifoState {
            items: HashMap::new(),
            line: VecDeque::new(),
            initial_list: InitialList::default(),
            is_closed: false,
        };
        Fifo { shared: Arc::new(SharedFifo { state: Mutex::new(state), changed: Notify::new() }) }
    }

    /// Queues an object, or replaces the queued one with its key.
    pub fn add(&self, object: impl Into<Arc<T>>) {
        let object = object.into();
        self.change(|state| {
            state.initial_list.note_change();
            state.put(object);
        });
    }

    /// The same as [`add`](Self::add).
    pub fn update(&self, object: impl Into<Arc<T>>) {
        self.add(object);
    }

    /// Queues an object unless one with its key is queued; that one is never older.
    pub fn add_if_not_present(&self, object: impl Into<Arc<T>>) {
        let object = object.into();
        self.change(|state| {
            state.initial_list.note_change();
            if !state.items.contains_key(&object.key()) {
                state.put(object);
            }
        });
    }

    /// Removes an object from the queue.
    pub fn delete(&self, object: &T) {
        self.change(|state| {
            state.initial_list.note_change();
            state.items.remove(&object.key());
        });
    }

    /// Replaces the queued objects.
    pub fn replace(&self, objects: impl IntoIterator<Item = Arc<T>>) {
        ReflectorStore::replace(self, ObjectSet::new(objects, ResourceVersion::default()));
    }

    /// Queues objects that are present but not queued.
    pub fn resync(&self) {
        self.change(FifoState::requeue);
    }

    /// All queued objects.
    pub fn list(&self) -> Vec<Arc<T>> {
        self.lock().items.values().cloned().collect()
    }

    /// The keys of all queued objects.
    pub fn list_keys(&self) -> Vec<ObjectKey> {
        self.lock().items.keys().cloned().collect()
    }

    /// The queued object with the key of `object`.
    pub fn get(&self, object: &T) -> Option<Arc<T>> {
        self.get_by_key(&object.key())
    }

    /// The queued object with this key.
    pub fn get_by_key(&self, key: &ObjectKey) -> Option<Arc<T>> {
        self.lock().items.get(key).cloned()
    }

    /// Waits for the next object, removes it from the queue and passes it to `process`, with a flag
    /// that tells whether it belongs to the initial list.
    ///
    /// Cancel safe: an object that was removed is processed.
    ///
    /// # Errors
    /// If the queue is closed and empty.
    pub async fn pop<R>(&self, process: impl FnOnce(Arc<T>, bool) -> R) -> Result<R, QueueClosed> {
        loop {
            let changed = self.shared.changed.notified();
            {
                let mut state = self.lock();
                let is_in_initial_list = !state.initial_list.has_synced();
                if let Some(object) = state.pop() {
                    return Ok(process(object, is_in_initial_list));
                }
                if state.is_closed {
                    return Err(QueueClosed);
                }
            }
            changed.await;
        }
    }

    /// Whether all objects of the initial list have been popped or deleted; true immediately if
    /// changes came before a list.
    pub fn has_synced(&self) -> bool {
        self.lock().initial_list.has_synced()
    }

    /// Closes the queue. Waiting consumers return once it is empty.
    pub fn close(&self) {
        self.change(|state| state.is_closed = true);
    }

    /// Whether the queue is closed.
    pub fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    fn change(&self, change: impl FnOnce(&mut FifoState<T>)) {
        change(&mut self.lock());
        self.shared.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, FifoState<T>> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Object> FifoState<T> {
    fn put(&mut self, object: Arc<T>) {
        let key = object.key();
        if self.items.insert(key.clone(), object).is_none() {
            self.line.push_back(key);
        }
    }

    /// Removes a queued state that has a different uid.
    fn drop_others(&mut self, object: &ObjectIdentity) {
        if self.items.get(&object.key).is_some_and(|queued| object.is_other_than(queued.uid())) {
            self.items.remove(&object.key);
        }
    }

    fn requeue(&mut self) {
        let in_line: HashSet<&ObjectKey> = self.line.iter().collect();
        let missing: Vec<ObjectKey> = self.items.keys().filter(|key| !in_line.contains(key)).cloned().collect();
        self.line.extend(missing);
    }

    fn pop(&mut self) -> Option<Arc<T>> {
        while let Some(key) = self.line.pop_front() {
            self.initial_list.popped(1);
            if let Some(object) = self.items.remove(&key) {
                return Some(object);
            }
        }
        None
    }
}

impl<T: Object> ReflectorStore<T> for Fifo<T> {
    fn add(&self, object: Arc<T>) -> Result<(), TransformError> {
        Fifo::add(self, object);
        Ok(())
    }

    fn update(&self, object: Arc<T>) -> Result<(), TransformError> {
        Fifo::add(self, object);
        Ok(())
    }

    fn delete(&self, object: Arc<T>) -> Result<(), TransformError> {
        Fifo::delete(self, &object);
        Ok(())
    }

    fn delete_key(&self, key: ObjectKey) {
        self.change(|state| {
            state.initial_list.note_change();
            state.items.remove(&key);
        });
    }

    /// The queued state stays, unless it has a different uid. The mark itself is not stored.
    fn mark_undecodable(&self, object: ObjectIdentity) {
        self.change(|state| {
            state.initial_list.note_change();
            state.drop_others(&object);
        });
    }

    fn replace(&self, list: ObjectSet<T>) -> Vec<TransformError> {
        self.change(|state| {
            let mut items: HashMap<ObjectKey, Arc<T>> = HashMap::with_capacity(list.objects.len());
            for object in &list.undecodable {
                state.drop_others(object);
                items.extend(state.items.remove_entry(&object.key));
            }
            items.extend(list.objects.into_iter().map(|object| (object.key(), object)));
            state.items = items;
            state.initial_list.note_list("", state.items.len());
            state.requeue();
        });
        Vec::new()
    }

    fn resync(&self) {
        Fifo::resync(self);
    }
}

/// Each object is popped as [`Delta::Updated`]. Deletions are not popped: an object that is deleted
/// while queued is removed.
impl<T: Object> Queue<T> for Fifo<T> {
    fn pop<'a>(&'a self, process: &'a mut PopProcess<'_, T>) -> BoxFuture<'a, Result<(), QueueClosed>> {
        Box::pin(Fifo::pop(self, |object, is_in_initial_list| {
            process(vec![Delta::Updated(object)], is_in_initial_list)
        }))
    }

    /// Appends the object, unless a newer state of it is queued.
    fn requeue(&self, deltas: Vec<Delta<T>>, is_in_initial_list: bool) {
        self.change(|state| {
            for object in deltas.iter().filter_map(Delta::object) {
                if !state.items.contains_key(&object.key()) {
                    state.put(object.clone());
                }
            }
            if is_in_initial_list {
                let pending = state.line.len();
                state.initial_list.requeued(pending);
            }
        });
    }

    fn has_synced(&self) -> bool {
        Fifo::has_synced(self)
    }

    fn close(&self) {
        Fifo::close(self);
    }

    fn len(&self) -> usize {
        self.lock().items.len()
    }
}

impl<T: Object> fmt::Debug for Fifo<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fifo").field("objects", &self.lock().items.len()).finish_non_exhaustive()
    }
}
