//! Settings of a controller that do not depend on its kind.
//!
//! Not generic, so that it is compiled in this crate, including queue and limiters.

use std::sync::Arc;
use std::time::Duration;

use kubewright_cache::SharedInformerFactory;
use kubewright_core::{ObjectKey, Str};
use kubewright_net::observation::Observer;
use kubewright_workqueue::limiter::ItemExponential;
use kubewright_workqueue::{Ageing, LOW_PRIORITY, PriorityQueue, QueueOptions, RateLimiter};

use super::metrics::ControllerMetrics;
use super::predicate::EventFilter;
use super::reconcile_error::ErrorPolicy;
use super::relation::{AllKeys, ListedKeys, WatchSpec};
use super::run::RunSlots;
use super::running::RunnableController;
use super::shared::{EventSettings, SharedController};
use super::sources::SourceTask;
use super::work::WorkerPlan;
use crate::permissions::Permissions;
use crate::sharding::Sharding;

/// Minimum and maximum back-off of a failing key.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1000));

/// Default time for caches to sync before a controller fails.
pub(crate) const SYNC_TIMEOUT: Duration = Duration::from_secs(120);

pub(super) struct ControllerSettings {
    pub(super) name: Str,
    pub(super) factory: SharedInformerFactory,
    pub(super) relations: Vec<WatchSpec>,
    /// Filters the events of all watches.
    pub(super) event_filter: Option<EventFilter>,
    /// Priority of keys of initial lists and resyncs.
    pub(super) start_up_priority: i32,
    pub(super) feeds: Vec<(Str, SourceTask)>,
    /// Whether the period of a source is zero, which is an error.
    pub(super) has_zero_period: bool,
    pub(super) workers: usize,
    pub(super) limiter: Box<dyn RateLimiter<ObjectKey>>,
    pub(super) ageing: Ageing,
    pub(super) queue: QueueOptions<ObjectKey>,
    pub(super) timeout: Option<Duration>,
    pub(super) error_policy: Option<ErrorPolicy>,
    pub(super) sync_timeout: Duration,
    pub(super) time_limit: Duration,
    pub(super) metrics: Option<ControllerMetrics>,
    pub(super) observer: Option<Arc<dyn Observer>>,
    pub(super) sharding: Option<Sharding>,
    pub(super) leadership: LeadershipNeed,
    /// The declared permissions, besides those of its watches.
    pub(super) permissions: Permissions,
}

/// Behaviour of a controller before this process leads, under a manager with leader election.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum LeadershipNeed {
    /// Nothing; it starts when this process leads.
    #[default]
    Start,
    /// Fills its queue. It reconciles when this process leads.
    Work,
    /// Everything.
    Nothing,
}

impl ControllerSettings {
    pub(super) fn new(name: Str, factory: SharedInformerFactory) -> Self {
        ControllerSettings {
            name,
            factory,
            relations: Vec::new(),
            event_filter: None,
            start_up_priority: LOW_PRIORITY,
            feeds: Vec::new(),
            has_zero_period: false,
            workers: 1,
            limiter: Box::new(ItemExponential::new(BACK_OFF.0, BACK_OFF.1)),
            ageing: Ageing::default(),
            queue: QueueOptions::new(),
            timeout: None,
            error_policy: None,
            sync_timeout: SYNC_TIMEOUT,
            time_limit: Duration::from_secs(60),
            metrics: None,
            observer: None,
            sharding: None,
            leadership: LeadershipNeed::default(),
            permissions: Permissions::new(),
        }
    }

    /// The controller that watches `main`, if it has a main kind, and passes keys to the reconciler
    /// of `places`.
    pub(super) fn runnable(self, main: Option<WatchSpec>, places: RunSlots) -> RunnableController {
        let numbers = self.metrics.as_ref().map(|metrics| metrics.of(&self.name));
        if let Some(numbers) = &numbers {
            numbers.set_workers(self.workers);
        }
        let mut options = self.queue.name(self.name.to_string()).controller(self.name.to_string());
        if let Some(metrics) = &self.metrics {
            options = options.metrics(&metrics.queues);
        }
        let queue = PriorityQueue::new(self.limiter, self.ageing, options);
        let plan = WorkerPlan {
            client: self.factory.client().clone(),
            places,
            timeout: self.timeout,
            error_policy: self.error_policy,
            time_limit: self.time_limit,
            observer: self.observer,
        };
        let has_main = main.is_some();
        let mut watches: Vec<WatchSpec> = main.into_iter().chain(self.relations).collect();
        let filter = self.event_filter.clone();
        // All keys are those of the main kind, or of all kinds if there is no main kind.
        let count = if has_main { 1 } else { watches.len() };
        let listed: Vec<ListedKeys> = watches.iter_mut().take(count).filter_map(|watch| watch.listed.take()).collect();
        let listed_keys: AllKeys = Arc::new(move || {
            let mut keys: Vec<ObjectKey> = listed.iter().flat_map(|listed| listed(filter.as_ref())).collect();
            keys.sort_unstable();
            keys.dedup();
            keys
        });
        let planned = watches.iter().map(|watch| (Arc::downgrade(&watch.source), watch.is_optional)).collect();
        let events = EventSettings { filter: self.event_filter, start_up_priority: self.start_up_priority, has_main };
        let controller = RunnableController {
            shared: Arc::new(SharedController::new(self.name, queue, numbers, planned, events)),
            factory: self.factory,
            watches,
            feeds: self.feeds,
            listed_keys,
            workers: self.workers,
            leadership: self.leadership,
            permissions: self.permissions,
            sync_timeout: self.sync_timeout,
            has_zero_period: self.has_zero_period,
            plan: Arc::new(plan),
        };
        if let Some(sharding) = &self.sharding {
            controller.share(sharding);
        }
        controller
    }
}
