//! The sample controller.

use std::time::Duration;

use kubewright_api::apps::v1::Deployment;
use kubewright_api::core::v1::Event;
use kubewright_client::{Api, Scope};
use kubewright_controllers::{ControllerContext, sample};
use kubewright_core::options::Patch;
use kubewright_core::{DynamicObject, GroupVersionResource, Object};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::support::{Cluster, deployment, is_rolled_out};

fn foo(name: &str, deployment: &str) -> DynamicObject {
    let mut object = DynamicObject::new(&sample::FOO, name);
    object.set(&["spec", "deploymentName"], deployment).unwrap();
    object.set(&["spec", "replicas"], 2).unwrap();
    object
}

#[tokio::test(start_paused = true)]
async fn a_foo_owns_a_deployment_and_shows_its_status() {
    let cluster = Cluster::with_nodes(1).await;
    let definitions = GroupVersionResource::from_static("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    let definitions = Api::<DynamicObject>::new(&cluster.client, definitions, Scope::Cluster);
    definitions.create(&sample::DEFINITION.parse().unwrap()).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    let stop = CancellationToken::new();
    let controller = tokio::spawn({
        let (client, stop) = (cluster.client.clone(), stop.clone());
        async move { sample::run(&ControllerContext::new(&client).workers(2), &stop).await }
    });
    let foos = GroupVersionResource::from_static("samplecontroller.k8s.io", "v1alpha1", "foos");
    let foos = Api::<DynamicObject>::new(&cluster.client, foos, Scope::Cluster).namespace("default");
    foos.create(&foo("a", "web")).await.unwrap();
    cluster.until::<Deployment>("web", is_rolled_out).await;
    foos.patch("a", Patch::Merge(r#"{"spec":{"replicas":3}}"#.into())).await.unwrap();
    cluster
        .until::<Deployment>("web", |one| one.spec.as_ref().unwrap().replicas == Some(3) && is_rolled_out(one))
        .await;
    sleep(Duration::from_secs(5)).await;
    let told = foos.get("a").await.unwrap();
    assert_eq!(told.get(&["status", "availableReplicas"]).unwrap().as_i64(), Some(3));
    sleep(Duration::from_secs(600)).await;
    assert_eq!(foos.get("a").await.unwrap().resource_version(), told.resource_version(), "nothing happens by itself");

    cluster.create(&deployment("taken", 1)).await;
    foos.create(&foo("b", "taken")).await.unwrap();
    sleep(Duration::from_secs(5)).await;
    let events: Vec<Event> = cluster.list().await;
    let has = |name: &str, reason: &str| {
        events
            .iter()
            .any(|one| one.involved_object.name.as_deref() == Some(name) && one.reason.as_deref() == Some(reason))
    };
    assert!(has("a", "Synced") && has("b", "ErrResourceExists") && !has("b", "Synced"));
    stop.cancel();
    controller.await.unwrap().unwrap();
    cluster.stop().await;
}
