//! All controllers together.

use std::time::Duration;

use kubewright_client::Client;
use kubewright_core::Str;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::catalogue::{Shipped, unless_stopped};
use crate::context::ControllerContext;
use crate::error::Error;
use crate::nodes::{self, NodeOptions};
use crate::signing_authority::SigningAuthority;

/// The controllers of a cluster, with simulated nodes.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use kubewright_apiserver::ApiServer;
/// use kubewright_controllers::{ControllerSet, NodeOptions};
///
/// let server = ApiServer::in_memory().start().await?;
/// let controllers = ControllerSet::new(&server.client()).nodes(NodeOptions::default().count(1)).start();
/// // … create a deployment and watch it roll out …
/// controllers.stop().await?;
/// server.stop().await;
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "controllers do nothing until they are started"]
pub struct ControllerSet {
    context: ControllerContext,
    nodes: NodeOptions,
}

impl ControllerSet {
    /// All controllers, with three nodes.
    pub fn new(client: &Client) -> Self {
        Self::over(ControllerContext::new(client))
    }

    /// All controllers over this context, with three nodes.
    pub fn over(context: ControllerContext) -> Self {
        ControllerSet { context, nodes: NodeOptions::default() }
    }

    /// Options of the nodes. Without nodes, pods stay pending.
    pub fn nodes(mut self, options: NodeOptions) -> Self {
        self.nodes = options;
        self
    }

    /// Number of workers per controller. 5 by default.
    pub fn workers(mut self, workers: usize) -> Self {
        self.context = self.context.workers(workers);
        self
    }

    /// The certificate authorities of the server, in PEM, to be published in each namespace as
    /// `kube-root-ca.crt`. Nothing is published by default.
    pub fn root_ca(mut self, authorities: impl Into<Str>) -> Self {
        self.context = self.context.root_ca(authorities);
        self
    }

    /// The certificate authority that signs approved certificate signing requests. None by default:
    /// requests are not signed.
    pub fn signing_authority(mut self, authority: SigningAuthority) -> Self {
        self.context = self.context.signing_authority(authority);
        self
    }

    /// Starts all controllers.
    pub fn start(self) -> RunningControllers {
        let (stop, mut tasks) = (CancellationToken::new(), JoinSet::new());
        // Storage is simulated together with nodes.
        let storage = self.nodes.has_any().then_some(Shipped::Volumes);
        // A server without TLS has no certificate authority.
        let publisher = self.context.root_ca.as_ref().map(|_| Shipped::RootCaCertPublisher);
        for shipped in CLUSTER.into_iter().chain(storage).chain(publisher) {
            let (context, stop) = (self.context.clone(), stop.clone());
            tasks.spawn(async move { shipped.run(&context, &stop).await });
        }
        if self.nodes.has_any() {
            let (context, stop) = (self.context.clone(), stop.clone());
            tasks.spawn(async move { unless_stopped(nodes::run(&context, self.nodes, &stop).await, &stop) });
        }
        RunningControllers { context: Some(self.context), stop, tasks }
    }
}

/// The controllers of a cluster besides nodes.
const CLUSTER: [Shipped; 18] = [
    Shipped::CertificateApproving,
    Shipped::CertificateCleaner,
    Shipped::CertificateSigning,
    Shipped::CronJob,
    Shipped::DaemonSet,
    Shipped::Deployment,
    Shipped::Disruption,
    Shipped::Endpoints,
    Shipped::EphemeralVolumes,
    Shipped::HorizontalPodAutoscaler,
    Shipped::Job,
    Shipped::LoadBalancers,
    Shipped::NodeLifecycle,
    Shipped::ReplicaSet,
    Shipped::ReplicationController,
    Shipped::ServiceAccounts,
    Shipped::ServiceAccountTokens,
    Shipped::StatefulSet,
];

/// How long queued events may take to be written at the end.
const EVENTS_GRACE: Duration = Duration::from_secs(5);

/// Running controllers. Dropping them stops them; [`stop`](Self::stop) also waits.
#[derive(Debug)]
pub struct RunningControllers {
    /// `Some` until they are stopped.
    context: Option<ControllerContext>,
    stop: CancellationToken,
    tasks: JoinSet<Result<(), Error>>,
}

impl RunningControllers {
    /// Their common context with its activity.
    pub fn context(&self) -> &ControllerContext {
        self.context.as_ref().expect("it is taken by who stops them, and then nobody can ask")
    }

    /// Waits until a controller ends by itself, which only happens on an error. Cancel safe.
    ///
    /// # Errors
    /// The error with which it ended.
    pub async fn ended(&mut self) -> Result<(), Error> {
        match self.tasks.join_next().await {
            Some(Ok(ended)) => ended,
            Some(Err(error)) => {
                tracing::error!(cause = &error as &dyn std::error::Error, "a controller broke");
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Stops all controllers, and waits for running reconciles.
    ///
    /// # Errors
    /// The first error with which a controller ended, now or before.
    pub async fn stop(mut self) -> Result<(), Error> {
        self.stop.cancel();
        let mut result = Ok(());
        while let Some(ended) = self.tasks.join_next().await {
            match ended {
                Ok(ended) => result = result.and(ended),
                Err(error) => tracing::error!(cause = &error as &dyn std::error::Error, "a controller broke"),
            }
        }
        if let Some(context) = self.context.take() {
            context.factory().shutdown().await;
            context.finish(EVENTS_GRACE).await;
        }
        result
    }
}

impl Drop for RunningControllers {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
