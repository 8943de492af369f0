//! What controllers are doing, for those who look on.

use std::fmt;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kubewright_workqueue::RateLimitingQueue;

/// What the controllers of one process are doing. Clones see the same.
#[derive(Clone, Default)]
pub struct Activity {
    controllers: Arc<Mutex<Vec<Watched>>>,
}

struct Watched {
    name: &'static str,
    depth: Box<dyn Fn() -> usize + Send>,
    counts: Arc<Counts>,
}

/// What one controller has done since it started.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    reconciles: AtomicU64,
    errors: AtomicU64,
    busy: AtomicU64,
}

impl Counts {
    /// Counts a worker as busy until the guard is dropped, also by a panic.
    pub(crate) fn busy(&self) -> Busy<'_> {
        self.busy.fetch_add(1, Ordering::Relaxed);
        Busy(self)
    }

    /// Counts a failure.
    pub(crate) fn failed(&self) {
        self.errors.fetch_add(1, Ordering::Relaxed);
    }
}

/// A worker has a key in hand.
pub(crate) struct Busy<'a>(&'a Counts);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
        self.0.reconciles.fetch_add(1, Ordering::Relaxed);
    }
}

/// What one controller is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControllerActivity {
    /// Which one.
    pub name: &'static str,
    /// How many keys wait in its queue, those on a delay not counted.
    pub depth: usize,
    /// How many workers have a key in hand.
    pub busy: u64,
    /// How often it has looked at an object.
    pub reconciles: u64,
    /// How often that failed and was tried again. Conflicts are counted too.
    pub errors: u64,
}

impl Activity {
    /// What each controller is doing now, by name.
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

    /// Looks at one more controller.
    pub(crate) fn watch<K: Clone + Eq + Hash + Send + 'static>(
        &self,
        name: &'static str,
        queue: &RateLimitingQueue<K>,
    ) -> Arc<Counts> {
        let (queue, counts) = (queue.clone(), Arc::<Counts>::default());
        let depth = Box::new(move || queue.len());
        let mut controllers = self.lock();
        // One that is started again takes the place of its predecessor.
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
