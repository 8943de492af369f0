//! A store whose objects expire.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kubewright_core::{Object, ObjectKey};
use tokio::time::Instant;

type IsExpired<T> = Box<dyn Fn(&T, Duration) -> bool + Send + Sync>;

/// A store whose objects expire. Expired objects are not returned, and are removed when they are
/// read.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() {
/// use std::time::Duration;
/// use kubewright_cache::ExpirationCache;
/// use kubewright_core::DynamicObject;
/// let cache = ExpirationCache::new(Duration::from_secs(10));
/// cache.add(DynamicObject::default());
/// assert_eq!(cache.list().len(), 1);
/// tokio::time::sleep(Duration::from_secs(11)).await;
/// assert_eq!(cache.list().len(), 0);
/// # }
/// ```
#[doc(alias = "NewTTLStore")]
pub struct ExpirationCache<T> {
    entries: Mutex<HashMap<ObjectKey, (Arc<T>, Instant)>>,
    is_expired: IsExpired<T>,
}

impl<T: Object> ExpirationCache<T> {
    /// Objects expire when they are older than `time_to_live`. Zero means never.
    #[must_use]
    #[doc(alias = "TTLPolicy")]
    pub fn new(time_to_live: Duration) -> Self {
        Self::with_policy(move |_, age| !time_to_live.is_zero() && age > time_to_live)
    }

    /// Objects expire when `is_expired`, given the object and its age, returns true.
    #[must_use]
    #[doc(alias = "ExpirationPolicy")]
    pub fn with_policy(is_expired: impl Fn(&T, Duration) -> bool + Send + Sync + 'static) -> Self {
        ExpirationCache { entries: Mutex::default(), is_expired: Box::new(is_expired) }
    }

    /// Adds or replaces an object, at age zero.
    pub fn add(&self, object: impl Into<Arc<T>>) {
        let object = object.into();
        self.lock().insert(object.key(), (object, Instant::now()));
    }

    /// The same as [`add`](Self::add).
    pub fn update(&self, object: impl Into<Arc<T>>) {
        self.add(object);
    }

    /// Removes the object that has the key of `object`.
    pub fn delete(&self, object: &T) {
        self.lock().remove(&object.key());
    }

    /// Replaces the contents of the store; all objects start at age zero.
    pub fn replace(&self, objects: impl IntoIterator<Item = Arc<T>>) {
        let now = Instant::now();
        *self.lock() = objects.into_iter().map(|object| (object.key(), (object, now))).collect();
    }

    /// Does nothing; part of client-go's `Store` interface.
    pub fn resync(&self) {}

    /// All objects that have not expired.
    pub fn list(&self) -> Vec<Arc<T>> {
        let now = Instant::now();
        let mut entries = self.lock();
        entries.retain(|_, (object, since)| !(self.is_expired)(object, now.duration_since(*since)));
        entries.values().map(|(object, _)| object.clone()).collect()
    }

    /// The keys of all objects, including expired ones that have not been read since.
    pub fn list_keys(&self) -> Vec<ObjectKey> {
        self.lock().keys().cloned().collect()
    }

    /// The stored object that has the key of `object`.
    pub fn get(&self, object: &T) -> Option<Arc<T>> {
        self.get_by_key(&object.key())
    }

    /// The object with this key.
    pub fn get_by_key(&self, key: &ObjectKey) -> Option<Arc<T>> {
        let mut entries = self.lock();
        let (object, since) = entries.get(key)?;
        if !(self.is_expired)(object, since.elapsed()) {
            return Some(object.clone());
        }
        entries.remove(key);
        None
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, (Arc<T>, Instant)>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Object> fmt::Debug for ExpirationCache<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExpirationCache").field("objects", &self.lock().len()).finish_non_exhaustive()
    }
}
