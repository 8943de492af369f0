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
//! * *Request types*: queue, metrics and logs know keys. A type of [`Requests`] converts to a key
//!   and back, so that no part is compiled for each request type.
//! * *Leader election*: a controller runs where its process leads, as in controller-runtime. It can
//!   fill its queue before ([`Controller::warm_up`]), or do without.

mod context;
mod health;
mod main_kind;
mod mapping;
mod metrics;
mod observed_run;
mod options;
mod outcome;
mod predicate;
mod reason;
mod reconcile_error;
mod reconciler;
mod relation;
mod relation_options;
#[cfg(feature = "replay")]
mod replayed;
mod requests;
mod results;
mod run;
mod running;
mod settings;
mod shared;
mod sources;
mod trace;
mod watches;
mod work;

use std::fmt;

use kubewright_cache::{InformerHandle, SharedInformerFactory};
use kubewright_client::discovery::RestMapping;
use kubewright_core::{DynamicObject, GroupKind, Kind, Object, Str};

pub use context::{CacheLookupError, Context};
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
#[cfg(feature = "replay")]
pub(crate) use replayed::{ReplayedController, ReplayedStart};
pub use requests::{Requests, Subject};
pub use results::{Failed, ReconcileResults, Reconciled};
pub(crate) use running::text_of;
pub use running::{ControllerError, RunnableController};
pub use shared::ControllerHandle;

use crate::sharding::Sharding;
use main_kind::MainKind;
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
pub struct Controller<T: Subject> {
    settings: ControllerSettings,
    main: T::Main,
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
        let main = MainKind { kind, resource, is_namespaced, informer, filter: None, is_optional: false };
        Controller { settings, main }
    }

    /// Reconciles only the keys of this replica's shards. All keys by default. The sharding must be
    /// run, by a manager or separately.
    #[must_use]
    pub fn sharded(mut self, sharding: &Sharding) -> Self {
        self.settings.sharding = Some(sharding.clone());
        self
    }
}

impl<T: Subject> fmt::Debug for Controller<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller").field("name", &self.settings.name).finish_non_exhaustive()
    }
}
