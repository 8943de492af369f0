//! The ingress manager.

use std::time::Duration;

use kubewright_api::core::v1::{Event, Service, ServicePort, ServiceSpec};
use kubewright_api::networking::v1::Ingress;
use kubewright_controllers::{ControllerContext, ingress_manager};
use kubewright_core::Object;
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

#[tokio::test(start_paused = true)]
async fn an_ingress_with_another_owner_is_not_modified_and_is_reported() {
    let cluster = Cluster::with_nodes(0).await;
    let stop = CancellationToken::new();
    let manager = tokio::spawn({
        let (client, stop) = (cluster.client.clone(), stop.clone());
        async move { ingress_manager::run(&ControllerContext::new(&client).workers(2), &stop).await }
    });
    let annotate = async |service: &str, value: &str| {
        let patch = format!(r#"{{"metadata":{{"annotations":{{"ingress/http":"{value}"}}}}}}"#);
        cluster.patch::<Service>(service, &patch).await;
        sleep(Duration::from_secs(1)).await;
    };
    for name in ["web", "other"] {
        let mut service = Service::default();
        service.set_name(name);
        let port = ServicePort { port: 80, ..Default::default() };
        service.spec = Some(ServiceSpec { ports: [port].into(), ..Default::default() });
        cluster.create(&service).await;
    }
    annotate("other", "true").await;
    let mut theirs = cluster.api::<Ingress>().get("other").await.unwrap();
    // An ingress owned by another service, then one without owner.
    for owners in [theirs.owner_references().into_owned(), vec![]] {
        theirs.set_name("web");
        theirs.set_resource_version("");
        theirs.set_owner_references(owners);
        let before = cluster.create(&theirs).await;
        annotate("web", "true").await;
        let events: Vec<Event> = cluster.list().await;
        let is_told = |event: &Event| {
            event.reason.as_deref() == Some("ErrResourceExists") && event.involved_object.name.as_deref() == Some("web")
        };
        assert!(events.iter().any(is_told), "{events:?}");
        annotate("web", "false").await;
        assert_eq!(cluster.api::<Ingress>().get("web").await.unwrap(), before);
        cluster.api::<Ingress>().delete("web").await.unwrap();
        for event in events {
            cluster.api::<Event>().delete(event.name()).await.unwrap();
        }
    }
    stop.cancel();
    manager.await.unwrap().unwrap();
    cluster.stop().await;
}
