//! What the tests stand on.

use kubewright_api::core::v1::ConfigMap;
use kubewright_apiserver::{ApiServer, RunningServer};
use kubewright_client::Client;
use kubewright_core::Str;

/// A server to ask, and what keeps it alive.
pub struct TestServer {
    pub client: Client,
    _embedded: RunningServer,
}

/// A client of the server that the suite runs against. The only place that decides which one that is.
pub async fn test_client() -> TestServer {
    let server = ApiServer::in_memory().start().await.expect("it starts");
    TestServer { client: server.client(), _embedded: server }
}

pub fn config_map(name: &str) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.name = Some(name.into());
    object.data.insert("key", Str::from("value"));
    object
}
