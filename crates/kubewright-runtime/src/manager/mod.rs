//! The manager: caches, controllers, other tasks and health endpoints of a process.
//!
//! This module contains the configuration; `run.rs` the order of start and shutdown.

mod checks;
mod endpoints;
mod error;
mod group;
mod options;
#[cfg(feature = "profiling")]
mod profiles;
mod run;
#[cfg(feature = "secure-metrics")]
mod secure_metrics;
mod signals;

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use kubewright_cache::{AddIndexersError, FactoryOptions, Indexers, SharedInformerFactory};
use kubewright_client::Client;
use kubewright_client::discovery::RestMapping;
use kubewright_client::rest::PrometheusMetrics;
use kubewright_core::{DynamicObject, GroupResource, Kind, ObjectKey, Str};
use kubewright_net::observation::Observer;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

pub use checks::{Check, Checks};
pub use error::ManagerError;
pub use options::{ManagerOptions, RuntimeMetrics};
#[cfg(feature = "secure-metrics")]
pub use secure_metrics::SecureMetrics;
pub use signals::shutdown_on_signals;

use crate::controller::{
    BoxError, CacheSource, Controller, ControllerHandle, NamedInformer, Requests, RunnableController, Subject,
};
use crate::election::{InvalidElection, LeaderElectionOptions, LeaderElector, host_name, unique_identity};
use crate::events::{EventApi, EventBroadcaster, EventRecorder};
use crate::permissions::Permissions;
use crate::sharding::Sharding;

type Task = Box<dyn FnOnce(CancellationToken) -> Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>> + Send>;

/// Runs the controllers, caches and tasks of a process.
///
/// ```
/// # use kubewright_api::core::v1::ConfigMap;
/// # use kubewright_apiserver::ApiServer;
/// # use kubewright_runtime::{Manager, Outcome};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ApiServer::in_memory().start().await?;
/// # let shutdown = tokio_util::sync::CancellationToken::new();
/// let mut manager = Manager::new(&server.client(), Default::default());
/// let maps = manager.controller::<ConfigMap>("maps").reconciling(|_, _| async { Ok(Outcome::Done) });
/// manager.add(maps)?;
/// # shutdown.cancel();
/// manager.run(&shutdown).await?;
/// # Ok(()) }
/// ```
pub struct Manager {
    factory: SharedInformerFactory,
    /// Whether the factory is shared; its informers then stop when they are no longer in use.
    is_factory_shared: bool,
    metrics: RuntimeMetrics,
    registry: Registry,
    options: ManagerOptions,
    names: BTreeSet<Str>,
    controllers: Vec<RunnableController>,
    tasks: Vec<(Str, Task)>,
    leading_tasks: Vec<(Str, Task)>,
    elector: Option<LeaderElector>,
    sharding: Option<Sharding>,
    checks: Checks,
    events: Option<EventBroadcaster>,
    /// The observer of controllers and caches.
    observer: Option<Arc<dyn Observer>>,
    /// Completes the recording when the manager has ended.
    #[cfg(feature = "recording")]
    _recording: Option<FinishedOnDrop>,
    /// The caches of other clusters.
    clusters: Vec<SharedInformerFactory>,
    /// Informers with indices, which would be lost if the informers were dropped.
    indexed: Vec<Arc<dyn CacheSource>>,
    #[cfg(feature = "webhook")]
    webhooks: Vec<(Str, crate::webhook::WebhookServer)>,
}

impl Manager {
    /// An empty manager.
    ///
    /// Its metrics include the requests of its [`client`](Self::client), unless `client` has
    /// metrics or the options contain a factory.
    #[doc(alias = "NewManager")]
    #[inline]
    pub fn new(client: &Client, options: ManagerOptions) -> Self {
        let mut options = options;
        #[cfg(feature = "recording")]
        let recording = options.recorder.clone().map(FinishedOnDrop);
        let (client, observer) = recorded(client, &mut options);
        let client = &client;
        let mut registry = options.registry.take().unwrap_or_default();
        let metrics = RuntimeMetrics::register(&mut registry);
        let is_factory_shared = options.factory.is_some();
        let factory = options.factory.take().unwrap_or_else(|| {
            let caches = std::mem::take(&mut options.caches);
            let client = observed(client, &mut registry);
            SharedInformerFactory::new(&client, caches.default_metrics(&metrics.caches))
        });
        Manager {
            factory,
            is_factory_shared,
            metrics,
            registry,
            options,
            names: BTreeSet::new(),
            controllers: Vec::new(),
            tasks: Vec::new(),
            leading_tasks: Vec::new(),
            elector: None,
            sharding: None,
            checks: Checks::default(),
            events: None,
            observer,
            #[cfg(feature = "recording")]
            _recording: recording,
            clusters: Vec::new(),
            indexed: Vec::new(),
            #[cfg(feature = "webhook")]
            webhooks: Vec::new(),
        }
    }

