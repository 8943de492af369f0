//! Simulated addresses of load balancers.

use kubewright_api::core::v1::Service;
use kubewright_core::Object;

use crate::support::Cluster;

fn service(name: &str, spec: &str) -> Service {
    let text = format!(
        r#"{{"metadata":{{"name":"{name}"}},"spec":{{"selector":{{"app":"web"}},"ports":[{{"port":80}}],{spec}}}}}"#
    );
    kubewright_core::Decoder::new().json(text.as_bytes()).unwrap()
}

fn address(service: &Service) -> Option<String> {
    let status = service.status.as_ref()?.load_balancer.as_ref()?;
    status.ingress.iter().find_map(|ingress| ingress.ip.as_ref().map(ToString::to_string))
}

const BALANCED: &str = r#""type":"LoadBalancer""#;

#[tokio::test(start_paused = true)]
async fn each_load_balancer_has_an_address_of_its_own() {
    let cluster = Cluster::with_nodes(0).await;
    cluster.create(&service("a", BALANCED)).await;
    cluster.create(&service("b", BALANCED)).await;
    let a = cluster.until::<Service>("a", |service| address(service).is_some()).await;
    let b = cluster.until::<Service>("b", |service| address(service).is_some()).await;
    assert_ne!(address(&a), address(&b));
    assert!(address(&a).unwrap().starts_with("198.18."));
    assert_eq!(a.metadata.finalizers.to_vec(), ["service.kubernetes.io/load-balancer-cleanup"]);
    cluster.until_told("Service", "EnsuredLoadBalancer").await;

    // Another type needs no load balancer any more.
    cluster.patch::<Service>("a", r#"{"spec":{"type":"ClusterIP"}}"#).await;
    let a = cluster.until::<Service>("a", |service| service.metadata.finalizers.is_empty()).await;
    assert_eq!(address(&a), None);
    cluster.api::<Service>().delete("b").await.unwrap();
    cluster.until_gone::<Service>("b").await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_load_balancer_class_belongs_to_another_controller() {
    let cluster = Cluster::with_nodes(0).await;
    cluster.create(&service("foreign", r#""type":"LoadBalancer","loadBalancerClass":"example.com/lb""#)).await;
    cluster.create(&service("asked", r#""type":"LoadBalancer","loadBalancerIP":"192.0.2.7""#)).await;
    let asked = cluster.until::<Service>("asked", |service| address(service).is_some()).await;
    assert_eq!(address(&asked).as_deref(), Some("192.0.2.7"));
    let foreign = cluster.get::<Service>("foreign").await;
    assert!(address(&foreign).is_none() && foreign.metadata.finalizers.is_empty());
    assert_eq!(foreign.name(), "foreign");
    cluster.stop().await;
}
