//! The plain queue: ordered, deduplicated, at most one worker per key.
//!
//! The lock, the clock and the wake-ups are in `shared_queue`. The transitions are in `state`.

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::RandomState;
use tokio::sync::Notify;

use crate::ageing::Ageing;
use crate::clock;
use crate::fairness::Order;
use crate::get::Get;
use crate::metrics::{QueueLabels, Stats};
use crate::options::QueueOptions;
use crate::shared_queue::{Locked, SharedQueue};
use crate::state::{QueueState, ShutdownPhase};
use crate::sync::Lock;
use crate::view::QueueView;
use crate::waiters::Waiters;

/// Keys that need processing, in FIFO order.
///
/// Adding a queued key has no effect. A key that is added while it is being processed is queued
/// again, once, when its worker is done. So two workers never process the same key at the same
/// time, and a key is always processed after it was last added. Clones are handles to the same
/// queue.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use kubewright_workqueue::{QueueOptions, WorkQueue};
///
/// let queue = WorkQueue::new(QueueOptions::new());
/// queue.add("default/web");
/// queue.add("default/web");
/// assert_eq!(queue.len(), 1);
///
/// let claim = queue.get().await.expect("a key waits");
/// queue.add("default/web");
/// assert_eq!((*claim, queue.len()), ("default/web", 0));
/// drop(claim);
/// assert_eq!(queue.len(), 1);
///
/// queue.shut_down();
/// assert!(queue.get().await.is_some());
/// assert!(queue.get().await.is_none());
/// # }
/// ```
#[doc(alias = "TypedInterface")]
pub struct WorkQueue<T> {
    pub(crate) shared: Arc<SharedQueue<T>>,
}

impl<T: Clone + Eq + Hash + Send + 'static> WorkQueue<T> {
    /// An empty queue.
    #[doc(alias = "NewTyped")]
    #[doc(alias = "NewTypedWithConfig")]
    #[must_use]
    pub fn new(options: QueueOptions<T>) -> Self {
        Self::ordered(options, None)
    }

    pub(crate) fn ordered(options: QueueOptions<T>, ageing: Option<Ageing>) -> Self {
        let metrics = options.metrics.filter(|_| !options.name.is_empty());
        let stats = metrics.as_ref().map(|_| Box::new(Stats::new(ageing.is_some())));
        let is_timed = !options.name.is_empty() || ageing.is_some() || options.group_of.is_some();
        let controller = options.controller.unwrap_or_else(|| options.name.clone());
        let shared = Arc::new(SharedQueue {
            locked: Lock::new(Locked {
                state: QueueState::new(Order::new(ageing, options.group_of), is_timed, stats),
                waiters: Waiters::default(),
            }),
            drained: Notify::new(),
            hasher: RandomState::default(),
            epoch: clock::now(),
            is_timed,
            labels: QueueLabels { name: options.name, controller },
        });
        if let Some(metrics) = metrics {
            let observed: Arc<SharedQueue<T>> = shared.clone();
            metrics.watch(observed);
        }
        Self { shared }
    }

    /// Marks `key` as needing processing. Ignored once the queue is shutting down.
    pub fn add(&self, key: T) {
        self.add_with_priority(key, 0);
    }

    /// Like [`add`](Self::add), but clones the key only if it is not present yet. Cheaper for keys
    /// that are often queued already.
    pub fn add_ref(&self, key: &T) {
        let shared = &*self.shared;
        let hash = shared.hash(key);
        shared.change(|locked| {
            let due = locked.advance(|| shared.now());
            let is_added = locked.state.add_ref(hash, key, || shared.now());
            locked.waiters.pick(due + usize::from(is_added));
        });
    }

    pub(crate) fn add_with_priority(&self, key: T, priority: i32) {
        let shared = &*self.shared;
        let hash = shared.hash(&key);
        // A key that is already present is dropped after unlocking: its `Drop` may be slow or use
        // the queue.
        let _unused = shared.change(|locked| {
            let due = locked.advance(|| shared.now());
            let (is_added, unused) = locked.state.add(hash, key, priority, || shared.now());
            locked.waiters.pick(due + usize::from(is_added));
            unused
        });
    }

    pub(crate) fn add_after_with_priority(&self, key: T, delay: Duration, priority: i32) {
        let hash = self.shared.hash(&key);
        let now = self.shared.now();
        let _unused = self.shared.change(|locked| {
            let mut unused = None;
            let mut added = locked.state.advance(now);
            if locked.state.phase == ShutdownPhase::Open
                && let Some(stats) = &mut locked.state.stats
            {
                stats.retries += 1;
            }
            if delay.is_zero() {
                let (is_added, key) = locked.state.add(hash, key, priority, || now);
                added += usize::from(is_added);
                unused = key;
            } else {
                let delay = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
                if locked.state.add_at(hash, key, priority, now.saturating_add(delay)) {
                    locked.waiters.pick_timekeeper();
                }
            }
            locked.waiters.pick(added);
            unused
        });
    }

    /// Waits for the next key and claims it until the claim is dropped. Returns `None` once the
    /// queue is shut down and empty.
    ///
    /// Cancel safe: dropping the future loses no key; another worker gets it. Needs a tokio runtime
    /// with its timer enabled if keys are added with a delay.
    #[must_use = "futures do nothing unless polled"]
    pub fn get(&self) -> Get<'_, T> {
        Get::new(&self.shared)
    }

    /// Marks `key` as done, after [`Claim::into_key`](crate::Claim::into_key) released it from its
    /// claim.
    ///
    /// Does nothing if the key is not being processed. A claim that still exists for the key loses
    /// its effect.
    pub fn done(&self, key: &T) {
        let hash = self.shared.hash(key);
        let ticket = self.shared.locked.lock().state.ticket(hash, key);
        if let Some((number, ticket)) = ticket {
            self.shared.finish(number, ticket);
        }
    }

    pub(crate) fn set_priority(&self, key: &T, priority: i32) -> bool {
        let hash = self.shared.hash(key);
        self.shared.change(|locked| locked.state.set_priority(hash, key, priority))
    }

    /// A snapshot for diagnostics: up to `limit` keys of each kind, and the totals.
    #[must_use]
    pub fn view(&self, limit: usize) -> QueueView<T> {
        let view = |state: &QueueState<T>| QueueView::of(state, &self.shared.labels.name, self.shared.epoch, limit);
        self.shared.inspect(self.shared.now(), view)
    }
}

