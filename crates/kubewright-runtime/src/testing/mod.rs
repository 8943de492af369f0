//! A test cluster: the embedded server, a manager, and waiting for idle controllers.
//!
//! With a paused clock (`#[tokio::test(start_paused = true)]`) tests are fast: the clock advances
//! as soon as all tasks are idle. Server, caches, queues, leases and timestamps share this clock.
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

mod assertions;
mod recording;
#[cfg(feature = "webhook")]
mod webhooks;

use std::time::Duration;

#[cfg(feature = "derive")]
use kubewright_api::apiextensions::v1::CustomResourceDefinition;
use kubewright_apiserver::{ApiServer, Faults, RunningServer, StartError};
use kubewright_client::rest::Impersonation;
use kubewright_client::{Api, Client, Error, Scope};
use kubewright_core::options::ApplyOptions;
use kubewright_core::{DynamicObject, GroupVersionResource, Kind};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::sync::DropGuard;

pub use crate::object_history::{ObjectHistory, ObjectVersion};

use crate::controller::ControllerHandle;
#[cfg(feature = "derive")]
use crate::custom::{InstallError, install};
use crate::manager::{Manager, ManagerError, ManagerOptions};

/// How long assertions wait by default.
const PATIENCE: Duration = Duration::from_secs(60);

/// Poll interval.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Reconciles scheduled later than this are not waited for.
const MAX_DELAY: Duration = Duration::from_secs(1);

/// Number of consecutive idle polls, since an event may be between the server and a cache.
const IDLE_POLLS: u32 = 5;

/// An in-memory server.
#[doc(alias = "envtest.EnvironmentVariables")]
#[derive(Debug)]
pub struct TestCluster {
    server: RunningServer,
    patience: Duration,
}

impl TestCluster {
    /// The history of an object.
    pub async fn history<K: Kind>(&self, namespace: &str, name: &str) -> ObjectHistory {
        let kind = &K::RESOURCE.kind;
        let resource = GroupVersionResource::new(kind.group, kind.version, K::RESOURCE.plural);
        let scope = if K::RESOURCE.namespaced { Scope::Namespace(namespace.into()) } else { Scope::Cluster };
        let objects = Api::<DynamicObject>::new(&self.client(), resource, scope);
        ObjectHistory::read(&objects, kind.kind, name).await
    }
}

impl TestCluster {
    /// Starts a server without a socket, which takes milliseconds.
    ///
    /// If the environment variable `KUBEWRIGHT_AUDIT_DIR` is set, as by `kubewright rbac
    /// --from-test`, every user may do everything, and the requests are recorded in this directory.
    ///
    /// # Errors
    /// If the server does not start.
    pub async fn start() -> Result<Self, StartError> {
        Ok(TestCluster::over(recording::configure(ApiServer::in_memory()).start().await?))
    }

    /// A cluster over a given server: with initial objects, or with a socket.
    pub fn over(server: RunningServer) -> Self {
        TestCluster { server, patience: PATIENCE }
    }

    /// How long assertions such as [`eventually`](Self::eventually) wait. A minute by default,
    /// which takes no time with a paused clock.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// A client with administrator permissions. Its field manager is `test`.
    pub fn client(&self) -> Client {
        self.server.client().add_user_agent("test")
    }

    /// A client of another user, with the permissions that roles grant to the user and the groups.
    #[doc(alias = "AddUser")]
    pub fn client_as(&self, user: &str, groups: &[&str]) -> Client {
        let user = groups.iter().fold(Impersonation::user(user), |user, group| user.group(*group));
        self.client().impersonate(user)
    }

    /// Installs definitions, and waits until they are served.
    ///
    /// # Errors
    /// As [`custom::install`](crate::custom::install).
    #[cfg(feature = "derive")]
    #[doc(alias = "InstallCRDs")]
    #[doc(alias = "WaitForCRDs")]
    pub async fn install(
        &self,
        definitions: impl IntoIterator<Item = CustomResourceDefinition>,
    ) -> Result<(), InstallError> {
        for definition in definitions {
            install(&self.client(), &definition, "test").await?;
        }
        Ok(())
    }

    /// Fault injection.
    pub fn faults(&self) -> Faults {
        self.server.faults()
    }

    /// The server.
    pub fn server(&self) -> &RunningServer {
        &self.server
    }

    /// A manager over this cluster, without endpoints. The field manager of its client is
    /// `manager`.
    pub fn manager(&self) -> Manager {
        Manager::new(&self.server.client().add_user_agent("manager"), ManagerOptions::default())
    }

    /// A manager that acts as a service account, with the permissions that the roles in the cluster
    /// grant to it. A program that needs more than its role fails in the test.
    ///
    /// ```
    /// # use kubewright_runtime::testing::TestCluster;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let cluster = TestCluster::start().await?;
    /// let manager = cluster.manager_of("shop-system", "shop");
    /// # drop(manager);
    /// # Ok(()) }
    /// ```
    pub fn manager_of(&self, namespace: &str, service_account: &str) -> Manager {
        let user = Impersonation::user(format!("system:serviceaccount:{namespace}:{service_account}"))
            .group("system:serviceaccounts")
            .group(format!("system:serviceaccounts:{namespace}"))
            .group("system:authenticated");
        let client = self.server.client().add_user_agent("manager").impersonate(user);
        Manager::new(&client, ManagerOptions::default())
    }

    /// Applies objects in this order, such as those of manifests: `yaml::objects(text)?`. Install
    /// definitions with [`install`](Self::install), which waits for them.
    ///
    /// # Errors
    /// If the server has no such kind, or rejects an object.
    pub async fn apply(&self, objects: impl IntoIterator<Item = DynamicObject>) -> Result<(), Error> {
        let mapper = self.client().rest_mapper();
        let options = ApplyOptions::new("test");
        for object in objects {
            mapper.api_of(&object).await?.apply(&object, &options).await?;
        }
        Ok(())
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
