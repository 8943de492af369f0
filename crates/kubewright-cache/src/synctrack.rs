//! Tracks whether all items of an initial list have been processed, for components that forward
//! them.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Tracks items that are processed in order, by counting.
///
/// Synced once the source has synced and all started items are finished.
#[derive(Debug, Default)]
pub struct SingleFileTracker {
    is_source_synced: AtomicBool,
    pending: AtomicUsize,
}

impl SingleFileTracker {
    /// Records an item of the initial list. Must be called before the source reports its sync.
    pub fn start(&self) {
        self.pending.fetch_add(1, Ordering::SeqCst);
    }

    /// Records a processed item. Extra calls are ignored.
    pub fn finished(&self) {
        let _ = self.pending.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |pending| pending.checked_sub(1));
    }

    /// Records that the source has forwarded its initial list completely.
    #[doc(alias = "UpstreamHasSynced")]
    pub fn source_synced(&self) {
        self.is_source_synced.store(true, Ordering::SeqCst);
    }

    /// Whether the whole initial list has been processed.
    pub fn has_synced(&self) -> bool {
        // Read the source first: then all its items are counted.
        self.is_source_synced.load(Ordering::SeqCst) && self.pending.load(Ordering::SeqCst) == 0
    }
}

/// Tracks items that are processed in any order, by key.
#[derive(Debug)]
pub struct AsyncTracker<K> {
    waiting: Mutex<HashSet<K>>,
    is_source_synced: AtomicBool,
}

impl<K> Default for AsyncTracker<K> {
    fn default() -> Self {
        AsyncTracker { waiting: Mutex::default(), is_source_synced: AtomicBool::new(false) }
    }
}

impl<K: Hash + Eq> AsyncTracker<K> {
    /// Records an item of the initial list.
    pub fn start(&self, key: K) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(key);
    }

    /// Records a processed item; harmless if it was never started.
    pub fn finished(&self, key: &K) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    /// Records that the source has forwarded its initial list completely.
    #[doc(alias = "UpstreamHasSynced")]
    pub fn source_synced(&self) {
        self.is_source_synced.store(true, Ordering::SeqCst);
    }

    /// Whether the whole initial list has been processed.
    pub fn has_synced(&self) -> bool {
        self.is_source_synced.load(Ordering::SeqCst)
            && self.waiting.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

/// A value that is computed on demand, and recomputed only after [`notify`](Self::notify).
///
/// Concurrent callers wait for a computation in progress. Errors are not cached.
pub struct Lazy<V, E> {
    compute: Box<dyn Fn() -> Result<V, E> + Send + Sync>,
    current: Mutex<Arc<Mutex<Option<V>>>>,
}

impl<V: Clone, E> Lazy<V, E> {
    /// A value computed by `compute`.
    pub fn new(compute: impl Fn() -> Result<V, E> + Send + Sync + 'static) -> Self {
        Lazy { compute: Box::new(compute), current: Mutex::default() }
    }

    /// Invalidates the value, including one that is being computed: the next [`get`](Self::get)
    /// computes it again.
    pub fn notify(&self) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Arc::default();
    }

    /// The value.
    ///
    /// # Errors
    /// The error of the computation; the next call tries again.
    pub fn get(&self) -> Result<V, E> {
        let cell = self.current.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut value = cell.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = &*value {
            return Ok(value.clone());
        }
        let computed = (self.compute)()?;
        *value = Some(computed.clone());
        Ok(computed)
    }
}

impl<V, E> std::fmt::Debug for Lazy<V, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lazy").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // SI-21
    #[test]
    fn a_single_file_is_synced_when_all_that_was_started_is_finished() {
        let tracker = SingleFileTracker::default();
        assert!(!tracker.has_synced());
        tracker.start();
        tracker.start();
        tracker.source_synced();
        tracker.finished();
        assert!(!tracker.has_synced());
        tracker.finished();
        assert!(tracker.has_synced());
        tracker.finished();
        assert!(tracker.has_synced());
    }

    // SI-21
    #[test]
    fn items_in_any_order_are_tracked_by_key() {
        let tracker = AsyncTracker::default();
        tracker.finished(&"never started");
        tracker.start("a");
        tracker.start("b");
        tracker.finished(&"b");
        tracker.source_synced();
        assert!(!tracker.has_synced());
        tracker.finished(&"a");
        assert!(tracker.has_synced());
    }

    // SI-21
    #[test]
    fn a_lazy_value_is_computed_once_per_notification_and_errors_are_not_cached() {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        let lazy = Lazy::new(move || match counted.fetch_add(1, Ordering::SeqCst) {
            1 => Err("second time"),
            at => Ok(at),
        });
        assert_eq!((lazy.get(), lazy.get()), (Ok(0), Ok(0)));
        lazy.notify();
        assert_eq!(lazy.get(), Err("second time"));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| assert_eq!(lazy.get(), Ok(2)));
            }
        });
        assert_eq!(count.load(Ordering::SeqCst), 3);
    }

    // SI-21: a caller after `notify` does not wait for a computation that started before it.
    #[test]
    fn values_of_two_notices_are_computed_side_by_side() {
        let (begin, begun) = std::sync::mpsc::channel();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let (count, released) = (AtomicUsize::new(0), Mutex::new(released));
        let lazy = Lazy::<usize, &str>::new(move || match count.fetch_add(1, Ordering::SeqCst) {
            0 => {
                begin.send(()).unwrap();
                released.lock().unwrap().recv().unwrap();
                Ok(0)
            }
            at => Ok(at),
        });
        std::thread::scope(|scope| {
            let older = scope.spawn(|| lazy.get());
            begun.recv().unwrap();
            lazy.notify();
            assert_eq!(lazy.get(), Ok(1));
            release.send(()).unwrap();
            assert_eq!(older.join().unwrap(), Ok(0));
        });
        assert_eq!(lazy.get(), Ok(1), "what was made of the older state is kept by nobody");
    }
}
