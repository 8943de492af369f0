//! Whether all that came from a source has been dealt with, for those who hand things on.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Tracks items that are dealt with in order, by counting.
///
/// Synced once the source is, and as many have been finished as were started.
#[derive(Debug, Default)]
pub struct SingleFileTracker {
    is_source_synced: AtomicBool,
    pending: AtomicUsize,
}

impl SingleFileTracker {
    /// An item of the first list is handed on. Before that, the source has not synced.
    pub fn start(&self) {
        self.pending.fetch_add(1, Ordering::SeqCst);
    }

    /// An item has been dealt with. More than were started count as none.
    pub fn finished(&self) {
        let _ = self.pending.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |pending| pending.checked_sub(1));
    }

    /// The first list has been handed on whole.
    #[doc(alias = "UpstreamHasSynced")]
    pub fn source_synced(&self) {
        self.is_source_synced.store(true, Ordering::SeqCst);
    }

    /// Whether all of the first list has been dealt with.
    pub fn has_synced(&self) -> bool {
        // The source first: what it started is then counted.
        self.is_source_synced.load(Ordering::SeqCst) && self.pending.load(Ordering::SeqCst) == 0
    }
}

/// Tracks items that are dealt with in any order, by key.
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
    /// An item of the first list is handed on.
    pub fn start(&self, key: K) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(key);
    }

    /// An item has been dealt with; harmless if it was never started.
    pub fn finished(&self, key: &K) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    /// The first list has been handed on whole.
    #[doc(alias = "UpstreamHasSynced")]
    pub fn source_synced(&self) {
        self.is_source_synced.store(true, Ordering::SeqCst);
    }

    /// Whether all of the first list has been dealt with.
    pub fn has_synced(&self) -> bool {
        self.is_source_synced.load(Ordering::SeqCst)
            && self.waiting.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

/// A value that is computed when it is asked for, and again only after [`notify`](Self::notify).
///
/// Who asks while it is being computed waits for that result; errors are not kept.
pub struct Lazy<V, E> {
    compute: Box<dyn Fn() -> Result<V, E> + Send + Sync>,
    current: Mutex<Arc<Mutex<Option<V>>>>,
}

impl<V: Clone, E> Lazy<V, E> {
    /// A value that `compute` gives.
    pub fn new(compute: impl Fn() -> Result<V, E> + Send + Sync + 'static) -> Self {
        Lazy { compute: Box::new(compute), current: Mutex::default() }
    }

    /// What the value is made of has changed: the next one who asks computes it again, also if it is being computed now.
    pub fn notify(&self) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Arc::default();
    }

    /// The value.
    ///
    /// # Errors
    /// What computing it gives; the next one who asks tries again.
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
    fn a_lazy_value_is_computed_once_for_each_notice_and_errors_are_not_kept() {
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

    // SI-21: who asks after a notice does not wait for what was being computed before it.
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
