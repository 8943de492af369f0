//! The config map with the server's certificate authority, in each namespace.

use std::time::Duration;

use kubewright_api::core::v1::{ConfigMap, Namespace};
use kubewright_apiserver::ApiServer;
use kubewright_client::{Api, Client};
use kubewright_controllers::{ControllerSet, NodeOptions};
use kubewright_core::Object;
use kubewright_core::options::{ListOptions, Patch};
use tokio::time::sleep;

const NAME: &str = "kube-root-ca.crt";
const AUTHORITY: &str = "-----BEGIN CERTIFICATE-----\nAQID\n-----END CERTIFICATE-----\n";

/// Waits until the config map of a namespace meets the condition.
async fn until(client: &Client, namespace: &str, holds: impl Fn(&ConfigMap) -> bool) -> ConfigMap {
    let api = Api::<ConfigMap>::namespaced(client, namespace);
    for _ in 0..1000 {
        if let Some(map) = api.get_opt(NAME).await.unwrap().filter(|map| holds(map)) {
            return map;
        }
        sleep(Duration::from_millis(20)).await;
    }
    panic!("{namespace} has none");
}

fn is_right(map: &ConfigMap) -> bool {
    map.data.len() == 1 && map.data.get("ca.crt").is_some_and(|pem| pem == AUTHORITY)
}

#[tokio::test(start_paused = true)]
async fn the_root_ca_config_map_of_each_namespace_is_restored() {
    let server = ApiServer::in_memory().start().await.unwrap();
    let client = server.client();
    let nodes = NodeOptions::default().count(0);
    let controllers = ControllerSet::new(&client).nodes(nodes).root_ca(AUTHORITY).start();
    let namespaces = Api::<Namespace>::all(&client);
    let mut shop = Namespace::default();
    shop.metadata.name = Some("shop".into());
    namespaces.create(&shop).await.unwrap();
    for namespace in namespaces.list(&ListOptions::default()).await.unwrap().items {
        let map = until(&client, namespace.name(), is_right).await;
        let description = map.annotations().get("kubernetes.io/description").unwrap();
        assert_eq!(
            description,
            "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the \
             internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes \
             clusters."
        );
    }

    let maps = Api::<ConfigMap>::namespaced(&client, "shop");
    let first = maps.get(NAME).await.unwrap();
    maps.delete(NAME).await.unwrap();
    until(&client, "shop", |map| map.uid() != first.uid() && is_right(map)).await;
    for patch in [
        r#"{"data": {"ca.crt": "forged", "more": "x"}}"#,
        r#"{"metadata": {"annotations": {"kubernetes.io/description": null}}}"#,
    ] {
        let changed = maps.patch(NAME, Patch::Merge(patch.into())).await.unwrap();
        let is_mended = |map: &ConfigMap| {
            map.resource_version() != changed.resource_version()
                && map.annotations().get("kubernetes.io/description").is_some()
                && is_right(map)
        };
        until(&client, "shop", is_mended).await;
    }
    // User-defined labels are kept.
    let patch = r#"{"metadata": {"labels": {"mine": "yes"}, "annotations": {"kubernetes.io/description": "mine"}}}"#;
    let said = maps.patch(NAME, Patch::Merge(patch.into())).await.unwrap();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(maps.get(NAME).await.unwrap().resource_version(), said.resource_version());

    namespaces.delete("shop").await.unwrap();
    while namespaces.get_opt("shop").await.unwrap().is_some() {
        sleep(Duration::from_millis(20)).await;
    }
    controllers.stop().await.unwrap();
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn without_a_root_ca_nothing_is_published() {
    let server = ApiServer::in_memory().start().await.unwrap();
    let controllers = ControllerSet::new(&server.client()).start();
    sleep(Duration::from_secs(60)).await;
    assert!(Api::<ConfigMap>::namespaced(&server.client(), "default").get_opt(NAME).await.unwrap().is_none());
    controllers.stop().await.unwrap();
    server.stop().await;
}
