//! Tests the controller on an in-process API server, in simulated time.

use kubewright::api::apps;
use kubewright::runtime::testing::{RunningManager, TestCluster};
use kubewright::{Api, Object};

use super::v1alpha1 as resource;

struct Fixture {
    objects: Api<resource::Widget>,
    deployments: Api<apps::v1::Deployment>,
    running: RunningManager,
    cluster: TestCluster,
}

/// A cluster with the custom resource and the running controller.
async fn start() -> Fixture {
    let (cluster, running) = crate::tests::start().await;
    let client = cluster.client();
    Fixture {
        objects: Api::namespaced(&client, "default"),
        deployments: Api::namespaced(&client, "default"),
        running,
        cluster,
    }
}

fn object(name: &str, replicas: i32) -> resource::Widget {
    resource::Widget::new(name, resource::WidgetSpec { image: "nginx".to_owned(), replicas })
}

fn replicas(deployment: &apps::v1::Deployment) -> Option<i32> {
    deployment.spec.as_ref().and_then(|spec| spec.replicas)
}

#[tokio::test(start_paused = true)]
async fn a_deployment_is_created_and_updated_for_an_object() {
    let fixture = start().await;
    let made = fixture.objects.create(&object("a", 2)).await.expect("it is valid");
    fixture.running.until_idle().await;
    let deployment = fixture.deployments.get("a").await.expect("it was made");
    assert_eq!(replicas(&deployment), Some(2));
    assert_eq!(deployment.metadata.owner_references[0].uid, made.uid());

    let mut wanted = fixture.objects.get("a").await.expect("it is there");
    wanted.spec.replicas = 3;
    fixture.objects.update(&wanted).await.expect("nobody else changes it");
    fixture.running.until_idle().await;
    assert_eq!(replicas(&fixture.deployments.get("a").await.expect("it is there")), Some(3));
    fixture.running.stop().await.expect("it stops in order");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_deployment_is_created_again() {
    let fixture = start().await;
    fixture.objects.create(&object("a", 1)).await.expect("it is valid");
    fixture.running.until_idle().await;
    let first = fixture.deployments.get("a").await.expect("it was made");
    fixture.deployments.delete("a").await.expect("it is there");
    fixture.running.until_idle().await;
    let second = fixture.deployments.get("a").await.expect("it is back");
    assert_ne!(first.uid(), second.uid());
}

#[tokio::test(start_paused = true)]
async fn a_deployment_with_another_owner_is_not_modified_and_is_reported() {
    let fixture = start().await;
    fixture.objects.create(&object("a", 1)).await.expect("it is valid");
    fixture.running.until_idle().await;
    // With another owner, and without one.
    let mut taken = fixture.deployments.get("a").await.expect("it was made");
    taken.set_resource_version("");
    taken.set_name("b");
    let theirs = fixture.deployments.create(&taken).await.expect("it is valid");
    taken.set_name("c");
    taken.set_owner_references(vec![]);
    let nobodys = fixture.deployments.create(&taken).await.expect("it is valid");
    fixture.objects.create(&object("b", 3)).await.expect("it is valid");
    fixture.objects.create(&object("c", 3)).await.expect("it is valid");
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(fixture.deployments.get("b").await.expect("it stays"), theirs);
    assert_eq!(fixture.deployments.get("c").await.expect("it stays"), nobodys);
    let failing = fixture.running.controller("widget").expect("it was added").health().failing;
    assert_eq!(failing.len(), 2, "{failing:?}");
    for (failing, problem) in failing.iter().zip(["is already owned by another", "exists and has no controller"]) {
        assert!(failing.error.contains(problem), "{failing:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_status_shows_the_available_replicas() {
    let fixture = start().await;
    fixture.objects.create(&object("a", 1)).await.expect("it is valid");
    fixture.running.until_idle().await;
    let mut deployment = fixture.deployments.get("a").await.expect("it was made");
    let status = deployment.status.get_or_insert_default();
    (status.replicas, status.ready_replicas, status.available_replicas) = (Some(1), Some(1), Some(1));
    fixture.deployments.update_status(&deployment).await.expect("as its controller would");
    // If this fails, the message shows each version of the object and who wrote it.
    let wanted = resource::WidgetStatus { observed_generation: 1, available_replicas: 1 };
    let has_status = |object: &resource::Widget| object.status.as_ref() == Some(&wanted);
    fixture.cluster.eventually("default", "a", has_status).await;
}
