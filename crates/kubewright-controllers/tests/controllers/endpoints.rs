//! Endpoints of services.

use std::time::Duration;

use kubewright_api::apps::v1::ReplicaSet;
use kubewright_api::core::v1::{Endpoints, Service, ServicePort, ServiceSpec};
use kubewright_api::discovery::v1::EndpointSlice;
use kubewright_controllers::NodeOptions;
use kubewright_core::Object;
use tokio::time::sleep;

use crate::support::{Cluster, has_ready, labels, replica_set};

fn service(name: &str) -> Service {
    let mut service = Service::default();
    service.metadata.name = Some(name.into());
    let port = ServicePort { port: 80, target_port: Some(8080.into()), ..Default::default() };
    service.spec = Some(ServiceSpec { selector: labels(name), ports: [port].into(), ..Default::default() });
    service
}

#[tokio::test(start_paused = true)]
async fn ready_pods_are_behind_their_service() {
    let cluster = Cluster::with_nodes(2).await;
    cluster.create(&service("web")).await;
    cluster.until::<Endpoints>("web", |endpoints| endpoints.subsets.is_empty()).await;
    cluster.create(&replica_set("web", 3)).await;
    let endpoints = cluster
        .until::<Endpoints>("web", |one| one.subsets.first().is_some_and(|subset| subset.addresses.len() == 3))
        .await;
    let subset = &endpoints.subsets[0];
    assert!(subset.not_ready_addresses.is_empty() && subset.ports[0].port == 8080);
    let mut addresses: Vec<_> =
        cluster.pods().await.iter().map(|pod| pod.status.as_ref().unwrap().pod_ip.clone().unwrap()).collect();
    addresses.sort();
    assert_eq!(subset.addresses.iter().map(|one| one.ip.clone()).collect::<Vec<_>>(), addresses);

    sleep(Duration::from_secs(1)).await;
    let slices: Vec<EndpointSlice> = cluster.list().await;
    let of_web: Vec<_> =
        slices.iter().filter(|slice| slice.labels().get("kubernetes.io/service-name") == Some("web")).collect();
    assert_eq!(of_web.len(), 1);
    let ready = |slice: &EndpointSlice| {
        slice.endpoints.iter().filter(|one| one.conditions.as_ref().unwrap().ready == Some(true)).count()
    };
    assert_eq!(ready(of_web[0]), 3);

    cluster.patch::<ReplicaSet>("web", r#"{"spec":{"replicas":1}}"#).await;
    cluster.until::<ReplicaSet>("web", |set| has_ready(set, 1)).await;
    cluster.until::<Endpoints>("web", |one| one.subsets[0].addresses.len() == 1).await;
    cluster.api::<Service>().delete("web").await.unwrap();
    sleep(Duration::from_secs(1)).await;
    assert!(cluster.api::<Endpoints>().get_opt("web").await.unwrap().is_none());
    assert!(cluster.list::<EndpointSlice>().await.iter().all(|slice| !slice.name().starts_with("web")));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_slice_has_room_for_a_hundred_endpoints() {
    let cluster = Cluster::with_nodes(2).await;
    cluster.create(&service("web")).await;
    cluster.create(&replica_set("web", 230)).await;
    cluster.until::<ReplicaSet>("web", |set| has_ready(set, 230)).await;
    sleep(Duration::from_secs(2)).await;
    let slices: Vec<EndpointSlice> = cluster.list().await;
    let mut sizes: Vec<_> =
        slices.iter().filter(|one| one.name().starts_with("web")).map(|one| one.endpoints.len()).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [30, 100, 100]);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_published_before_it_is_ready_does_not_serve_for_that() {
    let cluster = Cluster::new(NodeOptions::default().ready_delay(Duration::from_secs(100_000))).await;
    let mut all = service("web");
    all.spec.as_mut().unwrap().publish_not_ready_addresses = Some(true);
    cluster.create(&all).await;
    cluster.create(&replica_set("web", 1)).await;
    let endpoints = cluster.until::<Endpoints>("web", |one| !one.subsets.is_empty()).await;
    assert_eq!((endpoints.subsets[0].addresses.len(), endpoints.subsets[0].not_ready_addresses.len()), (1, 0));
    sleep(Duration::from_secs(1)).await;
    let slices: Vec<EndpointSlice> = cluster.list().await;
    let slice = slices.iter().find(|slice| slice.name().starts_with("web")).unwrap();
    let conditions = slice.endpoints[0].conditions.as_ref().unwrap();
    assert_eq!((conditions.ready, conditions.serving, conditions.terminating), (Some(true), Some(false), Some(false)));
    cluster.stop().await;
}
