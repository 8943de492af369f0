//! Settings of a controller that do not depend on its kind.
//!
//! Not generic, so that it is compiled in this crate, including queue and limiters.

use std::sync::Arc;
use std::time::Duration;

use kubewright_cache::SharedInformerFactory;
use kubewright_core::{ObjectKey, Str};
use kubewright_workqueue::limiter::ItemExponential;
use kubewright_workqueue::{AddOptions, Ageing, LOW_PRIORITY, PriorityQueue, QueueOptions, RateLimiter};
use tokio::time::{Instant, sleep_until};

use super::metrics::ControllerMetrics;
use super::reason::{Reason, ReasonKind};
use super::relation::{AllKeys, WatchSpec};
use super::run::RunSlots;
use super::running::RunnableController;
use super::shared::SharedController;
use super::work::{Trigger, WorkerPlan};
use crate::sharding::Sharding;

/// Minimum and maximum back-off of a failing key.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1000));

/// Default time for caches to sync before a controller fails.
pub(crate) const SYNC_TIMEOUT: Duration = Duration::from_secs(120);

pub(super) struct ControllerSettings {
    pub(super) name: Str,
    pub(super) factory: SharedInformerFactory,
    pub(super) relations: Vec<WatchSpec>,
    /// Whether the controller starts without the main kind.
    pub(super) is_main_optional: bool,
    pub(super) feeds: Vec<(Str, Trigger)>,
    pub(super) periods: Vec<Duration>,
    pub(super) workers: usize,
    pub(super) limiter: Box<dyn RateLimiter<ObjectKey>>,
    pub(super) ageing: Ageing,
    pub(super) timeout: Option<Duration>,
    pub(super) sync_timeout: Duration,
    pub(super) time_limit: Duration,
    pub(super) metrics: Option<ControllerMetrics>,
    pub(super) sharding: Option<Sharding>,
}

impl ControllerSettings {
    pub(super) fn new(name: Str, factory: SharedInformerFactory) -> Self {
        ControllerSettings {
            name,
            factory,
            relations: Vec::new(),
            is_main_optional: false,
            feeds: Vec::new(),
            periods: Vec::new(),
            workers: 1,
            limiter: Box::new(ItemExponential::new(BACK_OFF.0, BACK_OFF.1)),
            ageing: Ageing::default(),
            timeout: None,
            sync_timeout: SYNC_TIMEOUT,
            time_limit: Duration::from_secs(60),
            metrics: None,
            sharding: None,
        }
    }

    /// The controller that watches `main` and passes keys to the reconciler of `places`.
    pub(super) fn runnable(self, mut main: WatchSpec, listed_keys: AllKeys, places: RunSlots) -> RunnableController {
        let numbers = self.metrics.as_ref().map(|metrics| metrics.of(&self.name));
        if let Some(numbers) = &numbers {
            numbers.set_workers(self.workers);
        }
        let mut options = QueueOptions::new().name(self.name.to_string()).controller(self.name.to_string());
        if let Some(metrics) = &self.metrics {
            options = options.metrics(&metrics.queues);
        }
        let queue = PriorityQueue::new(self.limiter, self.ageing, options);
        let has_zero_period = self.periods.iter().any(Duration::is_zero);
        let timers =
            self.periods.into_iter().map(|period| (Str::from_static("timer"), timer(period, listed_keys.clone())));
        let plan = WorkerPlan {
            client: self.factory.client().clone(),
            places,
            timeout: self.timeout,
            time_limit: self.time_limit,
        };
        main.is_optional = self.is_main_optional;
        let watches: Vec<WatchSpec> = std::iter::once(main).chain(self.relations).collect();
        let planned = watches.iter().map(|watch| (Arc::downgrade(&watch.source), watch.is_optional)).collect();
        let controller = RunnableController {
            shared: Arc::new(SharedController::new(self.name, queue, numbers, planned)),
            factory: self.factory,
            watches,
            feeds: self.feeds.into_iter().chain(timers).collect(),
            listed_keys,
            workers: self.workers,
            sync_timeout: self.sync_timeout,
            has_zero_period,
            plan: Arc::new(plan),
        };
        if let Some(sharding) = &self.sharding {
            controller.share(sharding);
        }
        controller
    }
}

/// Requests all of these keys once per `period`, at low priority.
///
/// Each key is added at a random moment of its slice of the period: otherwise all keys, and those
/// of several replicas or controllers, would be queued at the same time.
fn timer(period: Duration, keys: AllKeys) -> Trigger {
    Box::new(move |handle| {
        Box::pin(async move {
            let mut round = Instant::now();
            loop {
                let keys = keys();
                let share = period.div_f64(keys.len().max(1) as f64);
                for (index, key) in keys.into_iter().enumerate() {
                    let moment = share.mul_f64(index as f64 + handle.shared.random.unit());
                    sleep_until(round + moment.min(period)).await;
                    let reason =
                        Reason { source: Str::from_static("timer"), object: None, kind: ReasonKind::Requested };
                    handle.shared.enqueue(key, reason, AddOptions::new().priority(LOW_PRIORITY));
                }
                round += period;
                sleep_until(round).await;
            }
        })
    })
}
