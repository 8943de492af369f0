//! Options and metrics of a manager.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::{Request, Response};
use kubewright_cache::{FactoryOptions, SharedInformerFactory};
use kubewright_core::{NamespaceScope, Str};
use prometheus_client::registry::Registry;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::endpoints::EndpointHandler;
use super::{Manager, Task};
use crate::controller::{BoxError, ControllerMetrics, SYNC_TIMEOUT};
use crate::election::ElectionMetrics;

/// Creates a task that knows the manager with its controllers.
pub(super) type TaskOver = Box<dyn FnOnce(&Manager) -> Task + Send>;

/// Options of a manager. By default it serves no endpoints and has a grace period of 30 s.
pub struct ManagerOptions {
    pub(super) listen: Option<SocketAddr>,
    pub(super) bound: Option<oneshot::Sender<SocketAddr>>,
    #[cfg(feature = "secure-metrics")]
    pub(super) secure_metrics: Option<super::SecureMetrics>,
    pub(super) handlers: BTreeMap<String, EndpointHandler>,
    pub(super) grace: Option<Duration>,
    pub(super) sync_timeout: Duration,
    pub(super) registry: Option<Registry>,
    pub(super) factory: Option<SharedInformerFactory>,
    pub(super) caches: FactoryOptions,
    pub(super) tasks: Vec<(Str, TaskOver)>,
    #[cfg(feature = "recording")]
    pub(super) recorder: Option<kubewright_recording::Recorder>,
}

impl Default for ManagerOptions {
    #[inline]
    fn default() -> Self {
        ManagerOptions {
            listen: None,
            bound: None,
            #[cfg(feature = "secure-metrics")]
            secure_metrics: None,
            handlers: BTreeMap::new(),
            grace: Some(Duration::from_secs(30)),
            sync_timeout: SYNC_TIMEOUT,
            registry: None,
            factory: None,
            caches: FactoryOptions::default(),
            tasks: Vec::new(),
            #[cfg(feature = "recording")]
            recorder: None,
        }
    }
}

