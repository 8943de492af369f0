//! Controllers.
//!
//! A controller watches its main kind and related kinds, maps events to keys, and passes each key
//! to a reconciler: one reconcile at a time per key, several keys concurrently, failures with
//! back-off. Start at [`Controller`].
//!
//! Decisions, with controller-runtime and kube-rs in view:
//!
//! * *Watches*: [`Controller::owns`] and [`Controller::watches`] have the defaults. [`Owns`] and
//!   [`Watches`] have all options, which combine. See [`RelationOptions`].
//! * *Deletions* always pass, through predicates and through [`Controller::with_event_filter`].
//!   controller-runtime filters them; a reconciler that misses one never repairs it.
//! * *Results*: an [`Outcome`] is a success. A failure is an error, which can carry its
//!   [`ErrorAction`] through `?`. `TerminalError` and kube-rs's mandatory `error_policy` are both
//!   cases of this.
//! * *Shared state* is an `Arc` that the controller clones, never the user's closure.
//! * *Leader election*: a controller runs where its process leads, as in controller-runtime. It can
//!   fill its queue before ([`Controller::warm_up`]), or do without.

mod context;
mod health;
mod metrics;
mod outcome;
mod predicate;
mod reason;
mod reconcile_error;
mod reconciler;
mod relation;
mod relation_options;
mod results;
mod run;
mod running;
mod settings;
mod shared;
mod sources;
mod watches;
mod work;

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use kubewright_cache::{InformerHandle, SharedInformerFactory};
use kubewright_client::discovery::RestMapping;
use kubewright_core::{DynamicObject, GroupKind, Kind, Object, ObjectKey, Str};
use kubewright_workqueue::{Ageing, RateLimiter};

pub use context::Context;
pub use health::{ControllerHealth, Failing, GivenUp, RelationHealth};
pub use metrics::ControllerMetrics;
pub use outcome::Outcome;

pub use crate::error::BoxError;
pub use predicate::Predicate;
pub use reason::{Reason, ReasonKind, Reasons};
pub use reconcile_error::{ErrorAction, ReconcileError, ResultExt};
pub use reconciler::Reconciler;
pub(crate) use relation::{CacheSource, NamedInformer, Relation, unsynced};
pub use relation_options::{FactoryCache, GivenCache, Owns, RelationCache, RelationOptions, ToKeys, ToOwner, Watches};
pub use results::{Failed, ReconcileResults, Reconciled};
pub(crate) use running::text_of;
pub use running::{ControllerError, RunnableController};
pub use shared::ControllerHandle;

use crate::sharding::Sharding;
use relation::scoped;
use settings::ControllerSettings;
pub(crate) use settings::{LeadershipNeed, SYNC_TIMEOUT};

/// A controller of objects of type `T`.
///
/// ```
/// # use kubewright_api::core::v1::{ConfigMap, Secret};
/// # use kubewright_apiserver::ApiServer;
/// # use kubewright_cache::SharedInformerFactory;
/// # use kubewright_core::Object;
/// # use kubewright_runtime::{Controller, Outcome};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ApiServer::in_memory().start().await?;
/// # let shutdown = tokio_util::sync::CancellationToken::new();
/// let factory = SharedInformerFactory::new(&server.client(), Default::default());
/// # shutdown.cancel();
/// Controller::<ConfigMap>::new("copy", &factory)
///     .owns::<Secret>()
///     .workers(4)
///     .run(
///         |map, context| async move {
///             println!("{} because {}", map.name(), context.reasons());
///             Ok(Outcome::Done)
///         },
///         &shutdown,
///     )
///     .await?;
/// # Ok(()) }
/// ```
#[doc(alias = "NewControllerManagedBy")]
#[doc(alias = "Builder")]
pub struct Controller<T> {
    settings: ControllerSettings,
    kind: GroupKind,
    resource: Str,
    is_namespaced: bool,
    main: InformerHandle<T>,
    filter: Option<Predicate<T>>,
    /// Whether the controller starts without the main kind.
    is_main_optional: bool,
}

impl<T: Kind> Controller<T> {
    /// A controller of this name over the shared caches of `factory`.
    #[doc(alias = "NamedInformer")]
    #[doc(alias = "EnqueueRequestForObject")]
    #[doc(alias = "For")]
    pub fn new(name: impl Into<Str>, factory: &SharedInformerFactory) -> Self {
        Controller::over(name, factory, factory.informer::<T>(), T::RESOURCE)
    }
}

