//! Options of a controller that do not depend on its kind.

use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use kubewright_core::ObjectKey;
use kubewright_net::observation::Observer;
use kubewright_workqueue::{Ageing, RateLimiter};

use super::settings::LeadershipNeed;
use super::{BoxError, Context, Controller, ControllerMetrics, ErrorAction, Subject};
use crate::permissions::Permissions;

impl<T: Subject> Controller<T> {
    /// Declares permissions that the reconciler needs besides those of its watches, for
    /// [`Manager::permissions`](crate::Manager::permissions). Nothing is enforced here.
    #[must_use]
    pub fn permissions(mut self, permissions: &Permissions) -> Self {
        self.settings.permissions.extend(permissions);
        self
    }

    /// Number of concurrent reconciles, at least 1. 1 by default.
    #[doc(alias = "MaxConcurrentReconciles")]
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.settings.workers = workers.max(1);
        self
    }

    /// Back-off of keys after failures: from 5 ms to 1000 s by default.
    #[doc(alias = "RateLimiter")]
    #[must_use]
    pub fn rate_limiter(mut self, limiter: impl RateLimiter<ObjectKey> + 'static) -> Self {
        self.settings.limiter = Box::new(limiter);
        self
    }

    /// How waiting time makes up for a low priority, so that no key starves.
    #[doc(alias = "UsePriorityQueue")]
    #[must_use]
    pub fn ageing(mut self, ageing: Ageing) -> Self {
        self.settings.ageing = ageing;
        self
    }

    /// Decides what happens to a key after an error, unless the error is a
    /// [`ReconcileError`](super::ReconcileError), or caused by one. Back-off by default.
    ///
    /// Panics, timeouts and undecodable objects are always retried with back-off.
    ///
    /// ```
    /// # use kubewright_api::core::v1::ConfigMap;
    /// # use kubewright_apiserver::ApiServer;
    /// # use kubewright_cache::SharedInformerFactory;
    /// # use kubewright_runtime::Controller;
    /// use kubewright_runtime::controller::ErrorAction;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ApiServer::in_memory().start().await?;
    /// # let factory = SharedInformerFactory::new(&server.client(), Default::default());
    /// let controller = Controller::<ConfigMap>::new("copy", &factory).error_policy(|error, _context| {
    ///     match error.downcast_ref::<kubewright_client::Error>() {
    ///         Some(error) if error.is_forbidden() => ErrorAction::RetryAfter(std::time::Duration::from_secs(60)),
    ///         _ => ErrorAction::BackOff,
    ///     }
    /// });
    /// # drop(controller);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn error_policy(mut self, policy: impl Fn(&BoxError, &Context) -> ErrorAction + Send + Sync + 'static) -> Self {
        self.settings.error_policy = Some(Arc::new(policy));
        self
    }

    /// Cancels reconciles that take longer, as failures. No limit by default.
    #[doc(alias = "ReconciliationTimeout")]
    #[must_use]
    pub fn reconcile_timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = Some(timeout);
        self
    }

    /// How long all kinds together may take to sync before the controller fails. 2 minutes by
    /// default.
    ///
    /// The error names the kinds that have not synced with their last failures.
    /// [Optional](super::RelationOptions::optional) kinds do not count.
    #[doc(alias = "CacheSyncTimeout")]
    #[must_use]
    pub fn cache_sync_timeout(mut self, timeout: Duration) -> Self {
        self.settings.sync_timeout = timeout;
        self
    }

    /// How long a key waits for the cache to show its writes before it is reconciled anyway. 1
    /// minute by default, which includes a bookmark even for objects outside of the cache.
    #[must_use]
    pub fn write_patience(mut self, time_limit: Duration) -> Self {
        self.settings.time_limit = time_limit;
        self
    }

    /// Priority of the keys of initial lists and resyncs, and of shards that this replica takes
    /// over. [`LOW_PRIORITY`](kubewright_workqueue::LOW_PRIORITY) by default: live changes, of
    /// priority 0, go first after a restart.
    #[doc(alias = "WithLowPriorityWhenUnchanged")]
    #[must_use]
    pub fn start_up_priority(mut self, priority: i32) -> Self {
        self.settings.start_up_priority = priority;
        self
    }

    /// Hands out keys round-robin between groups, such as namespaces: a group with many keys does
    /// not delay the others. Priorities decide within a group. One group by default.
    ///
    /// The function must be quick, must not panic, and must always return the same group for a key.
    ///
    /// ```
    /// # use kubewright_api::core::v1::ConfigMap;
    /// # use kubewright_apiserver::ApiServer;
    /// # use kubewright_cache::SharedInformerFactory;
    /// # use kubewright_runtime::Controller;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ApiServer::in_memory().start().await?;
    /// # let factory = SharedInformerFactory::new(&server.client(), Default::default());
    /// let controller = Controller::<ConfigMap>::new("copy", &factory).fair_by(|key| key.namespace().clone());
    /// # drop(controller);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn fair_by<G: Hash>(mut self, group_of: impl Fn(&ObjectKey) -> G + Send + Sync + 'static) -> Self {
        self.settings.queue = self.settings.queue.fair_by(group_of);
        self
    }

    /// Reports the reconciles to this observer. None by default.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.settings.observer = Some(observer);
        self
    }

    /// Exposes the controller in these metrics. None by default.
    #[must_use]
    pub fn metrics(mut self, metrics: &ControllerMetrics) -> Self {
        self.settings.metrics = Some(metrics.clone());
        self
    }

    /// Runs on every replica, under a manager with leader election. By default a controller runs
    /// only while its process leads.
    ///
    /// For controllers that keep state in their process, such as routes. Controllers that write to
    /// the cluster then do so from every replica. A standby is ready only when the controller
    /// works. A manager's [sharding](crate::Manager::share) applies as to every controller.
    #[doc(alias = "NeedLeaderElection")]
    #[must_use]
    pub fn without_leader_election(mut self) -> Self {
        self.settings.leadership = LeadershipNeed::Nothing;
        self
    }

    /// Fills the queue before this process leads, under a manager with leader election, so that a
    /// new leader reconciles immediately. By default the caches are warm, and the queue is empty.
    ///
    /// Workers, channels, streams and timers start when the process leads.
    #[doc(alias = "EnableWarmup")]
    #[must_use]
    pub fn warm_up(mut self) -> Self {
        self.settings.leadership = self.settings.leadership.max(LeadershipNeed::Work);
        self
    }
}
