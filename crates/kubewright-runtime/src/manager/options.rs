//! How a manager is set up, and what it counts.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use kubewright_cache::{FactoryOptions, SharedInformerFactory};
use kubewright_core::Str;
use prometheus_client::registry::Registry;
use tokio::sync::oneshot;

use crate::controller::{ControllerMetrics, SYNC_TIMEOUT};
use crate::election::ElectionMetrics;

/// How a manager behaves. By default it serves no endpoints and gives work 30 s to end.
pub struct ManagerOptions {
    pub(super) listen: Option<SocketAddr>,
    pub(super) bound: Option<oneshot::Sender<SocketAddr>>,
    pub(super) grace: Option<Duration>,
    pub(super) sync_timeout: Duration,
    pub(super) registry: Option<Registry>,
    pub(super) factory: Option<SharedInformerFactory>,
    pub(super) caches: FactoryOptions,
}

impl Default for ManagerOptions {
    #[inline]
    fn default() -> Self {
        ManagerOptions {
            listen: None,
            bound: None,
            grace: Some(Duration::from_secs(30)),
            sync_timeout: SYNC_TIMEOUT,
            registry: None,
            factory: None,
            caches: FactoryOptions::default(),
        }
    }
}

impl ManagerOptions {
    /// Serves `/healthz`, `/readyz` and `/metrics` here. Nowhere by default; they are neither encrypted nor guarded, so that
    /// the loopback is the place for them.
    #[doc(alias = "MetricsBindAddress")]
    #[doc(alias = "HealthProbeBindAddress")]
    #[must_use]
    #[inline]
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.listen = Some(address);
        self
    }

    /// Tells the address that is listened on, where port 0 leaves it open.
    #[must_use]
    #[inline]
    pub fn tell_address(mut self, tell: oneshot::Sender<SocketAddr>) -> Self {
        self.bound = Some(tell);
        self
    }

    /// How long everything together may take to stop; `None` for as long as it likes. 30 s by
    /// default.
    ///
    /// Work that has not ended by then is dropped. Zero drops it at once, and the manager does not
    /// report it as an error.
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
    /// The default of all controllers made by the manager; each may have
    /// [its own](crate::Controller::cache_sync_timeout).
    #[doc(alias = "CacheSyncTimeout")]
    #[must_use]
    #[inline]
    pub fn cache_sync_timeout(mut self, timeout: Duration) -> Self {
        self.sync_timeout = timeout;
        self
    }

    /// Adds the manager's metrics to these. Only its own are shown by default.
    #[must_use]
    #[inline]
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = Some(registry);
        self
    }

    /// Caches the objects of this namespace only. Those of the whole cluster by default.
    #[must_use]
    #[inline]
    pub fn namespace(self, namespace: impl Into<Str>) -> Self {
        self.namespaces([namespace])
    }

    /// Caches the objects of these namespaces only, for who may not look into others.
    #[doc(alias = "DefaultNamespaces")]
    #[must_use]
    #[inline]
    pub fn namespaces(mut self, namespaces: impl IntoIterator<Item = impl Into<Str>>) -> Self {
        self.caches = self.caches.namespaces(namespaces);
        self
    }

    /// Makes caches as these say: of which objects, for all types or for one, with which transforms and indices. Those of the
    /// whole cluster by default. They are shown in the manager's metrics, unless these name others.
    #[doc(alias = "ByObject")]
    #[doc(alias = "cache.Options")]
    #[must_use]
    #[inline]
    pub fn caches(mut self, options: FactoryOptions) -> Self {
        self.caches = options;
        self
    }

    /// Uses these caches, which may be shared with others, in place of its own.
    ///
    /// They do not end with the manager, since others may have got theirs started by it: each informer stops when nobody uses it any
    /// more.
    #[must_use]
    #[inline]
    pub fn factory(mut self, factory: &SharedInformerFactory) -> Self {
        self.factory = Some(factory.clone());
        self
    }
}

/// What a process counts, all in one registry.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RuntimeMetrics {
    /// Of controllers and their queues.
    pub controllers: ControllerMetrics,
    /// Of elections.
    pub elections: ElectionMetrics,
    /// Of caches.
    pub caches: kubewright_cache::Metrics,
    /// Of webhooks.
    #[cfg(feature = "webhook")]
    pub webhooks: crate::webhook::WebhookMetrics,
}

impl RuntimeMetrics {
    /// Adds them to `registry`, once for each.
    #[must_use]
    #[inline]
    pub fn register(registry: &mut Registry) -> Self {
        RuntimeMetrics {
            controllers: ControllerMetrics::register(registry),
            elections: ElectionMetrics::register(registry),
            caches: kubewright_cache::Metrics::register(registry),
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
