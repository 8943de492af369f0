//! A cluster whose manager is recorded.

use std::path::{Path, PathBuf};

use kubewright_api::core::v1::ConfigMap;
use kubewright_client::{Api, Client};
use kubewright_core::Object;
use kubewright_recording::{Entry, Recorder, Recording, RecordingOptions};
use kubewright_runtime::testing::TestCluster;
use kubewright_runtime::{BoxError, Manager, ManagerOptions};

/// A folder that is removed in the end.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("kubewright-{test}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Records the controllers while `play` acts on the cluster.
pub async fn record<F: Future<Output = ()>>(
    file: &Path,
    add_controllers: impl Fn(&mut Manager) -> Result<(), BoxError>,
    play: impl FnOnce(Client) -> F,
) -> Recording {
    let cluster = TestCluster::start().await.unwrap();
    let recorder = Recorder::create(file, RecordingOptions::default()).unwrap();
    let client = cluster.client().add_user_agent("manager");
    let mut manager = Manager::new(&client, ManagerOptions::default().record(recorder));
    add_controllers(&mut manager).unwrap();
    let running = cluster.run(manager);
    running.until_idle().await;
    play(cluster.client()).await;
    running.until_idle().await;
    running.stop().await.unwrap();
    Recording::open(file).unwrap()
}

pub fn maps(client: &Client) -> Api<ConfigMap> {
    Api::namespaced(client, "default")
}

pub fn map(name: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.set_name(name);
    map
}

/// The writes of recorded reconciles, as method and path.
pub fn writes(recording: &Recording) -> Vec<String> {
    let requests = recording.entries().iter().filter_map(|entry| match entry {
        Entry::Request(request) if request.reconcile.is_some() && request.is_write() => Some(request),
        _ => None,
    });
    requests.map(|request| format!("{} {}", request.method, request.path)).collect()
}
