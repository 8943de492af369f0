//! What every controller is given.

use std::sync::Arc;
use std::time::Duration;

use kubewright_cache::{FactoryOptions, SharedInformerFactory};
use kubewright_client::Client;
use kubewright_core::Str;
use kubewright_runtime::events::{EventApi, EventBroadcaster, EventOptions, EventRecorder};

use crate::activity::Activity;

/// So many events may wait to be written. A thousand deployments that come at once tell more than the usual thousand.
const EVENTS: usize = 1 << 15;

/// What every controller is given: the client, caches that all share, a place for events, and one to tell what it does.
///
/// Clones share all of it.
#[derive(Debug, Clone)]
#[doc(alias = "NewControllerContext")]
pub struct ControllerContext {
    pub(crate) factory: SharedInformerFactory,
    pub(crate) workers: usize,
    pub(crate) activity: Activity,
    pub(crate) queue_metrics: Option<kubewright_workqueue::Metrics>,
    pub(crate) root_ca: Option<Str>,
    events: Arc<EventBroadcaster>,
}

impl ControllerContext {
    /// Over caches of all objects of the cluster, with five workers for each controller. Its events have a task of their own.
    pub fn new(client: &Client) -> Self {
        Self::over(&SharedInformerFactory::new(client, FactoryOptions::default()))
    }

    /// Over these caches: of one namespace, with metrics, or shared with others.
    pub fn over(factory: &SharedInformerFactory) -> Self {
        ControllerContext {
            factory: factory.clone(),
            workers: 5,
            activity: Activity::default(),
            queue_metrics: None,
            root_ca: None,
            events: Arc::new(EventBroadcaster::start(factory.client(), EventOptions::default().queue(EVENTS))),
        }
    }

    /// How many objects each controller looks at side by side. 5 by default.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers.max(1);
        self
    }

    /// Counts what the queues do. Not counted by default.
    #[must_use]
    pub fn queue_metrics(mut self, metrics: &kubewright_workqueue::Metrics) -> Self {
        self.queue_metrics = Some(metrics.clone());
        self
    }

    /// The authorities that sign the server's certificate, in PEM, to be published in each namespace. None by default.
    #[must_use]
    pub fn root_ca(mut self, authorities: impl Into<Str>) -> Self {
        self.root_ca = Some(authorities.into());
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

    /// What the controllers do.
    pub fn activity(&self) -> &Activity {
        &self.activity
    }

    /// Records events in the name of a controller.
    pub(crate) fn recorder(&self, component: &'static str) -> EventRecorder {
        self.events.recorder(component, "", EventApi::Core)
    }

    /// Writes the events that wait, for so long at the most. Does nothing while a clone is left.
    pub async fn finish(self, patience: Duration) {
        if let Some(events) = Arc::into_inner(self.events) {
            events.shutdown(patience).await;
        }
    }
}
