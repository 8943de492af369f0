//! What the tests stand on.

use std::sync::atomic::{AtomicU32, Ordering};

use kubewright_api::core::v1::{ConfigMap, Namespace};
use kubewright_apiserver::{ApiServer, RunningServer};
use kubewright_client::{Api, Client};
use kubewright_core::{Object, Str};

/// A server to ask, with a namespace for this test alone.
pub struct TestServer {
    pub client: Client,
    pub namespace: String,
    /// Absent where the server is not ours.
    _embedded: Option<RunningServer>,
}

/// A client of the server that the suite runs against. The only place that decides which one that is.
pub async fn test_client() -> TestServer {
    let server = ApiServer::in_memory().start().await.expect("it starts");
    in_new_namespace(server.client(), Some(server)).await
}

async fn in_new_namespace(client: Client, embedded: Option<RunningServer>) -> TestServer {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let namespace = format!("test-{}-{count}", std::process::id());
    let mut object = Namespace::default();
    object.set_name(&namespace);
    Api::<Namespace>::all(&client).create(&object).await.expect("the namespace is new");
    TestServer { client: client.namespace(namespace.as_str()), namespace, _embedded: embedded }
}

pub fn config_map(name: &str) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.name = Some(name.into());
    object.data.insert("key", Str::from("value"));
    object
}