impl ManagerOptions {
    /// Serves `/healthz`, `/readyz` and `/metrics` at this address. Off by default. They are
    /// neither encrypted nor authenticated, so use a loopback address.
    #[doc(alias = "MetricsBindAddress")]
    #[doc(alias = "HealthProbeBindAddress")]
    #[must_use]
    #[inline]
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.listen = Some(address);
        self
    }

    /// Sends the bound address, for use with port 0.
    #[must_use]
    #[inline]
    pub fn tell_address(mut self, tell: oneshot::Sender<SocketAddr>) -> Self {
        self.bound = Some(tell);
        self
    }

    /// Serves `/metrics` and [other pages](Self::handler) over HTTPS for authorized callers, and
    /// not at the address of [`listen`](Self::listen) any more. Off by default.
    #[cfg(feature = "secure-metrics")]
    #[doc(alias = "metricsserver.Options")]
    #[must_use]
    #[inline]
    pub fn secure_metrics(mut self, metrics: super::SecureMetrics) -> Self {
        self.secure_metrics = Some(metrics);
        self
    }

    /// Serves `/debug/pprof/profile` and `/debug/pprof/heap` where `/metrics` is served, for `go
    /// tool pprof`. Off by default: profiles name the functions of the program, and slow it down
    /// while they are taken. Callers are authorized as for `/metrics`.
    ///
    /// A CPU profile lasts 30 s, or `?seconds=N`, at most 300. It lacks time in the C library,
    /// whose locks a profiler cannot take. One is taken at a time.
    ///
    /// A heap profile requires jemalloc as the global allocator, and `prof:true` in the environment
    /// variable `_RJEM_MALLOC_CONF` when the process starts:
    ///
    /// ```
    /// #[global_allocator]
    /// static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
    /// # fn main() {
    /// let options = kubewright_runtime::ManagerOptions::default().profiles();
    /// # drop(options); }
    /// ```
    #[cfg(feature = "profiling")]
    #[doc(alias = "PprofBindAddress")]
    #[must_use]
    pub fn profiles(self) -> Self {
        self.handler("/debug/pprof/profile", super::profiles::cpu).handler("/debug/pprof/heap", super::profiles::heap)
    }

    /// Serves another page where `/metrics` is served. It answers GET and HEAD.
    #[doc(alias = "ExtraHandlers")]
    #[doc(alias = "AddMetricsServerExtraHandler")]
    #[must_use]
    pub fn handler<R>(
        mut self,
        path: impl Into<String>,
        handler: impl Fn(Request<()>) -> R + Send + Sync + 'static,
    ) -> Self
    where
        R: Future<Output = Response<Bytes>> + Send + 'static,
    {
        self.handlers.insert(path.into(), Arc::new(move |request| Box::pin(handler(request))));
        self
    }

    /// How long everything together may take to stop; `None` means no limit. 30 s by
    /// default.
    ///
    /// Unfinished work is then dropped. Zero drops it immediately, without an error.
    #[doc(alias = "GracefulShutdownTimeout")]
    #[must_use]
    #[inline]
    pub fn grace_period(mut self, grace: Option<Duration>) -> Self {
        self.grace = grace;
        self
    }

    /// How long caches may take to sync at the start before the manager fails. 2 minutes by
    /// default.
    ///
    /// The default of all controllers created by the manager; each may have [its
    /// own](crate::Controller::cache_sync_timeout).
    #[doc(alias = "CacheSyncTimeout")]
    #[must_use]
    #[inline]
    pub fn cache_sync_timeout(mut self, timeout: Duration) -> Self {
        self.sync_timeout = timeout;
        self
    }

    /// Registers the manager's metrics in this registry. By default it has its own.
    #[must_use]
    #[inline]
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = Some(registry);
        self
    }

    /// Restricts caches to this namespace.
    /// [`AllNamespaces`](kubewright_core::AllNamespaces) by default.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<NamespaceScope>) -> Self {
        self.caches = self.caches.namespace(namespace);
        self
    }

    /// Restricts caches to these namespaces, for clients without cluster-wide permissions. Without
    /// a name the caches never sync.
    #[doc(alias = "DefaultNamespaces")]
    #[must_use]
    pub fn namespaces(mut self, namespaces: impl IntoIterator<Item = impl Into<Str>>) -> Self {
        self.caches = self.caches.namespaces(namespaces);
        self
    }

    /// Options of the caches: scope, transforms and indices, for all types or for one. The whole
    /// cluster by default. They are exposed in the manager's metrics, unless these options name
    /// others.
    #[doc(alias = "ByObject")]
    #[doc(alias = "cache.Options")]
    #[must_use]
    #[inline]
    pub fn caches(mut self, options: FactoryOptions) -> Self {
        self.caches = options;
        self
    }

    /// Runs a task that knows all controllers of the manager, such as a dashboard. `task` is called
    /// when the manager runs. What it returns is run as a task of
    /// [`add_task`](super::Manager::add_task).
    #[must_use]
    pub fn task_over<T, F>(mut self, name: impl Into<Str>, task: impl FnOnce(&Manager) -> T + Send + 'static) -> Self
    where
        T: FnOnce(CancellationToken) -> F + Send + 'static,
        F: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        let make: TaskOver = Box::new(move |manager| {
            let task = task(manager);
            Box::new(|stop| Box::pin(task(stop)))
        });
        self.tasks.push((name.into(), make));
        self
    }

    /// Writes a recording: the changes of all caches, the reconciles of all controllers with their
    /// clock readings and random draws, and each request with its response.
    ///
    /// Requests are those of the manager's [client](super::Manager::client), and of the clients of
    /// its contexts. Single objects are then exchanged as JSON. Caches of [other
    /// clusters](super::Manager::add_cluster) and a shared [factory](Self::factory) are not
    /// recorded. The file is complete when the manager has ended.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = kubewright_apiserver::ApiServer::in_memory().start().await?;
    /// # let client = server.client();
    /// # let file = std::env::temp_dir().join(format!("kubewright-record-{}", std::process::id()));
    /// use kubewright_recording::{Recorder, Recording};
    /// use kubewright_runtime::{Manager, ManagerOptions};
    ///
    /// let recorder = Recorder::create(&file, Default::default())?;
    /// let manager = Manager::new(&client, ManagerOptions::default().record(recorder));
    /// // … add controllers, and run the manager …
    /// drop(manager);
    /// assert!(Recording::open(&file)?.header().redacted);
    /// # std::fs::remove_file(file)?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "recording")]
    #[must_use]
    pub fn record(mut self, recorder: kubewright_recording::Recorder) -> Self {
        self.recorder = Some(recorder);
        self
    }

    /// Uses these caches, which may be shared, instead of its own.
    ///
    /// They do not end with the manager, since it may have started informers of others: each
    /// informer stops when it is no longer in use.
    #[must_use]
    #[inline]
    pub fn factory(mut self, factory: &SharedInformerFactory) -> Self {
        self.factory = Some(factory.clone());
        self
    }
}

/// The metrics of a process, in one registry.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RuntimeMetrics {
    /// Metrics of controllers and their queues.
    pub controllers: ControllerMetrics,
    /// Metrics of elections.
    pub elections: ElectionMetrics,
    /// Metrics of caches.
    pub caches: kubewright_cache::InformerMetrics,
    /// Metrics of serving certificates.
    #[cfg(feature = "https")]
    pub certificates: crate::https::CertificateMetrics,
    /// Metrics of webhooks.
    #[cfg(feature = "webhook")]
    pub webhooks: crate::webhook::WebhookMetrics,
}

impl RuntimeMetrics {
    /// Registers them in `registry`. Call it once per registry.
    #[must_use]
    #[inline]
    pub fn register(registry: &mut Registry) -> Self {
        RuntimeMetrics {
            controllers: ControllerMetrics::register(registry),
            elections: ElectionMetrics::register(registry),
            caches: kubewright_cache::InformerMetrics::register(registry),
            #[cfg(feature = "https")]
            certificates: crate::https::CertificateMetrics::register(registry),
            #[cfg(feature = "webhook")]
            webhooks: crate::webhook::WebhookMetrics::register(registry),
        }
    }
}

impl fmt::Debug for ManagerOptions {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManagerOptions")
            .field("listen", &self.listen)
            .field("grace", &self.grace)
            .finish_non_exhaustive()
    }
}
