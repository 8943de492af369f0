//! State shared by the watches, the workers and the handles of a controller.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, Weak};
use std::time::Duration;

use kubewright_core::{ObjectKey, Str};
use kubewright_workqueue::{AddOptions, Gate, PriorityQueue, QueueView};

use super::health::{ControllerHealth, Failing, GivenUp, RelationHealth};
use super::metrics::ControllerCounters;
use super::predicate::EventFilter;
use super::reason::{PendingReasons, Reason, ReasonKind};
use super::relation::{CacheSource, Relation};
use super::results::{ReconcileResults, Subscribers};
use crate::own_writes::Ledger;
use crate::random::Random;
use crate::sharding::Sharding;
use crate::unwind::caught;

/// Maximum number of failing objects in the health.
const MAX_FAILING_SHOWN: usize = 100;

/// Retry delay of a key whose limiter panics.
const WITHOUT_LIMITER: Duration = Duration::from_secs(1);

/// The watches, and what happens to their events.
pub(super) struct EventSettings {
    pub(super) filter: Option<EventFilter>,
    /// Priority of keys of initial lists and resyncs.
    pub(super) start_up_priority: i32,
    /// Whether the first watch is that of the main kind.
    pub(super) has_main: bool,
}

pub(crate) struct SharedController {
    pub(crate) name: Str,
    pub(super) events: EventSettings,
    pub(crate) queue: PriorityQueue<ObjectKey>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) pending: PendingReasons,
    pub(crate) writes: Ledger,
    /// `None` without metrics.
    pub(crate) numbers: Option<ControllerCounters>,
    pub(crate) random: Random,
    pub(super) results: Subscribers,
    pub(crate) is_working: AtomicBool,
    /// The watches, the main one first; empty unless the controller runs.
    pub(crate) relations: RwLock<Vec<Arc<dyn Relation>>>,
    /// Watches before they are attached, and whether they are optional. Dropped once the controller
    /// runs.
    planned: Vec<(Weak<dyn CacheSource>, bool)>,
    /// The sharding, if there are other replicas.
    pub(crate) sharding: OnceLock<Sharding>,
    trouble: Mutex<Failures>,
    /// Whether there are failures, readable without the lock.
    is_trouble: AtomicBool,
}

#[derive(Default)]
struct Failures {
    given_up: BTreeMap<ObjectKey, GivenUp>,
    broken_feeds: Vec<Str>,
    /// The errors of failing objects by key, sorted; at most [`MAX_FAILING_SHOWN`].
    error_of: Vec<(ObjectKey, String)>,
}

impl Failures {
    /// The position of the error of `key`, or where it would be.
    fn place_of(&self, key: &ObjectKey) -> Result<usize, usize> {
        self.error_of.binary_search_by(|(known, _)| known.cmp(key))
    }

    fn forget_error(&mut self, key: &ObjectKey) {
        if let Ok(place) = self.place_of(key) {
            self.error_of.remove(place);
        }
    }
}

impl SharedController {
    pub(super) fn new(
        name: Str,
        queue: PriorityQueue<ObjectKey>,
        numbers: Option<ControllerCounters>,
        planned: Vec<(Weak<dyn CacheSource>, bool)>,
        events: EventSettings,
    ) -> Self {
        SharedController {
            name,
            events,
            queue,
            gate: Arc::default(),
            planned,
            pending: PendingReasons::default(),
            writes: Ledger::default(),
            numbers,
            random: Random::new(None),
            results: Subscribers::default(),
            is_working: AtomicBool::new(false),
            relations: RwLock::default(),
            sharding: OnceLock::new(),
            trouble: Mutex::default(),
            is_trouble: AtomicBool::new(false),
        }
    }

    /// Drops all state of a key that belongs to another replica.
    pub(crate) fn leave(&self, key: &ObjectKey) {
        self.pending.take(key);
        self.forget(key);
        self.succeeded(key);
        if !self.writes.is_empty() {
            self.writes.forget(key);
        }
    }

