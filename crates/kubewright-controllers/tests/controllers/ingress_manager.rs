//! The ingress manager.

use std::time::Duration;

use kubewright_api::core::v1::{Service, ServicePort, ServiceSpec};
use kubewright_api::networking::v1::Ingress;
use kubewright_controllers::{ControllerContext, ingress_manager};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::support::Cluster;

#[tokio::test(start_paused = true)]
async fn a_service_has_an_ingress_as_long_as_it_is_annotated() {
    let cluster = Cluster::with_nodes(0).await;
    let stop = CancellationToken::new();
    let manager = tokio::spawn({
        let (client, stop) = (cluster.client.clone(), stop.clone());
        async move { ingress_manager::run(&ControllerContext::new(&client).workers(2), &stop).await }
    });
    let mut service = Service::default();
    service.metadata.name = Some("web".into());
    service.spec =
        Some(ServiceSpec { ports: [ServicePort { port: 8080, ..Default::default() }].into(), ..Default::default() });
    cluster.create(&service).await;
    let ingress = async || {
        sleep(Duration::from_secs(1)).await;
        cluster.api::<Ingress>().get_opt("web").await.unwrap()
    };
    assert!(ingress().await.is_none());
    cluster.patch::<Service>("web", r#"{"metadata":{"annotations":{"ingress/http":"true"}}}"#).await;
    let made = ingress().await.unwrap();
    let rule = &made.spec.unwrap().rules[0];
    let backend = rule.http.as_ref().unwrap().paths[0].backend.service.clone().unwrap();
    assert_eq!((backend.name.as_str(), backend.port.as_ref().unwrap().number), ("web", Some(8080)));
    cluster.api::<Ingress>().delete("web").await.unwrap();
    assert!(ingress().await.is_some(), "it comes back");
    cluster.patch::<Service>("web", r#"{"metadata":{"annotations":{"ingress/http":"false"}}}"#).await;
    assert!(ingress().await.is_none());
    stop.cancel();
    manager.await.unwrap().unwrap();
    cluster.stop().await;
}
