//! A test cluster: the embedded server, a manager, and waiting for idle controllers.
//!
//! With a paused clock (`#[tokio::test(start_paused = true)]`) tests are fast: the clock advances
//! as soon as all tasks are idle.
//!
//! ```
//! # use kubewright_api::core::v1::ConfigMap;
//! # use kubewright_client::Api;
//! # use kubewright_core::Object;
//! # use kubewright_runtime::{Context, Outcome, testing::TestCluster};
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let cluster = TestCluster::start().await?;
//! let mut manager = cluster.manager();
//! manager.add(manager.controller::<ConfigMap>("label").reconciling(|map, context: Context| async move {
//!     // Only maps that ask for it: a cluster has others, which belong to somebody else.
//!     if map.labels().get("example.com/mark").is_none() {
//!         return Ok(Outcome::Done);
//!     }
//!     let mut map = (*map).clone();
//!     map.metadata.labels.insert("seen", "yes".into());
//!     context.api::<ConfigMap>(map.namespace()).update(&map).await?;
//!     Ok(Outcome::Done)
//! }))?;
//! let running = cluster.run(manager);
//!
//! let maps = Api::<ConfigMap>::namespaced(&cluster.client(), "default");
//! let mut map = ConfigMap::default();
//! map.set_name("a");
//! map.metadata.labels.insert("example.com/mark", "yes".into());
//! maps.create(&map).await?;
//! running.until_idle().await;
//! assert_eq!(maps.get("a").await?.labels().get("seen"), Some("yes"));
//! running.stop().await?;
//! # Ok(()) }
//! ```

#[cfg(feature = "webhook")]
mod webhooks;

use std::time::Duration;

use kubewright_apiserver::{ApiServer, Faults, RunningServer, StartError};
use kubewright_client::Client;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::sync::DropGuard;

use crate::controller::ControllerHandle;
use crate::manager::{Manager, ManagerError, ManagerOptions};

/// Poll interval.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Reconciles scheduled later than this are not waited for.
const MAX_DELAY: Duration = Duration::from_secs(1);

/// Number of consecutive idle polls, since an event may be between the server and a cache.
const IDLE_POLLS: u32 = 5;

/// An in-memory server.
#[doc(alias = "envtest.Environment")]
#[derive(Debug)]
pub struct TestCluster {
    server: RunningServer,
}

impl TestCluster {
    /// Starts a server without a socket, which takes milliseconds.
    ///
    /// # Errors
    /// If the server does not start.
    pub async fn start() -> Result<Self, StartError> {
        Ok(TestCluster { server: ApiServer::in_memory().start().await? })
    }

    /// A cluster over a given server: with initial objects, or with a socket.
    pub fn over(server: RunningServer) -> Self {
        TestCluster { server }
    }

    /// A client with administrator permissions.
    pub fn client(&self) -> Client {
        self.server.client()
    }

    /// Fault injection.
    pub fn faults(&self) -> Faults {
        self.server.faults()
    }

    /// The server.
    pub fn server(&self) -> &RunningServer {
        &self.server
    }

    /// A manager over this cluster, without endpoints.
    pub fn manager(&self) -> Manager {
        Manager::new(&self.client(), ManagerOptions::default())
    }

    /// Runs a manager in the background, until it is stopped or dropped.
    pub fn run(&self, manager: Manager) -> RunningManager {
        let (handles, stop) = (manager.handles(), CancellationToken::new());
        let shutdown = stop.clone();
        let task = tokio::spawn(async move { manager.run(&shutdown).await });
        RunningManager { handles, _stop_on_drop: stop.clone().drop_guard(), stop, task }
    }
}

/// A running manager.
#[derive(Debug)]
pub struct RunningManager {
    handles: Vec<ControllerHandle>,
    stop: CancellationToken,
    _stop_on_drop: DropGuard,
    task: JoinHandle<Result<(), ManagerError>>,
}

impl RunningManager {
    /// Waits until all controllers run and have nothing to do now or within a second. Never returns
    /// if one is always busy.
    pub async fn until_idle(&self) {
        let mut looks = 0;
        while looks < IDLE_POLLS {
            sleep(POLL_INTERVAL).await;
            let is_idle = self.handles.iter().all(|handle| handle.health().is_working && handle.is_idle(MAX_DELAY));
            looks = if is_idle { looks + 1 } else { 0 };
        }
    }

    /// The controller of this name.
    pub fn controller(&self, name: &str) -> Option<&ControllerHandle> {
        self.handles.iter().find(|handle| handle.name() == name)
    }

    /// Stops everything and returns the result.
    ///
    /// # Errors
    /// As [`Manager::run`].
    pub async fn stop(self) -> Result<(), ManagerError> {
        self.stop.cancel();
        match self.task.await {
            Ok(result) => result,
            Err(error) => Err(ManagerError::Failed { name: "the manager".into(), source: error.into() }),
        }
    }
}