impl<T> WorkQueue<T> {
    /// Number of queued keys, without keys being processed and delayed keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.inspect(self.shared.now(), QueueState::len)
    }

    /// Whether no key is queued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Rejects new keys from now on. Queued keys are still handed out; delayed keys are dropped.
    ///
    /// Returns immediately, and makes a pending
    /// [`shut_down_with_drain`](Self::shut_down_with_drain) return.
    pub fn shut_down(&self) {
        self.shared.shut_down(ShutdownPhase::Closed);
    }

    /// Rejects new keys from now on, and waits until every added key has been processed.
    ///
    /// Drained means that no key is queued or being processed, including keys that were added again
    /// while being processed. Delayed keys are dropped. Workers must keep calling
    /// [`get`](WorkQueue::get); it returns `None` only when no key can follow. Call
    /// [`shut_down`](Self::shut_down) to abandon a worker that never finishes. Cancel safe:
    /// dropping the future only stops waiting.
    pub async fn shut_down_with_drain(&self) {
        self.shared.shut_down(ShutdownPhase::Draining);
        loop {
            let drained = self.shared.drained.notified();
            {
                let locked = self.shared.locked.lock();
                if locked.state.phase == ShutdownPhase::Closed || locked.state.is_drained() {
                    return;
                }
            }
            drained.await;
        }
    }

    /// Whether the queue rejects new keys.
    #[doc(alias = "ShuttingDown")]
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.shared.locked.lock().state.phase != ShutdownPhase::Open
    }

    /// The name given in the options, or an empty string.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.labels.name
    }
}

impl<T: Clone + Eq + Hash + Send + 'static> Default for WorkQueue<T> {
    fn default() -> Self {
        Self::new(QueueOptions::default())
    }
}

impl<T> Clone for WorkQueue<T> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<T> fmt::Debug for WorkQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkQueue").field("name", &self.name()).field("len", &self.len()).finish_non_exhaustive()
    }
}
