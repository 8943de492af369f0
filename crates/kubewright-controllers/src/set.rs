//! All controllers together.

use kubewright_cache::{FactoryOptions, SharedInformerFactory};
use kubewright_client::Client;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::nodes::NodeOptions;
use crate::{deployment, disruption, endpoints, job, nodes, replicaset, service_accounts};

/// The controllers that make a server a cluster, and nodes to run pods on.
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
    client: Client,
    nodes: NodeOptions,
    workers: usize,
}

impl ControllerSet {
    /// All controllers, with three nodes.
    pub fn new(client: &Client) -> Self {
        ControllerSet { client: client.clone(), nodes: NodeOptions::default(), workers: 5 }
    }

    /// How many nodes there are and how fast they are. With none, pods stay pending.
    pub fn nodes(mut self, options: NodeOptions) -> Self {
        self.nodes = options;
        self
    }

    /// How many objects each controller looks at side by side. 5 by default.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers.max(1);
        self
    }

    /// Starts all of them.
    pub fn start(self) -> RunningControllers {
        let stop = CancellationToken::new();
        let factory = SharedInformerFactory::new(&self.client, FactoryOptions::default());
        let mut tasks = JoinSet::new();
        let workers = self.workers;
        macro_rules! spawn {
            ($($controller:ident),*) => {$({
                let (client, factory, stop) = (self.client.clone(), factory.clone(), stop.clone());
                tasks.spawn(async move { $controller::run(&client, &factory, workers, &stop).await });
            })*};
        }
        spawn!(deployment, disruption, endpoints, job, replicaset, service_accounts);
        if self.nodes.has_any() {
            let (client, factory, stop) = (self.client.clone(), factory.clone(), stop.clone());
            tasks.spawn(async move { nodes::run(&client, &factory, self.nodes, workers, &stop).await });
        }
        RunningControllers { factory, stop, tasks }
    }
}

/// Controllers at work. Dropping them tells them to stop; [`stop`](Self::stop) waits as well.
#[derive(Debug)]
pub struct RunningControllers {
    factory: SharedInformerFactory,
    stop: CancellationToken,
    tasks: JoinSet<Result<(), Error>>,
}

impl RunningControllers {
    /// Waits until a controller ends by itself, which none does unless something is wrong. Cancel safe.
    ///
    /// # Errors
    /// With which it ended.
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

    /// Tells all to stop, and waits until each has finished what it has in hand.
    ///
    /// # Errors
    /// The first with which a controller ended, now or before.
    pub async fn stop(mut self) -> Result<(), Error> {
        self.stop.cancel();
        let mut result = Ok(());
        while let Some(ended) = self.tasks.join_next().await {
            match ended {
                Ok(ended) => result = result.and(ended),
                Err(error) => tracing::error!(cause = &error as &dyn std::error::Error, "a controller broke"),
            }
        }
        self.factory.shutdown().await;
        result
    }
}

impl Drop for RunningControllers {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
