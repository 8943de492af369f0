//! The common context of controllers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kubewright_cache::{FactoryOptions, SharedInformerFactory};
use kubewright_client::Client;
use kubewright_core::Str;
use kubewright_kubelet::ContainerFiles;
use kubewright_net::observation::Observer;
use kubewright_runtime::events::{EventApi, EventBroadcaster, EventOptions, EventRecorder};

use crate::activity::Activity;
use crate::signing_authority::SigningAuthority;

/// Capacity of the event queue. A thousand new deployments cause more than the default thousand
/// events.
const EVENTS: usize = 1 << 15;

/// The context of all controllers: client, shared caches, events and activity.
///
/// Clones share all of it.
#[derive(Clone)]
#[doc(alias = "NewControllerContext")]
pub struct ControllerContext {
    pub(crate) factory: SharedInformerFactory,
    pub(crate) workers: usize,
    pub(crate) activity: Activity,
    pub(crate) queue_metrics: Option<kubewright_workqueue::QueueMetrics>,
    pub(crate) root_ca: Option<Str>,
    pub(crate) signing_authority: Option<SigningAuthority>,
    /// The files of simulated containers, which commands change and probes see.
    pub(crate) container_files: Arc<ContainerFiles>,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    events: Arc<EventBroadcaster>,
}

impl ControllerContext {
    /// A context with caches of the whole cluster, and five workers per controller. Starts a task
    /// for events.
    pub fn new(client: &Client) -> Self {
        Self::over(&SharedInformerFactory::new(client, FactoryOptions::default()))
    }

    /// A context over these caches: of one namespace, with metrics, or shared.
    pub fn over(factory: &SharedInformerFactory) -> Self {
        ControllerContext {
            factory: factory.clone(),
            workers: 5,
            activity: Activity::default(),
            queue_metrics: None,
            root_ca: None,
            signing_authority: None,
            container_files: Arc::default(),
            observer: None,
            events: Arc::new(EventBroadcaster::start(factory.client(), EventOptions::default().queue(EVENTS))),
        }
    }

    /// Number of workers per controller. 5 by default.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers.max(1);
        self
    }

    /// Exposes queue metrics. Off by default.
    #[must_use]
    pub fn queue_metrics(mut self, metrics: &kubewright_workqueue::QueueMetrics) -> Self {
        self.queue_metrics = Some(metrics.clone());
        self
    }

    /// The certificate authorities of the server, in PEM, to be published in each namespace. None
    /// by default.
    #[must_use]
    pub fn root_ca(mut self, authorities: impl Into<Str>) -> Self {
        self.root_ca = Some(authorities.into());
        self
    }

    /// The certificate authority that signs approved certificate signing requests. None by default:
    /// requests are not signed.
    #[must_use]
    pub fn signing_authority(mut self, authority: SigningAuthority) -> Self {
        self.signing_authority = Some(authority);
        self
    }

    /// Reports all reconciles to this observer. None by default.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// The client.
    pub fn client(&self) -> &Client {
        self.factory.client()
    }

    /// The caches.
    pub fn factory(&self) -> &SharedInformerFactory {
        &self.factory
    }

    /// The activity of the controllers.
    pub fn activity(&self) -> &Activity {
        &self.activity
    }

    /// An event recorder for a controller.
    pub(crate) fn recorder(&self, component: &'static str) -> EventRecorder {
        self.events.recorder(component, "", EventApi::Core)
    }

    /// Writes queued events, up to `time_limit`. Does nothing while a clone exists.
    pub async fn finish(self, time_limit: Duration) {
        if let Some(events) = Arc::into_inner(self.events) {
            events.shutdown(time_limit).await;
        }
    }
}

impl fmt::Debug for ControllerContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerContext")
            .field("workers", &self.workers)
            .field("activity", &self.activity)
            .finish_non_exhaustive()
    }
}