    /// The caches shared by all controllers.
    #[doc(alias = "GetCache")]
    #[inline]
    pub fn factory(&self) -> &SharedInformerFactory {
        &self.factory
    }

    /// Adds an index to the cache of a type, for [`OwnApi::by_index`](crate::OwnApi::by_index) and
    /// for listers.
    ///
    /// The type is then cached, whether a controller watches it or not. The manager waits for it to
    /// sync.
    ///
    /// ```
    /// # use kubewright_api::core::v1::{ConfigMap, Pod};
    /// # use kubewright_apiserver::ApiServer;
    /// # use kubewright_core::{AllNamespaces, Object};
    /// # use kubewright_runtime::{Context, Freshness, Manager, Outcome};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ApiServer::in_memory().start().await?;
    /// # let shutdown = tokio_util::sync::CancellationToken::new();
    /// let mut manager = Manager::new(&server.client(), Default::default());
    /// manager.index_field("spec.nodeName", |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone()))?;
    /// let nodes = manager.controller::<ConfigMap>("nodes").owns::<Pod>();
    /// manager.add(nodes.reconciling(|map, context: Context| async move {
    ///     let pods = context.api::<Pod>(AllNamespaces).by_index("spec.nodeName", map.name(), Freshness::Cached).await?;
    ///     println!("{} pods on {}", pods.len(), map.name());
    ///     Ok(Outcome::Done)
    /// }))?;
    /// # shutdown.cancel();
    /// manager.run(&shutdown).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If there is an index of that name.
    #[doc(alias = "IndexField")]
    #[doc(alias = "GetFieldIndexer")]
    #[doc(alias = "FieldIndexer")]
    pub fn index_field<T, I, V>(
        &mut self,
        name: impl Into<Str>,
        values: impl Fn(&T) -> I + Send + Sync + 'static,
    ) -> Result<&mut Self, AddIndexersError>
    where
        T: Kind,
        I: IntoIterator<Item = V>,
        V: Into<Str>,
    {
        let informer = self.factory.informer::<T>();
        informer.add_indexers(Indexers::new().with(name, values))?;
        let resource = GroupResource::new(T::RESOURCE.kind.group, T::RESOURCE.plural);
        self.indexed.push(Arc::new(NamedInformer { name: resource.to_string().into(), informer }));
        Ok(self)
    }

    /// Adds the caches of another cluster, for
    /// [`Watches::informer`](crate::controller::RelationOptions::informer). They start and stop
    /// with the caches of the manager.
    ///
    /// ```
    /// # use kubewright_api::core::v1::ConfigMap;
    /// # use kubewright_apiserver::ApiServer;
    /// # use kubewright_core::Object;
    /// # use kubewright_runtime::{Context, Freshness, Manager, Outcome, Watches};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (server, other) = (ApiServer::in_memory().start().await?, ApiServer::in_memory().start().await?);
    /// # let (client, target) = (server.client(), other.client());
    /// # let shutdown = tokio_util::sync::CancellationToken::new();
    /// let mut manager = Manager::new(&client, Default::default());
    /// let copies = manager.add_cluster(&target, Default::default()).informer::<ConfigMap>();
    /// let controller = manager.controller::<ConfigMap>("copies");
    /// let controller = controller.watches_with(Watches::informer("configmaps", copies, |map| [map.key()]));
    /// manager.add(controller.reconciling_with(target, |map, context: Context, target| async move {
    ///     // Reads the cache of the other cluster.
    ///     let copy = context.own(target.api::<ConfigMap>(map.namespace())).get(map.name(), Freshness::Cached).await?;
    ///     println!("{} is copied: {}", map.name(), copy.is_some());
    ///     Ok(Outcome::Done)
    /// }))?;
    /// # shutdown.cancel();
    /// manager.run(&shutdown).await?;
    /// # Ok(()) }
    /// ```
    #[doc(alias = "cluster.New")]
    pub fn add_cluster(&mut self, client: &Client, options: FactoryOptions) -> SharedInformerFactory {
        let factory = SharedInformerFactory::new(client, options);
        self.clusters.push(factory.clone());
        factory
    }

    /// The client.
    #[doc(alias = "GetClient")]
    #[inline]
    pub fn client(&self) -> &Client {
        self.factory.client()
    }

    /// The metrics.
    #[inline]
    pub fn metrics(&self) -> &RuntimeMetrics {
        &self.metrics
    }

