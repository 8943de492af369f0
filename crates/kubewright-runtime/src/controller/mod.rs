//! Controllers.
//!
//! A controller watches its main kind and related kinds, maps events to keys, and passes each key
//! to a reconciler: one reconcile at a time per key, several keys concurrently, failures with
//! back-off. Start at [`Controller`].

mod context;
mod health;
mod metrics;
mod outcome;
mod predicate;
mod reason;
mod relation;
mod run;
mod running;
mod settings;
mod shared;
mod watches;
mod work;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use kubewright_cache::{Event, InformerHandle, SharedInformerFactory};
use kubewright_client::discovery::RestMapping;
use kubewright_core::{DynamicObject, GroupKind, Kind, Object, ObjectKey, Str};
use kubewright_workqueue::{Ageing, RateLimiter};
use tokio_util::sync::CancellationToken;

pub use context::Context;
pub use health::{ControllerHealth, Failing, GivenUp, RelationHealth};
pub use metrics::ControllerMetrics;
pub use outcome::Outcome;

pub use crate::error::BoxError;
pub use predicate::Predicate;
pub use reason::{Reason, ReasonKind, Reasons};
pub(crate) use relation::{CacheSource, NamedInformer, Relation, unsynced};
pub(crate) use running::text_of;
pub use running::{ControllerError, RunnableController};
pub use shared::ControllerHandle;

use crate::sharding::Sharding;
use crate::unwind::caught;
use relation::{AllKeys, scoped};
use settings::ControllerSettings;
pub(crate) use settings::SYNC_TIMEOUT;

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
        Controller { settings, kind, resource, is_namespaced, main: informer, filter: None }
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
    /// [`optional`](Self::optional) kinds do not count.
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

    /// Exposes the controller in these metrics. None by default.
    #[must_use]
    pub fn metrics(mut self, metrics: &ControllerMetrics) -> Self {
        self.settings.metrics = Some(metrics.clone());
        self
    }

    /// Reconciles only the keys of this replica's shards. All keys by default. The sharding must be
    /// run, by a manager or separately.
    #[must_use]
    pub fn sharded(mut self, sharding: &Sharding) -> Self {
        self.settings.sharding = Some(sharding.clone());
        self
    }

    /// Calls `reconcile` for each object until `shutdown` is cancelled, and returns when running
    /// reconciles have ended.
    ///
    /// Deleted objects are not passed: use a finalizer for cleanup.
    ///
    /// # Errors
    /// If a required kind does not sync in time, or an informer has been stopped.
    pub async fn run<F, R>(self, reconcile: F, shutdown: &CancellationToken) -> Result<(), ControllerError>
    where
        F: Fn(Arc<T>, Context) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Outcome, BoxError>> + Send + 'static,
    {
        self.reconciling(reconcile).run(shutdown).await
    }

    /// Sets the reconciler; the result can be run, alone or by a manager.
    #[doc(alias = "Complete")]
    #[doc(alias = "ObjectReconciler")]
    pub fn reconciling<F, R>(self, reconcile: F) -> RunnableController
    where
        F: Fn(Arc<T>, Context) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Outcome, BoxError>> + Send + 'static,
    {
        let store = self.main.store().clone();
        self.reconciling_keys(move |context: Context| {
            let run = store.get_by_key(context.key()).map(|object| reconcile(object, context));
            async move {
                match run {
                    Some(run) => run.await,
                    None => Ok(Outcome::Done),
                }
            }
        })
    }

    /// Like [`reconciling`](Self::reconciling), with a reconciler of keys, which is also called for
    /// deleted objects.
    ///
    /// In both cases an object that the cache could not decode or transform is not reconciled,
    /// because its cached state is stale. That counts as a failure, and is retried with back-off.
    #[doc(alias = "Reconciler")]
    pub fn reconciling_keys<F, R>(self, reconcile: F) -> RunnableController
    where
        F: Fn(Context) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Outcome, BoxError>> + Send + 'static,
    {
        let (listed, filter) = (self.main.store().clone(), self.filter.clone());
        // As a starting controller would list them.
        let is_listed = move |object: &Arc<T>| {
            let event = Event::Added { object: object.clone(), is_in_initial_list: true };
            // If the filter panics, the object passes: otherwise a request for all objects would
            // include none.
            filter.as_ref().is_none_or(|filter| caught(|| filter.passes(&event)).unwrap_or(true))
        };
        let listed_keys: AllKeys = Arc::new(move || {
            listed.list().iter().filter(|object| is_listed(object)).map(|object| object.key()).collect()
        });
        let main = relation::watch(self.resource, self.main, self.filter, relation::itself());
        self.settings.runnable(main, listed_keys, run::places(reconcile))
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
