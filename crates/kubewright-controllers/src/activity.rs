//! Activity of controllers, for observers.

use std::fmt;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kubewright_workqueue::RateLimitingQueue;

/// The activity of a process's controllers. Clones share it.
#[derive(Clone, Default)]
pub struct Activity {
    controllers: Arc<Mutex<Vec<Watched>>>,
}

struct Watched {
    name: &'static str,
    depth: Box<dyn Fn() -> usize + Send>,
    counts: Arc<ActivityCounts>,
}

/// Counters of one controller.
#[derive(Debug, Default)]
pub(crate) struct ActivityCounts {
    reconciles: AtomicU64,
    errors: AtomicU64,
    busy: AtomicU64,
}

impl ActivityCounts {
    /// Counts a worker as busy until the guard is dropped, even by a panic.
    pub(crate) fn busy(&self) -> Busy<'_> {
        self.busy.fetch_add(1, Ordering::Relaxed);
        Busy(self)
    }

    /// Counts a failure.
    pub(crate) fn failed(&self) {
        self.errors.fetch_add(1, Ordering::Relaxed);
    }
}

/// A busy worker.
pub(crate) struct Busy<'a>(&'a ActivityCounts);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
        self.0.reconciles.fetch_add(1, Ordering::Relaxed);
    }
}

/// The activity of one controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControllerActivity {
    /// Its name.
    pub name: &'static str,
    /// Number of queued keys, without delayed ones.
    pub depth: usize,
    /// Number of busy workers.
    pub busy: u64,
    /// Number of reconciles.
    pub reconciles: u64,
    /// Number of failed reconciles, which were retried. Includes conflicts.
    pub errors: u64,
}

impl Activity {
    /// The activity of each controller, by name.
    pub fn controllers(&self) -> Vec<ControllerActivity> {
        let seen = |watched: &Watched| ControllerActivity {
            name: watched.name,
            depth: (watched.depth)(),
            busy: watched.counts.busy.load(Ordering::Relaxed),
            reconciles: watched.counts.reconciles.load(Ordering::Relaxed),
            errors: watched.counts.errors.load(Ordering::Relaxed),
        };
        let mut controllers: Vec<ControllerActivity> = self.lock().iter().map(seen).collect();
        controllers.sort_by_key(|controller| controller.name);
        controllers
    }

    /// Adds a controller.
    pub(crate) fn watch<K: Clone + Eq + Hash + Send + 'static>(
        &self,
        name: &'static str,
        queue: &RateLimitingQueue<K>,
    ) -> Arc<ActivityCounts> {
        let (queue, counts) = (queue.clone(), Arc::<ActivityCounts>::default());
        let depth = Box::new(move || queue.len());
        let mut controllers = self.lock();
        // A restarted controller replaces its predecessor.
        controllers.retain(|watched| watched.name != name);
        controllers.push(Watched { name, depth, counts: counts.clone() });
        counts
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Watched>> {
        self.controllers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.controllers()).finish()
    }
}