    /// Resets the limiter for `key`.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.limiter(key, || self.queue.forget(key));
    }

    /// Requests a reconcile of `key` when the limiter allows it, or after a fixed delay if the
    /// limiter panics: the key must not be lost.
    pub(crate) fn enqueue_limited(&self, key: &ObjectKey, reason: Reason, options: AddOptions) {
        self.pending.add(&self.name, key, reason);
        if self.limiter(key, || self.queue.add_with(key.clone(), options.rate_limited())).is_none() {
            self.queue.add_with(key.clone(), options.after(WITHOUT_LIMITER));
        }
    }

    /// Calls the limiter, which may be user-defined; `None` if it panics.
    pub(crate) fn limiter<R>(&self, key: &ObjectKey, ask: impl FnOnce() -> R) -> Option<R> {
        let told = |panic| tracing::error!(controller = %self.name, %key, panic, "the rate limiter panicked");
        caught(ask).map_err(told).ok()
    }

    /// Requests a reconcile of `key`.
    pub(crate) fn enqueue(&self, key: ObjectKey, reason: Reason, options: AddOptions) {
        self.pending.add(&self.name, &key, reason);
        self.queue.add_with(key, options);
    }

    /// The priority of the keys that a change leads to: live changes have that of their relation,
    /// and go before listed and resynced objects.
    pub(super) fn urgency(&self, change: ReasonKind, priority: Option<i32>) -> AddOptions {
        let priority = match change {
            ReasonKind::Listed | ReasonKind::Resynced | ReasonKind::TakenOver => {
                priority.unwrap_or(i32::MAX).min(self.events.start_up_priority)
            }
            _ => priority.unwrap_or_default(),
        };
        AddOptions::new().priority(priority)
    }

    /// The watch of the main kind, while the controller runs.
    pub(super) fn main(&self) -> Option<Arc<dyn Relation>> {
        let relations = self.relations.read().unwrap_or_else(PoisonError::into_inner);
        relations.first().filter(|_| self.events.has_main).cloned()
    }

    pub(crate) fn relations(&self) -> Vec<Arc<dyn Relation>> {
        self.relations.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_relations(&self, relations: Vec<Arc<dyn Relation>>) {
        let before = std::mem::replace(&mut *self.relations.write().unwrap_or_else(PoisonError::into_inner), relations);
        // Dropped outside of the lock, since the last handle of an informer may be among them.
        drop(before);
    }

    /// Only the worker that has claimed the key reports its result, so it never misses its own
    /// report.
    pub(crate) fn succeeded(&self, key: &ObjectKey) {
        if self.is_trouble.load(Ordering::Acquire) {
            self.change_trouble(|trouble| {
                trouble.given_up.remove(key);
                trouble.forget_error(key);
            });
        }
    }

    pub(crate) fn failed(&self, key: &ObjectKey, error: String) {
        self.change_trouble(|trouble| {
            trouble.given_up.remove(key);
            match trouble.place_of(key) {
                Ok(place) => trouble.error_of[place].1 = error,
                Err(place) if trouble.error_of.len() < MAX_FAILING_SHOWN => {
                    trouble.error_of.insert(place, (key.clone(), error))
                }
                Err(_) => {}
            }
        });
    }

    pub(crate) fn gave_up(&self, key: &ObjectKey, reason: String) {
        let since = tokio::time::Instant::now();
        self.change_trouble(|trouble| {
            trouble.forget_error(key);
            trouble.given_up.insert(key.clone(), GivenUp { key: key.clone(), reason, since });
        });
    }

    pub(crate) fn feed_broke(&self, name: Str) {
        self.trouble().broken_feeds.push(name);
    }

    pub(crate) fn health(&self) -> ControllerHealth {
        let mut relations: Vec<RelationHealth> = self
            .relations()
            .iter()
            .enumerate()
            .map(|(index, relation)| relation.health(index == 0 && self.events.has_main))
            .collect();
        if relations.is_empty() {
            relations = self.planned_health();
        }
        let view = self.queue.view(1);
        let trouble = self.trouble();
        ControllerHealth {
            name: self.name.clone(),
            is_working: self.is_working.load(Ordering::Acquire),
            relations,
            active: view.processing_count,
            waiting: view.waiting_count,
            longest_running: view.processing.first().and_then(|processing| Some(processing.since?.elapsed())),
            broken_feeds: trouble.broken_feeds.clone(),
            given_up: trouble.given_up.values().cloned().collect(),
            failing: trouble
                .error_of
                .iter()
                .map(|(key, error)| Failing {
                    key: key.clone(),
                    error: error.clone(),
                    attempts: self.queue.num_requeues(key),
                })
                .collect(),
        }
    }

    /// The health of caches before the controller starts.
    fn planned_health(&self) -> Vec<RelationHealth> {
        let planned = self.planned.iter().enumerate().filter_map(|(index, (source, is_optional))| {
            let source = source.upgrade()?;
            Some(RelationHealth {
                name: source.name().clone(),
                is_main: index == 0 && self.events.has_main,
                is_optional: *is_optional,
                has_synced: source.has_synced(),
                watch: source.health(),
            })
        });
        planned.collect()
    }

    fn change_trouble(&self, change: impl FnOnce(&mut Failures)) {
        let mut trouble = self.trouble();
        change(&mut trouble);
        self.is_trouble.store(!trouble.given_up.is_empty() || !trouble.error_of.is_empty(), Ordering::Release);
    }

    fn trouble(&self) -> MutexGuard<'_, Failures> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A handle to a controller: requests reconciles, and reads its health. Clones are the same handle.
#[derive(Clone)]
pub struct ControllerHandle {
    pub(crate) shared: Arc<SharedController>,
}

impl ControllerHandle {
    /// The name of the controller.
    #[inline]
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Requests a reconcile of `key`; `source` is recorded as its reason.
    pub fn request(&self, key: impl Into<ObjectKey>, source: impl Into<Str>) {
        self.request_after(key, source, Duration::ZERO);
    }

    /// Requests a reconcile of `key` after a delay.
    pub fn request_after(&self, key: impl Into<ObjectKey>, source: impl Into<Str>, delay: Duration) {
        let reason = Reason { source: source.into(), object: None, kind: ReasonKind::Requested };
        self.shared.enqueue(key.into(), reason, AddOptions::new().after(delay));
    }

    /// The results of reconciles from now on, each with its reasons.
    ///
    /// ```
    /// # use kubewright_api::core::v1::ConfigMap;
    /// # use kubewright_apiserver::ApiServer;
    /// # use kubewright_cache::SharedInformerFactory;
    /// # use kubewright_core::ObjectKey;
    /// # use kubewright_runtime::{Controller, Outcome};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ApiServer::in_memory().start().await?;
    /// # let shutdown = tokio_util::sync::CancellationToken::new();
    /// let factory = SharedInformerFactory::new(&server.client(), Default::default());
    /// let controller = Controller::<ConfigMap>::new("maps", &factory).reconciling(|_, _| async { Ok(Outcome::Done) });
    /// let (handle, mut results) = (controller.handle(), controller.handle().results());
    /// # let stop = shutdown.clone();
    /// let running = tokio::spawn(async move { controller.run(&shutdown).await });
    /// handle.request(ObjectKey::namespaced("default", "web"), "test");
    /// let result = results.next().await.expect("the controller runs");
    /// assert_eq!(result.reasons.to_string(), "test requested");
    /// assert_eq!(result.result, Ok(Outcome::Done));
    /// # stop.cancel();
    /// # running.await??;
    /// # Ok(()) }
    /// ```
    pub fn results(&self) -> ReconcileResults {
        self.shared.results.subscribe()
    }

    /// Its health.
    pub fn health(&self) -> ControllerHealth {
        self.shared.health()
    }

    /// Its queue, with at most `limit` keys of each kind.
    pub fn queue(&self, limit: usize) -> QueueView<ObjectKey> {
        self.shared.queue.view(limit)
    }

    /// Pauses and steps the workers, for debugging.
    pub fn gate(&self) -> &Arc<Gate> {
        &self.shared.gate
    }

    /// Whether no reconcile runs, is queued, or is due within `horizon`.
    #[inline]
    pub fn is_idle(&self, horizon: Duration) -> bool {
        let view = self.shared.queue.view(1);
        let now = tokio::time::Instant::now();
        let is_planned =
            view.delayed.first().is_some_and(|delayed| delayed.until.saturating_duration_since(now) <= horizon);
        let is_listening = self.shared.relations().iter().any(|relation| relation.lag() > 0);
        view.waiting_count == 0 && view.processing_count == 0 && !is_planned && !is_listening
    }
}

impl fmt::Debug for ControllerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerHandle").field("name", &self.shared.name).finish_non_exhaustive()
    }
}