impl Controller<DynamicObject> {
    /// A controller of a kind that is only known at run time, found by a
    /// [`RestMapper`](kubewright_client::discovery::RestMapper).
    ///
    /// ```
    /// # use kubewright_apiserver::ApiServer;
    /// # use kubewright_cache::SharedInformerFactory;
    /// # use kubewright_core::Object;
    /// # use kubewright_runtime::{Controller, Outcome};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ApiServer::in_memory().start().await?;
    /// # let (client, shutdown) = (server.client(), tokio_util::sync::CancellationToken::new());
    /// # shutdown.cancel();
    /// let mapping = client.rest_mapper().find("deployments.apps").await?;
    /// let factory = SharedInformerFactory::new(&client, Default::default());
    /// let controller = Controller::mapped("any", &factory, &mapping).reconciling(move |object, context| {
    ///     let api = context.own(mapping.api(context.client(), object.namespace()));
    ///     async move {
    ///         println!("{:?}", api.untracked().get(object.name()).await?);
    ///         Ok(Outcome::Done)
    ///     }
    /// });
    /// controller.run(&shutdown).await?;
    /// # Ok(()) }
    /// ```
    pub fn mapped(name: impl Into<Str>, factory: &SharedInformerFactory, mapping: &RestMapping) -> Self {
        let (kind, resource) = (&mapping.kind, mapping.resource.group_resource());
        let informer = factory.dynamic(mapping.resource.clone(), scoped(mapping.namespaced));
        let kind = GroupKind::new(kind.group.clone(), kind.kind.clone());
        Controller::dynamic(name, factory, informer, kind, resource.to_string().into(), mapping.namespaced)
    }
}

impl<T: Object> Controller<T> {
    /// A controller of the objects in `informer`: of one namespace, of a selector, or of a partial
    /// type.
    pub fn over(
        name: impl Into<Str>,
        factory: &SharedInformerFactory,
        informer: InformerHandle<T>,
        resource: &kubewright_core::ResourceInfo,
    ) -> Self {
        let kind = GroupKind::new(resource.kind.group, resource.kind.kind);
        let plural = kubewright_core::GroupResource::new(resource.kind.group, resource.plural);
        Controller::dynamic(name, factory, informer, kind, plural.to_string().into(), resource.namespaced)
    }

    /// A controller of objects whose kind is known at run time; `resource` is its name in health
    /// and reasons.
    pub fn dynamic(
        name: impl Into<Str>,
        factory: &SharedInformerFactory,
        informer: InformerHandle<T>,
        kind: GroupKind,
        resource: Str,
        is_namespaced: bool,
    ) -> Self {
        let settings = ControllerSettings::new(name.into(), factory.clone());
        Controller { settings, kind, resource, is_namespaced, main: informer, filter: None, is_main_optional: false }
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

    /// Decides what happens to a key after an error, unless the error is a [`ReconcileError`], or
    /// caused by one. Back-off by default.
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
    /// [Optional](RelationOptions::optional) kinds do not count.
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

    /// Priority of the keys of initial lists and resyncs, and of shards that this replica takes over.
    /// [`LOW_PRIORITY`](kubewright_workqueue::LOW_PRIORITY) by default: live changes, of priority 0,
    /// go first after a restart.
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

    /// Exposes the controller in these metrics. None by default.
    #[must_use]
    pub fn metrics(mut self, metrics: &ControllerMetrics) -> Self {
        self.settings.metrics = Some(metrics.clone());
        self
    }

    /// Runs on every replica, under a manager with leader election. By default a controller runs only
    /// while its process leads.
    ///
    /// For controllers that keep state in the process, such as routes, or that write what all
    /// replicas agree on. Its readiness does not depend on leadership either.
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
        self.settings.leadership = LeadershipNeed::Work;
        self
    }

    /// Reconciles only the keys of this replica's shards. All keys by default. The sharding must be
    /// run, by a manager or separately.
    #[must_use]
    pub fn sharded(mut self, sharding: &Sharding) -> Self {
        self.settings.sharding = Some(sharding.clone());
        self
    }
}

impl<T> fmt::Debug for Controller<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller")
            .field("name", &self.settings.name)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}
