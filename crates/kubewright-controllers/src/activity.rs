//! Activity of controllers, for observers.

use std::fmt::{self, Debug};
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kubewright_workqueue::{Gate, QueueView, RateLimitingQueue};
use tokio::sync::mpsc;

use crate::error::Error;
use crate::worker::Synced;

/// Maximum number of reconciles that an observer has not read yet.
const BUFFER: usize = 4096;

/// The activity of a process's controllers. Clones share it.
#[derive(Clone, Default)]
pub struct Activity {
    controllers: Arc<Mutex<Vec<Watched>>>,
    observer: Arc<Observer>,
}

struct Watched {
    name: &'static str,
    depth: Box<dyn Fn() -> usize + Send>,
    view: QueueViewer,
    counts: Arc<ActivityCounts>,
}

/// A view of a queue, with at most so many keys of each kind.
type QueueViewer = Arc<dyn Fn(usize) -> QueueView<String> + Send + Sync>;

/// The observer of finished reconciles, if there is one.
#[derive(Default)]
struct Observer {
    /// Whether there is one, readable without the lock.
    is_there: AtomicBool,
    sender: Mutex<Option<mpsc::Sender<FinishedReconcile>>>,
}

/// A finished reconcile of a shipped controller.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FinishedReconcile {
    /// The name of the controller.
    pub controller: &'static str,
    /// The key.
    pub key: String,
    /// The duration.
    pub elapsed: Duration,
    /// The delay after which the key is reconciled again, without an error.
    pub requeue_after: Option<Duration>,
    /// The error, with its causes.
    pub error: Option<String>,
}

/// Counters of one controller.
#[derive(Default)]
pub(crate) struct ActivityCounts {
    name: &'static str,
    gate: Arc<Gate>,
    observer: Arc<Observer>,
    reconciles: AtomicU64,
    errors: AtomicU64,
    busy: AtomicU64,
}

impl ActivityCounts {
    /// The gate of the workers.
    pub(crate) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Counts a worker as busy until the guard is dropped, even by a panic.
    pub(crate) fn busy(&self) -> Busy<'_> {
        self.busy.fetch_add(1, Ordering::Relaxed);
        Busy(self)
    }

    /// Tells the observer of a finished reconcile. Costs nothing without one.
    pub(crate) fn finished(&self, key: &impl Debug, elapsed: Duration, synced: &Synced) {
        if !self.observer.is_there.load(Ordering::Acquire) {
            return;
        }
        self.observer.tell(FinishedReconcile {
            controller: self.name,
            key: text_of(key),
            elapsed,
            requeue_after: synced.as_ref().ok().copied().flatten(),
            error: synced.as_ref().err().map(chain),
        });
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

    /// The queues, by the names of their controllers, with at most `limit` keys of each kind.
    pub fn queues(&self, limit: usize) -> Vec<(&'static str, QueueView<String>)> {
        let mut viewers: Vec<(&'static str, QueueViewer)> =
            self.lock().iter().map(|watched| (watched.name, watched.view.clone())).collect();
        viewers.sort_by_key(|(name, _)| *name);
        viewers.into_iter().map(|(name, view)| (name, view(limit))).collect()
    }

    /// Pauses and steps the workers of a controller, for debugging. `None` if it does not run.
    pub fn gate(&self, name: &str) -> Option<Arc<Gate>> {
        self.lock().iter().find(|watched| watched.name == name).map(|watched| watched.counts.gate.clone())
    }

    /// The reconciles that finish from now on. A later call replaces the observer of this one.
    ///
    /// An observer that is thousands of reconciles behind misses some. Controllers never wait for
    /// it.
    pub fn observe(&self) -> mpsc::Receiver<FinishedReconcile> {
        let (sender, receiver) = mpsc::channel(BUFFER);
        *self.observer.sender.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
        self.observer.is_there.store(true, Ordering::Release);
        receiver
    }

    /// Adds a controller.
    pub(crate) fn watch<K: Clone + Debug + Eq + Hash + Send + 'static>(
        &self,
        name: &'static str,
        queue: &RateLimitingQueue<K>,
    ) -> Arc<ActivityCounts> {
        let observer = self.observer.clone();
        let counts = Arc::new(ActivityCounts { name, observer, ..ActivityCounts::default() });
        let viewed = queue.clone();
        let view = Arc::new(move |limit| viewed.view(limit).map(|key| text_of(&key)));
        let queue = queue.clone();
        let depth = Box::new(move || queue.len());
        let mut controllers = self.lock();
        // A restarted controller replaces its predecessor.
        controllers.retain(|watched| watched.name != name);
        controllers.push(Watched { name, depth, view, counts: counts.clone() });
        counts
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Watched>> {
        self.controllers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer {
    fn tell(&self, finished: FinishedReconcile) {
        let mut sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        let is_gone = sender
            .as_ref()
            .is_none_or(|sender| matches!(sender.try_send(finished), Err(mpsc::error::TrySendError::Closed(_))));
        if is_gone {
            *sender = None;
            self.is_there.store(false, Ordering::Release);
        }
    }
}

/// A key as text. Object keys print themselves in quotes.
pub(crate) fn text_of(key: &impl Debug) -> String {
    format!("{key:?}").trim_matches('"').to_owned()
}

/// An error with its causes.
pub(crate) fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}

impl fmt::Debug for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.controllers()).finish()
    }
}
