//! What is chosen about a controller whatever its kind, and how that becomes one that runs.
//!
//! Not generic, so that it is compiled here and not in each program: queue and limiters with it.

use std::sync::Arc;
use std::time::Duration;

use kubewright_cache::SharedInformerFactory;
use kubewright_core::{ObjectKey, Str};
use kubewright_workqueue::limiter::ItemExponential;
use kubewright_workqueue::{Ageing, Options, PriorityQueue, RateLimiter};

use super::metrics::ControllerMetrics;
use super::relation::{AllKeys, Watch};
use super::run::Places;
use super::running::RunnableController;
use super::shared::Shared;
use super::work::{Feed, Plan};
use crate::sharding::Sharding;

/// How long a failing key waits at first, and at the most.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1000));

/// How long caches may take to sync before a controller fails.
pub(crate) const SYNC_TIMEOUT: Duration = Duration::from_secs(120);

pub(super) struct Settings {
    pub(super) name: Str,
    pub(super) factory: SharedInformerFactory,
    pub(super) relations: Vec<Watch>,
    /// Whether the controller starts without the main kind.
    pub(super) is_main_optional: bool,
    pub(super) feeds: Vec<(Str, Feed)>,
    pub(super) periods: Vec<Duration>,
    pub(super) workers: usize,
    pub(super) limiter: Box<dyn RateLimiter<ObjectKey>>,
    pub(super) ageing: Ageing,
    pub(super) timeout: Option<Duration>,
    pub(super) sync_timeout: Duration,
    pub(super) patience: Duration,
    pub(super) metrics: Option<ControllerMetrics>,
    pub(super) sharding: Option<Sharding>,
}

impl Settings {
    pub(super) fn new(name: Str, factory: SharedInformerFactory) -> Self {
        Settings {
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
            patience: Duration::from_secs(60),
            metrics: None,
            sharding: None,
        }
    }

    /// The controller that watches `main` and gives keys to the reconciler of `places`.
    pub(super) fn runnable(self, mut main: Watch, listed_keys: AllKeys, places: Places) -> RunnableController {
        let numbers = self.metrics.as_ref().map(|metrics| metrics.of(&self.name));
        if let Some(numbers) = &numbers {
            numbers.set_workers(self.workers);
        }
        let mut options = Options::new().name(self.name.to_string()).controller(self.name.to_string());
        if let Some(metrics) = &self.metrics {
            options = options.metrics(&metrics.queues);
        }
        let queue = PriorityQueue::new(self.limiter, self.ageing, options);
        let timers =
            self.periods.into_iter().map(|period| (Str::from_static("timer"), timer(period, listed_keys.clone())));
        let plan =
            Plan { client: self.factory.client().clone(), places, timeout: self.timeout, patience: self.patience };
        main.is_optional = self.is_main_optional;
        let watches: Vec<Watch> = std::iter::once(main).chain(self.relations).collect();
        let planned = watches.iter().map(|watch| (Arc::downgrade(&watch.source), watch.is_optional)).collect();
        let controller = RunnableController {
            shared: Arc::new(Shared::new(self.name, queue, numbers, planned)),
            factory: self.factory,
            watches,
            feeds: self.feeds.into_iter().chain(timers).collect(),
            listed_keys,
            workers: self.workers,
            sync_timeout: self.sync_timeout,
            plan: Arc::new(plan),
        };
        if let Some(sharding) = &self.sharding {
            controller.share(sharding);
        }
        controller
    }
}

/// Asks for all of these keys once each `period`.
fn timer(period: Duration, keys: AllKeys) -> Feed {
    Box::new(move |handle| {
        Box::pin(async move {
            loop {
                tokio::time::sleep(period).await;
                keys().into_iter().for_each(|key| handle.request(key, "timer"));
            }
        })
    })
}