    /// The health checks; more can be added.
    #[doc(alias = "AddHealthzCheck")]
    #[doc(alias = "AddReadyzCheck")]
    #[inline]
    pub fn checks(&mut self) -> &mut Checks {
        &mut self.checks
    }

    /// A recorder of events for `component`. All recorders share one task, which writes queued
    /// events before the manager ends.
    ///
    /// Must be called within a tokio runtime.
    #[doc(alias = "GetEventRecorderFor")]
    #[doc(alias = "GetEventRecorder")]
    pub fn recorder(&mut self, component: impl Into<Str>, api: EventApi) -> EventRecorder {
        let client = self.factory.client();
        let events = self.events.get_or_insert_with(|| EventBroadcaster::start(client, Default::default()));
        events.recorder(component, host_name(), api)
    }

    /// A controller with the manager's caches and metrics, to be configured and [added](Self::add).
    pub fn controller<T: Kind>(&self, name: impl Into<Str>) -> Controller<T> {
        self.configured(Controller::new(name, &self.factory))
    }

    /// Like [`controller`](Self::controller), for a kind that is only known at run time.
    pub fn dynamic_controller(&self, name: impl Into<Str>, mapping: &RestMapping) -> Controller<DynamicObject> {
        self.configured(Controller::mapped(name, &self.factory, mapping))
    }

    /// Like [`controller`](Self::controller), for requests instead of objects.
    pub fn request_controller<R>(&self, name: impl Into<Str>) -> Controller<Requests<R>>
    where
        R: Into<ObjectKey> + TryFrom<ObjectKey, Error: Into<BoxError>> + Send + 'static,
    {
        self.configured(Controller::requests(name, &self.factory))
    }

    fn configured<T: Subject>(&self, controller: Controller<T>) -> Controller<T> {
        let controller = controller.metrics(&self.metrics.controllers).cache_sync_timeout(self.options.sync_timeout);
        match &self.observer {
            Some(observer) => controller.observer(observer.clone()),
            None => controller,
        }
    }

    /// Adds a controller. With leader election, it runs while this process leads, unless it is
    /// configured [otherwise](Controller::without_leader_election).
    ///
    /// # Errors
    /// If the name is taken, or the controller is misconfigured.
    #[inline]
    pub fn add(&mut self, controller: RunnableController) -> Result<&mut Self, ManagerError> {
        let handle = controller.handle();
        let name = Str::from(handle.name());
        controller.validate().map_err(|error| ManagerError::Failed { name: name.clone(), source: error.into() })?;
        self.claim(name)?;
        self.checks.watch(handle, controller.leadership());
        self.controllers.push(controller);
        Ok(self)
    }

    /// The permissions that its controllers need: `get`, `list` and `watch` on what they watch, and
    /// those that they [declare](Controller::permissions). Leader election and events are not
    /// included.
    pub fn permissions(&self) -> Permissions {
        let mut permissions = Permissions::new();
        self.controllers.iter().for_each(|controller| permissions.extend(&controller.permissions()));
        permissions
    }

    /// Handles to the controllers.
    #[inline]
    pub fn handles(&self) -> Vec<ControllerHandle> {
        self.controllers.iter().map(RunnableController::handle).collect()
    }

