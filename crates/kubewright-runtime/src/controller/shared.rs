//! What the watches, the workers and the handles of one controller have in common.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, Weak};
use std::time::Duration;

use kubewright_core::{ObjectKey, Str};
use kubewright_workqueue::{AddOptions, LOW_PRIORITY, PriorityQueue, View};

use super::health::{ControllerHealth, Failing, GivenUp, RelationHealth};
use super::metrics::Numbers;
use super::reason::{Change, Pending, Reason};
use super::relation::{Relation, Source};
use crate::consistency::Ledger;
use crate::random::Random;
use crate::sharding::Sharding;
use crate::unwind::caught;

/// So many failing objects are shown.
const SHOWN: usize = 100;

/// When a key is tried again whose limiter does not say.
const WITHOUT_LIMITER: Duration = Duration::from_secs(1);

pub(crate) struct Shared {
    pub(crate) name: Str,
    pub(crate) queue: PriorityQueue<ObjectKey>,
    pub(crate) pending: Pending,
    pub(crate) writes: Ledger,
    /// Absent where nobody reads them.
    pub(crate) numbers: Option<Numbers>,
    pub(crate) random: Random,
    pub(crate) is_working: AtomicBool,
    /// The watches, the main one first; empty unless the controller runs.
    pub(crate) relations: RwLock<Vec<Arc<dyn Relation>>>,
    /// Watches before they are attached, and whether they are optional. Gone once the controller
    /// runs.
    planned: Vec<(Weak<dyn Source>, bool)>,
    /// Which keys are this replica's, if there are others.
    pub(crate) sharding: OnceLock<Sharding>,
    trouble: Mutex<Trouble>,
    /// Whether there is any, to be asked without the lock.
    is_trouble: AtomicBool,
}

#[derive(Default)]
struct Trouble {
    given_up: BTreeMap<ObjectKey, GivenUp>,
    broken_feeds: Vec<Str>,
    /// The errors of failing objects by key, sorted; no more than [`SHOWN`].
    error_of: Vec<(ObjectKey, String)>,
}

impl Trouble {
    /// Where the error of `key` is, or would be.
    fn place_of(&self, key: &ObjectKey) -> Result<usize, usize> {
        self.error_of.binary_search_by(|(known, _)| known.cmp(key))
    }

    fn forget_error(&mut self, key: &ObjectKey) {
        if let Ok(place) = self.place_of(key) {
            self.error_of.remove(place);
        }
    }
}

impl Shared {
    pub(crate) fn new(
        name: Str,
        queue: PriorityQueue<ObjectKey>,
        numbers: Option<Numbers>,
        planned: Vec<(Weak<dyn Source>, bool)>,
    ) -> Self {
        Shared {
            name,
            queue,
            planned,
            pending: Pending::default(),
            writes: Ledger::default(),
            numbers,
            random: Random::new(None),
            is_working: AtomicBool::new(false),
            relations: RwLock::default(),
            sharding: OnceLock::new(),
            trouble: Mutex::default(),
            is_trouble: AtomicBool::new(false),
        }
    }

    /// Leaves a key to another replica: nothing of it is kept.
    pub(crate) fn leave(&self, key: &ObjectKey) {
        self.pending.take(key);
        self.forget(key);
        self.succeeded(key);
        if !self.writes.is_empty() {
            self.writes.forget(key);
        }
    }

    /// Lets the limiter forget the failures of `key`.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.limiter(key, || self.queue.forget(key));
    }

    /// Asks for a reconcile of `key` when the limiter allows it, or after a fixed time if that panics: the key must not be lost.
    pub(crate) fn enqueue_limited(&self, key: &ObjectKey, reason: Reason, options: AddOptions) {
        self.pending.add(key, reason);
        if self.limiter(key, || self.queue.add_with(key.clone(), options.rate_limited())).is_none() {
            self.queue.add_with(key.clone(), options.after(WITHOUT_LIMITER));
        }
    }

    /// Asks the limiter, which may be a user's; `None` if it panics.
    pub(crate) fn limiter<R>(&self, key: &ObjectKey, ask: impl FnOnce() -> R) -> Option<R> {
        let told = |panic| tracing::error!(controller = %self.name, %key, panic, "the rate limiter panicked");
        caught(ask).map_err(told).ok()
    }

    /// Asks for a reconcile of `key`.
    pub(crate) fn enqueue(&self, key: ObjectKey, reason: Reason, options: AddOptions) {
        self.pending.add(&key, reason);
        self.queue.add_with(key, options);
    }

    /// How urgent a change is: what people wait for goes before what a list repeats.
    pub(crate) fn urgency(change: Change) -> AddOptions {
        match change {
            Change::Listed | Change::Reminded | Change::TakenOver => AddOptions::new().priority(LOW_PRIORITY),
            _ => AddOptions::new(),
        }
    }

    pub(crate) fn relations(&self) -> Vec<Arc<dyn Relation>> {
        self.relations.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_relations(&self, relations: Vec<Arc<dyn Relation>>) {
        let before = std::mem::replace(&mut *self.relations.write().unwrap_or_else(PoisonError::into_inner), relations);
        // Without the lock, since the last use of an informer may be among them.
        drop(before);
    }

    /// Only the worker that has the key says how it went, so that it never misses what it said itself.
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
                Err(place) if trouble.error_of.len() < SHOWN => trouble.error_of.insert(place, (key.clone(), error)),
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
        let mut relations: Vec<RelationHealth> =
            self.relations().iter().enumerate().map(|(index, relation)| relation.health(index == 0)).collect();
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

    /// The health of caches that wait for the controller to start.
    fn planned_health(&self) -> Vec<RelationHealth> {
        let planned = self.planned.iter().enumerate().filter_map(|(index, (source, is_optional))| {
            let source = source.upgrade()?;
            Some(RelationHealth {
                name: source.name().clone(),
                is_main: index == 0,
                is_optional: *is_optional,
                has_synced: source.has_synced(),
                watch: source.health(),
            })
        });
        planned.collect()
    }

    fn change_trouble(&self, change: impl FnOnce(&mut Trouble)) {
        let mut trouble = self.trouble();
        change(&mut trouble);
        self.is_trouble.store(!trouble.given_up.is_empty() || !trouble.error_of.is_empty(), Ordering::Release);
    }

    fn trouble(&self) -> MutexGuard<'_, Trouble> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A controller seen from outside: asks for reconciles, and tells how it is doing. Clones are the same.
#[derive(Clone)]
pub struct ControllerHandle {
    pub(crate) shared: Arc<Shared>,
}

impl ControllerHandle {
    /// The name of the controller.
    #[inline]
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Asks for a reconcile of `key`; `source` says who does.
    pub fn request(&self, key: ObjectKey, source: impl Into<Str>) {
        self.request_after(key, source, Duration::ZERO);
    }

    /// Asks for a reconcile of `key` after so long.
    #[inline]
    pub fn request_after(&self, key: ObjectKey, source: impl Into<Str>, delay: Duration) {
        let reason = Reason { source: source.into(), object: None, change: Change::Requested };
        self.shared.enqueue(key, reason, AddOptions::new().after(delay));
    }

    /// How it is doing.
    pub fn health(&self) -> ControllerHealth {
        self.shared.health()
    }

    /// Its queue, with at most `limit` keys of each kind.
    pub fn queue(&self, limit: usize) -> View<ObjectKey> {
        self.shared.queue.view(limit)
    }

    /// Whether nothing runs, nothing waits, and nothing is planned within `horizon`.
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
