//! Overlays a program's own writes on a store until its informer has caught up (read-your-writes).

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kubewright_core::{Object, ObjectKey, compare_resource_versions};
use tokio::time::Instant;

use crate::store::{Store, UnknownIndex};

/// Maximum number of remembered writes.
const ENTRIES: usize = 100;
/// How long a write is remembered by default.
const TIME_TO_LIVE: Duration = Duration::from_secs(5 * 60);

/// A store overlaid with the program's own writes.
///
/// Pass the server's response to a write to [`mutation`](Self::mutation). It takes effect until the
/// store has this version or a newer one. The last 100 writes are remembered for five minutes. An
/// object that is not in the store is not returned, because it may have been deleted, unless
/// [`include_adds`](Self::include_adds) is set.
#[doc(alias = "NewIntegerResourceVersionMutationCache")]
pub struct MutationCache<T> {
    store: Store<T>,
    entries: Mutex<Entries<T>>,
    time_to_live: Duration,
    include_adds: bool,
}

struct Entries<T> {
    entry_of: HashMap<ObjectKey, MutationEntry<T>>,
    uses: u64,
}

struct MutationEntry<T> {
    object: Arc<T>,
    since: Instant,
    used: u64,
}

impl<T: Object> MutationCache<T> {
    /// An overlay over this store.
    #[must_use]
    pub fn new(store: Store<T>) -> Self {
        let entries = Mutex::new(Entries { entry_of: HashMap::new(), uses: 0 });
        MutationCache { store, entries, time_to_live: TIME_TO_LIVE, include_adds: false }
    }

    /// How long writes are remembered. Five minutes by default.
    #[must_use]
    pub fn time_to_live(mut self, time_to_live: Duration) -> Self {
        self.time_to_live = time_to_live;
        self
    }

    /// Also returns written objects that are not in the store yet. Off by default, so that a
    /// deletion is never missed.
    #[must_use]
    pub fn include_adds(mut self) -> Self {
        self.include_adds = true;
        self
    }

    /// The newer of the stored and the written state.
    pub fn get_by_key(&self, key: &ObjectKey) -> Option<Arc<T>> {
        match self.store.get_by_key(key) {
            Some(object) => Some(self.newer(key, object)),
            None if self.include_adds => self.lock().get(key, self.time_to_live),
            None => None,
        }
    }

    /// Objects with this value in an index of the store, each at its newest state.
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

    /// Remembers the response to a write.
    pub fn mutation(&self, object: impl Into<Arc<T>>) {
        let object = object.into();
        let key = object.key();
        let mut entries = self.lock();
        if self.include_adds {
            // If two responses arrive out of order, the newer one wins.
            if let Some(other) = entries.get(&key, self.time_to_live)
                && is_newer(&*other, &*object)
            {
                return;
            }
        }
        entries.put(key, object);
    }

    /// Drops a write that is older than this state. For an informer's handler.
    pub fn on_add_or_update(&self, object: &T) {
        let key = object.key();
        let mut entries = self.lock();
        if entries.entry_of.get(&key).is_some_and(|entry| !is_newer(&*entry.object, object)) {
            entries.entry_of.remove(&key);
        }
    }

    /// Drops writes to a deleted object, unless it was recreated. For an informer's handler.
    pub fn on_delete(&self, object: &T) {
        let key = object.key();
        let mut entries = self.lock();
        let is_recreated =
            |entry: &MutationEntry<T>| entry.object.uid() != object.uid() && is_newer(&*entry.object, object);
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
        self.entry_of.insert(key, MutationEntry { object, since: Instant::now(), used: self.uses });
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
