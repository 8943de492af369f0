//! Brings the world in line with objects of one kind, one key after the other.
//!
//! A controller watches its kind and whatever else bears on it, turns what happens into keys, and gives each key to a
//! reconciler: one run at a time for a key, a few keys at once, failures with back-off. Start at [`Controller`].

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
pub use outcome::{BoxError, Outcome};
pub use predicate::Predicate;
pub use reason::{Change, Reason, Reasons};
pub(crate) use relation::{Named, Relation, Source, unsynced};
pub use running::{ControllerError, RunnableController};
pub(crate) use running::{chain, text_of};
pub use shared::ControllerHandle;

use crate::sharding::Sharding;
use crate::unwind::caught;
use relation::{AllKeys, scoped};
pub(crate) use settings::SYNC_TIMEOUT;
use settings::Settings;

/// A controller of objects of type `T`, to be configured and run.
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
    settings: Settings,
    kind: GroupKind,
    resource: Str,
    is_namespaced: bool,
    main: InformerHandle<T>,
    filter: Option<Predicate<T>>,
}

impl<T: Kind> Controller<T> {
    /// A controller of this name, whose caches `factory` shares with others.
    #[doc(alias = "Named")]
    #[doc(alias = "EnqueueRequestForObject")]
    #[doc(alias = "For")]
    pub fn new(name: impl Into<Str>, factory: &SharedInformerFactory) -> Self {
        Controller::over(name, factory, factory.informer::<T>(), T::RESOURCE)
    }
}

impl Controller<DynamicObject> {
    /// A controller of a kind that is known only at run time, as a [`RestMapper`](kubewright_client::discovery::RestMapper)
    /// has found it.
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
    /// A controller of the objects in `informer`: of one namespace, of a selection, or of a type that is decoded in part.
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

    /// A controller of objects whose kind is known at run time; `resource` names it in health and reasons.
    pub fn dynamic(
        name: impl Into<Str>,
        factory: &SharedInformerFactory,
        informer: InformerHandle<T>,
        kind: GroupKind,
        resource: Str,
        is_namespaced: bool,
    ) -> Self {
        let settings = Settings::new(name.into(), factory.clone());
        Controller { settings, kind, resource, is_namespaced, main: informer, filter: None }
    }

    /// How many keys are reconciled at once; at least 1, which is the default.
    #[doc(alias = "MaxConcurrentReconciles")]
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.settings.workers = workers.max(1);
        self
    }

    /// How long keys wait after failures: from 5 ms to 1000 s by default.
    #[doc(alias = "RateLimiter")]
    #[must_use]
    pub fn rate_limiter(mut self, limiter: impl RateLimiter<ObjectKey> + 'static) -> Self {
        self.settings.limiter = Box::new(limiter);
        self
    }

    /// How waiting makes up for low priority, so that nothing starves.
    #[doc(alias = "UsePriorityQueue")]
    #[must_use]
    pub fn ageing(mut self, ageing: Ageing) -> Self {
        self.settings.ageing = ageing;
        self
    }

    /// Ends reconciles that take longer, as failures. Never by default.
    #[doc(alias = "ReconciliationTimeout")]
    #[must_use]
    pub fn reconcile_timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = Some(timeout);
        self
    }

    /// How long all kinds together may take to sync before the controller fails. 2 minutes by
    /// default.
    ///
    /// The error names the kinds that have not synced and their last failures. Kinds that are
    /// [`optional`](Self::optional) do not count.
    #[doc(alias = "CacheSyncTimeout")]
    #[must_use]
    pub fn cache_sync_timeout(mut self, timeout: Duration) -> Self {
        self.settings.sync_timeout = timeout;
        self
    }

    /// How long a key waits for the cache to show what it has written, before it is reconciled all the same. 1 minute by
    /// default, in which a bookmark has come even if the object is none that the cache keeps.
    #[must_use]
    pub fn write_patience(mut self, patience: Duration) -> Self {
        self.settings.patience = patience;
        self
    }

    /// Shows what it does in these metrics. In none by default.
    #[must_use]
    pub fn metrics(mut self, metrics: &ControllerMetrics) -> Self {
        self.settings.metrics = Some(metrics.clone());
        self
    }

    /// Reconciles only the keys that are this replica's. All by default. The sharding has to be run, by a manager or alone.
    #[must_use]
    pub fn sharded(mut self, sharding: &Sharding) -> Self {
        self.settings.sharding = Some(sharding.clone());
        self
    }

    /// Gives each object to `reconcile` until `shutdown` is cancelled, and returns when the runs in hand have ended.
    ///
    /// Objects that are gone are not given: nothing is left to be done that a finalizer would not have done.
    ///
    /// # Errors
    /// If a kind that is not optional does not sync in time, or an informer has been stopped.
    pub async fn run<F, R>(self, reconcile: F, shutdown: &CancellationToken) -> Result<(), ControllerError>
    where
        F: Fn(Arc<T>, Context) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Outcome, BoxError>> + Send + 'static,
    {
        self.reconciling(reconcile).run(shutdown).await
    }

    /// The controller with its reconciler, ready to be run, alone or by a manager.
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

    /// The same with a reconciler of keys, which is also told of objects that are gone.
    ///
    /// In both cases an object that the cache could not decode or transform is not reconciled,
    /// because what the cache has of it is stale. That counts as a failure, and is tried again with
    /// back-off.
    #[doc(alias = "Reconciler")]
    pub fn reconciling_keys<F, R>(self, reconcile: F) -> RunnableController
    where
        F: Fn(Context) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Outcome, BoxError>> + Send + 'static,
    {
        let (listed, filter) = (self.main.store().clone(), self.filter.clone());
        // As a controller that starts would find them.
        let is_listed = move |object: &Arc<T>| {
            let event = Event::Added { object: object.clone(), is_in_initial_list: true };
            // What a filter cannot judge is looked at: those who ask for all objects would ask for none otherwise.
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
