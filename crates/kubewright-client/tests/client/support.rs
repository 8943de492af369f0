//! Support for the tests.

use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

use kubewright_api::core::v1::{ConfigMap, Namespace};
use kubewright_apiserver::{ApiServer, RunningServer};
use kubewright_client::config::{LoadingRules, Overrides};
use kubewright_client::{Api, Client, Config};
use kubewright_core::{Object, Str};

/// A server with a namespace for this test.
pub struct TestServer {
    pub client: Client,
    pub namespace: String,
    /// `None` for an external server.
    _embedded: Option<RunningServer>,
}

/// A client of the server under test.
///
/// The embedded server, unless `KUBEWRIGHT_TEST_KUBECONFIG` names a kubeconfig.
pub async fn test_client() -> TestServer {
    if let Some(file) = std::env::var_os("KUBEWRIGHT_TEST_KUBECONFIG") {
        let kubeconfig = LoadingRules::explicit(file).load().expect("KUBEWRIGHT_TEST_KUBECONFIG can be read");
        let config = Config::from_kubeconfig(&kubeconfig, &Overrides::default()).expect("it says where the server is");
        return in_new_namespace(Client::try_from(config).expect("it says who we are"), None).await;
    }
    let server = ApiServer::in_memory().start().await.expect("it starts");
    in_new_namespace(server.client(), Some(server)).await
}

async fn in_new_namespace(client: Client, embedded: Option<RunningServer>) -> TestServer {
    let namespace = format!("test-{}", unique());
    let mut object = Namespace::default();
    object.set_name(&namespace);
    Api::<Namespace>::all(&client).create(&object).await.expect("the namespace is new");
    TestServer { client: client.namespace(namespace.as_str()), namespace, _embedded: embedded }
}

/// A text that is unique among tests and runs on the same server.
pub fn unique() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("it is after 1970");
    format!("{:x}-{:x}-{count}", since.as_micros(), std::process::id())
}

impl TestServer {
    /// Whether it is the embedded server, which serves all resources.
    pub fn is_embedded(&self) -> bool {
        self._embedded.is_some()
    }

    /// Whether the server serves all of these, each written as `apps/v1 deployments/scale`. Missing
    /// ones are printed, because the test continues without them; the embedded server must have
    /// all.
    pub async fn serves(&self, wanted: &[&str]) -> bool {
        let discovery = self.client.discovery().discover().await.expect("it says what it serves");
        let is_served = |wanted: &&&str| {
            let (version, resource) = wanted.split_once(' ').expect("a version and a resource");
            let (resource, part) = resource.split_once('/').unwrap_or((resource, ""));
            discovery.resources().any(|(served, one)| {
                served.to_string() == version
                    && one.plural == resource
                    && (part.is_empty() || one.subresource(part).is_some())
            })
        };
        let missing: Vec<_> = wanted.iter().filter(|wanted| !is_served(wanted)).collect();
        if missing.is_empty() {
            return true;
        }
        assert!(!self.is_embedded(), "the embedded server does not serve {missing:?}");
        let test = std::thread::current().name().unwrap_or_default().to_owned();
        let _ = writeln!(std::io::stderr(), "SKIPPED in {test}: the server does not serve {missing:?}");
        false
    }
}

pub fn config_map(name: &str) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.name = Some(name.into());
    object.data.insert("key", Str::from("value"));
    object
}
