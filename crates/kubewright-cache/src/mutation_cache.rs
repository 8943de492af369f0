//! Own writes over a store that has not heard of them yet.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kubewright_core::{Object, ObjectKey, compare_resource_versions};
use tokio::time::Instant;

use crate::store::{Store, UnknownIndex};

/// How many writes are remembered.
const ENTRIES: usize = 100;
/// How long a write is remembered.
const TIME_TO_LIVE: Duration = Duration::from_secs(5 * 60);

/// A store seen through the writes that this program has made itself.
///
/// A write that the server has answered is told by [`mutation`](Self::mutation), and counts until the store has it, or newer,
/// from the server. The last 100 writes are remembered, for five minutes. An object that the store does not have is missing
/// here as well, unless [`include_adds`](Self::include_adds) is set, since it may have been deleted.
#[doc(alias = "NewIntegerResourceVersionMutationCache")]
pub struct MutationCache<T> {
    store: Store<T>,
    entries: Mutex<Entries<T>>,
    time_to_live: Duration,
    include_adds: bool,
}

struct Entries<T> {
    entry_of: HashMap<ObjectKey, Entry<T>>,
    uses: u64,
}

struct Entry<T> {
    object: Arc<T>,
    since: Instant,
    used: u64,
}

impl<T: Object> MutationCache<T> {
    /// Over this store.
    #[must_use]
    pub fn new(store: Store<T>) -> Self {
        let entries = Mutex::new(Entries { entry_of: HashMap::new(), uses: 0 });
        MutationCache { store, entries, time_to_live: TIME_TO_LIVE, include_adds: false }
    }

    /// Remembers writes for so long. Five minutes by default.
    #[must_use]
    pub fn time_to_live(mut self, time_to_live: Duration) -> Self {
        self.time_to_live = time_to_live;
        self
    }

    /// Shows objects that the store does not have yet. Off by default: a deletion is then never overlooked.
    #[must_use]
    pub fn include_adds(mut self) -> Self {
        self.include_adds = true;
        self
    }

    /// The newer of what the store has and what was written.
    pub fn get_by_key(&self, key: &ObjectKey) -> Option<Arc<T>> {
        match self.store.get_by_key(key) {
            Some(object) => Some(self.newer(key, object)),
            None if self.include_adds => self.lock().get(key, self.time_to_live),
            None => None,
        }
    }

    /// Objects with this value in an index of the store, each at its newest.
    ///
    /// # Errors
    /// If there is no such index.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Arc<T>>, UnknownIndex> {
        let snapshot = self.store.snapshot();
        let mut found: Vec<Arc<T>> =
            snapshot.by_index(name, value)?.map(|object| self.newer(&object.key(), object.clone())).collect();
        if self.include_adds {
            let written = self.lock().all(self.time_to_live);
            for object in written {
                let is_new = snapshot.get_by_key(&object.key()).is_none();
                if is_new && snapshot.values(name, &object)?.iter().any(|other| *other == *value) {
                    found.push(object);
                }
            }
        }
        Ok(found)
    }

    /// Remembers the answer to a write.
    pub fn mutation(&self, object: impl Into<Arc<T>>) {
        let object = object.into();
        let key = object.key();
        let mut entries = self.lock();
        if self.include_adds {
            // Of two answers that overtook each other the newer counts.
            if let Some(other) = entries.get(&key, self.time_to_live)
                && is_newer(&*other, &*object)
            {
                return;
            }
        }
        entries.put(key, object);
    }

    /// The server tells of this state: an older write no longer counts. For an informer's handler.
    pub fn on_add_or_update(&self, object: &T) {
        let key = object.key();
        let mut entries = self.lock();
        if entries.entry_of.get(&key).is_some_and(|entry| !is_newer(&*entry.object, object)) {
            entries.entry_of.remove(&key);
        }
    }

    /// The server tells that an object is gone: writes to it no longer count, unless it came anew. For an informer's
    /// handler.
    pub fn on_delete(&self, object: &T) {
        let key = object.key();
        let mut entries = self.lock();
        let is_recreated = |entry: &Entry<T>| entry.object.uid() != object.uid() && is_newer(&*entry.object, object);
        if entries.entry_of.get(&key).is_some_and(|entry| !is_recreated(entry)) {
            entries.entry_of.remove(&key);
        }
    }

    fn newer(&self, key: &ObjectKey, stored: Arc<T>) -> Arc<T> {
        let mut entries = self.lock();
        match entries.get(key, self.time_to_live) {
            Some(written) if is_newer(&*written, &*stored) => written,
            Some(_) => {
                entries.entry_of.remove(key);
                stored
            }
            None => stored,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Entries<T>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_newer<T: Object>(one: &T, two: &T) -> bool {
    compare_resource_versions(one.resource_version(), two.resource_version()) == Some(Ordering::Greater)
}

impl<T> Entries<T> {
    fn get(&mut self, key: &ObjectKey, time_to_live: Duration) -> Option<Arc<T>> {
        self.uses += 1;
        let uses = self.uses;
        let entry = self.entry_of.get_mut(key)?;
        if entry.since.elapsed() > time_to_live {
            self.entry_of.remove(key);
            return None;
        }
        entry.used = uses;
        Some(entry.object.clone())
    }

    fn all(&mut self, time_to_live: Duration) -> Vec<Arc<T>> {
        self.entry_of.retain(|_, entry| entry.since.elapsed() <= time_to_live);
        self.entry_of.values().map(|entry| entry.object.clone()).collect()
    }

    fn put(&mut self, key: ObjectKey, object: Arc<T>) {
        self.uses += 1;
        self.entry_of.insert(key, Entry { object, since: Instant::now(), used: self.uses });
        if self.entry_of.len() > ENTRIES {
            let oldest = self.entry_of.iter().min_by_key(|(_, entry)| entry.used).map(|(key, _)| key.clone());
            oldest.and_then(|key| self.entry_of.remove(&key));
        }
    }
}

impl<T: Object> fmt::Debug for MutationCache<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MutationCache").field("written", &self.lock().entry_of.len()).finish_non_exhaustive()
    }
}