    /// Runs a task whether this process leads or not; if it fails, everything stops.
    ///
    /// It starts when all caches have synced, and stops before the controllers.
    ///
    /// # Errors
    /// If the name is taken.
    #[doc(alias = "Runnable")]
    #[inline]
    pub fn add_task<F: Future<Output = Result<(), BoxError>> + Send + 'static>(
        &mut self,
        name: impl Into<Str>,
        task: impl FnOnce(CancellationToken) -> F + Send + 'static,
    ) -> Result<&mut Self, ManagerError> {
        let name = name.into();
        self.claim(name.clone())?;
        self.tasks.push((name, Box::new(|stop| Box::pin(task(stop)))));
        Ok(self)
    }

    /// Runs a task only while this process leads.
    ///
    /// # Errors
    /// If the name is taken.
    #[doc(alias = "NeedLeaderElection")]
    #[doc(alias = "LeaderElectionRunnable")]
    #[inline]
    pub fn add_leader_task<F: Future<Output = Result<(), BoxError>> + Send + 'static>(
        &mut self,
        name: impl Into<Str>,
        task: impl FnOnce(CancellationToken) -> F + Send + 'static,
    ) -> Result<&mut Self, ManagerError> {
        let name = name.into();
        self.claim(name.clone())?;
        self.leading_tasks.push((name, Box::new(|stop| Box::pin(task(stop)))));
        Ok(self)
    }

    /// Serves webhooks, whether this process leads or not. Readiness requires that they are served,
    /// liveness that their certificate has not expired.
    ///
    /// They are served before the caches start and until these have stopped, since the server may
    /// need a conversion for a list.
    ///
    /// # Errors
    /// If the name is taken.
    #[cfg(feature = "webhook")]
    #[doc(alias = "GetWebhookServer")]
    pub fn add_webhooks(
        &mut self,
        name: impl Into<Str>,
        server: crate::webhook::WebhookServer,
    ) -> Result<&mut Self, ManagerError> {
        let name = name.into();
        self.claim(name.clone())?;
        self.checks.readiness(name.clone(), server.started_checker());
        self.checks.health(name.clone(), server.certificate_checker());
        self.webhooks.push((name, server.default_metrics(&self.metrics.webhooks, &self.metrics.certificates)));
        Ok(self)
    }

    /// Takes the controllers out, for a replay.
    #[cfg(feature = "replay")]
    pub(crate) fn take_controllers(&mut self) -> Vec<RunnableController> {
        std::mem::take(&mut self.controllers)
    }

    #[inline]
    fn claim(&mut self, name: Str) -> Result<(), ManagerError> {
        if self.names.insert(name.clone()) { Ok(()) } else { Err(ManagerError::DuplicateName { name }) }
    }

    /// Runs controllers only while this candidate leads. Without it, they run immediately.
    ///
    /// The election is exposed in the manager's metrics, unless the candidate has metrics.
    #[doc(alias = "LeaderElectionID")]
    #[doc(alias = "LeaderElection")]
    #[inline]
    pub fn elect(&mut self, elector: LeaderElector) -> &mut Self {
        elector.default_metrics(&self.metrics.elections);
        self.elector = Some(elector);
        self
    }

    /// Runs controllers only while this process leads, with the defaults of most operators: a lease
    /// of this name in the namespace of the client, a [unique identity](unique_identity), and the
    /// usual durations. Other choices are made with [`elect`](Self::elect).
    ///
    /// The program needs the permissions `create`, `get` and `update` of leases.
    ///
    /// # Errors
    /// If the name is empty.
    #[doc(alias = "LeaderElectionID")]
    pub fn elect_by_lease(&mut self, name: impl Into<Str>) -> Result<&mut Self, InvalidElection> {
        let client = self.client().clone();
        let namespace = Str::from(client.default_namespace());
        let options = LeaderElectionOptions::default();
        Ok(self.elect(LeaderElector::new(&client, namespace, name, unique_identity(), options)?))
    }

    /// Distributes the keys of all controllers between replicas, instead of electing one leader.
    ///
    /// The elections of its shards are exposed in the manager's metrics, unless the sharding has
    /// metrics.
    #[inline]
    pub fn share(&mut self, sharding: &Sharding) -> &mut Self {
        sharding.default_metrics(&self.metrics.elections);
        self.sharding = Some(sharding.clone());
        self
    }
}

/// Completes a recording on drop.
#[cfg(feature = "recording")]
struct FinishedOnDrop(kubewright_recording::Recorder);

#[cfg(feature = "recording")]
impl Drop for FinishedOnDrop {
    fn drop(&mut self) {
        self.0.finish();
    }
}

/// The client with its requests recorded, and the observer of caches and controllers, if a
/// recording is wanted.
#[cfg(feature = "recording")]
fn recorded(client: &Client, options: &mut ManagerOptions) -> (Client, Option<Arc<dyn Observer>>) {
    let Some(recorder) = options.recorder.take() else { return (client.clone(), None) };
    if options.factory.is_some() {
        tracing::warn!(file = %recorder.path().display(), "the caches of a shared factory are not recorded");
    }
    let observer = recorder.observer();
    options.caches = std::mem::take(&mut options.caches).observer(observer.clone());
    let client = client.clone().json_objects().layered(|transport| recorder.transport(transport));
    (client, Some(observer))
}

#[cfg(not(feature = "recording"))]
fn recorded(client: &Client, _: &mut ManagerOptions) -> (Client, Option<Arc<dyn Observer>>) {
    (client.clone(), None)
}

/// The client with its requests exposed in `registry`, unless it has metrics.
fn observed(client: &Client, registry: &mut Registry) -> Client {
    if client.has_metrics() {
        return client.clone();
    }
    let host = client.transport().host().unwrap_or_default();
    client.clone().metrics(PrometheusMetrics::register(registry, host))
}

impl fmt::Debug for Manager {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manager").field("names", &self.names).finish_non_exhaustive()
    }
}
