//! A server and a client, and small helpers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kubewright_api::core::v1::ConfigMap;
use kubewright_apiserver::{ApiServer, RunningServer};
use kubewright_cache::SharedInformerFactory;
use kubewright_client::Api;
use kubewright_core::{Object, ObjectKey};
use kubewright_runtime::controller::{ControllerError, RunnableController};
use kubewright_runtime::{Controller, ControllerHandle, Outcome, Predicate};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

pub async fn server() -> RunningServer {
    ApiServer::in_memory().start().await.expect("a server in memory needs nothing")
}

pub fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// Waits until the condition holds, and fails after ten minutes of simulated time.
pub async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(timeout(Duration::from_secs(600), waiting).await.is_ok(), "never: {what}");
}

/// A config map of the namespace `default`.
pub fn config_map(name: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.set_name(name);
    map.set_namespace("default");
    map
}

pub fn config_maps(server: &RunningServer) -> Api<ConfigMap> {
    Api::namespaced(&server.client(), "default")
}

/// A controller of the config maps of that namespace.
pub fn controller(server: &RunningServer) -> Controller<ConfigMap> {
    let factory = SharedInformerFactory::new(&server.client(), Default::default());
    Controller::new("maps", &factory).filter(Predicate::objects(|map: &ConfigMap| map.namespace() == "default"))
}

/// Writes a value into a config map.
pub async fn touch(server: &RunningServer, name: &str, value: impl ToString) {
    let api = config_maps(server);
    let mut map = api.get(name).await.unwrap();
    map.data.insert("value", value.to_string().into());
    api.update(&map).await.unwrap();
}

/// A controller that runs until it is dropped or stopped.
pub struct Running {
    pub handle: ControllerHandle,
    pub stop: CancellationToken,
    task: AbortOnDropHandle<Result<(), ControllerError>>,
}

impl Running {
    pub fn start(controller: RunnableController) -> Self {
        let (handle, stop) = (controller.handle(), CancellationToken::new());
        let shutdown = stop.clone();
        let task = AbortOnDropHandle::new(tokio::spawn(async move { controller.run(&shutdown).await }));
        Running { handle, stop, task }
    }

    pub async fn working(self) -> Self {
        eventually("the controller works", async || self.handle.health().is_working).await;
        self
    }

    pub async fn idle(&self) {
        // Events take a moment of real work, though not of simulated time.
        sleep(Duration::from_millis(1)).await;
        eventually("the controller is idle", async || self.handle.is_idle(Duration::from_millis(100))).await;
    }

    pub async fn stopped(self) -> Result<(), ControllerError> {
        self.stop.cancel();
        self.ended().await
    }

    /// Its result, when it ends by itself.
    pub async fn ended(self) -> Result<(), ControllerError> {
        self.task.await.unwrap()
    }
}

/// A log that reconcilers write.
#[derive(Clone, Default)]
pub struct Journal(Arc<Mutex<Vec<String>>>);

impl Journal {
    pub fn note(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    /// The log since the last call.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    pub fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

/// Logs each reconcile as `name attempt: reasons`.
pub fn noting(journal: &Journal, controller: Controller<ConfigMap>) -> Running {
    let journal = journal.clone();
    Running::start(controller.reconciling(move |map, context| {
        journal.note(format!("{} {}: {}", map.name(), context.attempt(), context.reasons()));
        async { Ok(Outcome::Done) }
    }))
}

/// The key of an object in the namespace `default`.
pub fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("default", name)
}
