//! Controllers.

use std::time::Duration;

use kubewright::api::apps::v1::Deployment;
use kubewright::api::core::v1::ConfigMap;
use kubewright::client::watch::await_condition;
use kubewright::options::Patch;
use kubewright::{Api, DynamicObject, GroupVersionResource, Object, json};
use tokio::time::timeout;

use crate::world::World;

/// Definitions as controller-gen writes them for the Go programs.
const WIDGETS: &str = include_str!("../../19-custom-resource/crd.yaml");
const SITES: &str = include_str!("../../25-status-conditions/crd.yaml");

const DEPLOYMENTS: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: ours, namespace: default, labels: {app: side-by-side, side-by-side/restarts: with-config-map}}
spec:
  selector: {matchLabels: {app: ours}}
  template: {metadata: {labels: {app: ours}}, spec: {containers: [{name: web, image: nginx}]}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: other, namespace: default}
spec:
  selector: {matchLabels: {app: other}}
  template: {metadata: {labels: {app: other}}, spec: {containers: [{name: web, image: nginx}]}}
";

fn objects(world: &World, plural: &str) -> Api<DynamicObject> {
    let resource = GroupVersionResource::new("side-by-side.example.com", "v1", plural);
    world.client().dynamic(resource).namespace("default")
}

fn object(tree: kubewright::Value) -> DynamicObject {
    tree.to_string().parse().expect("it is an object")
}

fn widget(image: &str) -> DynamicObject {
    object(json!({
        "apiVersion": "side-by-side.example.com/v1", "kind": "Widget", "metadata": {"name": "web"},
        "spec": {"image": image, "replicas": 2},
    }))
}

/// The image of a Deployment with one container.
fn image(deployment: &Deployment) -> Option<&str> {
    deployment.spec.as_ref()?.template.spec.as_ref()?.containers[0].image.as_deref()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_custom_resource_is_installed() {
    let world = World::with("").await;
    assert_eq!(world.run("19-custom-resource").await, "Some(\"Ready\")\n");
    let widget = objects(&world, "widgets").get("side-by-side").await.expect("it was created");
    assert_eq!(
        widget.get(&["status", "phase"]).and_then(|phase| phase.as_str().map(str::to_owned)).as_deref(),
        Some("Ready")
    );
    let mut large = widget.clone();
    large.set_name("large");
    let patch = Patch::merge(json!({"spec": {"replicas": 11}}));
    let refused = objects(&world, "widgets").patch("side-by-side", patch).await;
    assert!(refused.is_err_and(|error| error.is_invalid()), "the schema has a maximum");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_widget_owns_a_deployment() {
    let world = World::with(WIDGETS).await;
    let mut program = world.start("20-owned-deployment");
    let created = objects(&world, "widgets").create(&widget("nginx:1")).await.expect("it is valid");
    program.prints("web has a Deployment").await;
    let deployments = world.client().api::<Deployment>("default");
    let deployment = deployments.get("web").await.expect("it was created");
    assert_eq!(deployment.owner_references()[0].uid, created.uid());
    assert_eq!(image(&deployment), Some("nginx:1"));

    objects(&world, "widgets")
        .patch("web", Patch::merge(json!({"spec": {"image": "nginx:2"}})))
        .await
        .expect("it exists");
    let updated = await_condition(&deployments, "web", |found| found.and_then(image) == Some("nginx:2"));
    timeout(Duration::from_secs(60), updated).await.expect("it follows").expect("it answers");

    // A deleted Deployment is created again.
    deployments.delete("web").await.expect("it exists");
    let again =
        await_condition(&deployments, "web", |found| found.is_some_and(|found| found.uid() != deployment.uid()));
    timeout(Duration::from_secs(60), again).await.expect("it follows").expect("it answers");
    program.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_deployment_of_somebody_else_is_not_taken_over() {
    if std::env::var_os("SIDE_BY_SIDE_BINARY").is_some() {
        return; // The program of kube-rs does take it over, as its page says.
    }
    let world = World::with(&format!("{WIDGETS}---{}", DEPLOYMENTS.replace("name: other", "name: web"))).await;
    let deployments = world.client().api::<Deployment>("default");
    let before = deployments.get("web").await.expect("it exists");
    let mut program = world.start("20-owned-deployment");
    objects(&world, "widgets").create(&widget("evil:1")).await.expect("it is valid");
    let mut second = widget("nginx:1");
    second.set_name("second");
    objects(&world, "widgets").create(&second).await.expect("it is valid");
    // One worker handles both, so the first one has been refused by now.
    program.prints("second has a Deployment").await;
    assert_eq!(deployments.get("web").await.expect("it exists").resource_version(), before.resource_version());
    program.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deployments_that_ask_for_it_restart_with_their_config_map() {
    let world = World::with(DEPLOYMENTS).await;
    let mut program = world.start("21-mapped-watch");
    let maps = world.client().api::<ConfigMap>("default");
    for name in ["other", "ours"] {
        let mut map = ConfigMap::default();
        map.set_name(name);
        maps.create(&map).await.expect("it is new");
    }
    program.prints("ours restarts").await;
    let changed = maps.patch("ours", Patch::merge(json!({"data": {"colour": "red"}}))).await.expect("it exists");
    program.prints("ours restarts").await;
    let annotation = |deployment: Deployment| {
        deployment.spec.and_then(|spec| spec.template.metadata.annotations.get("side-by-side/config-map").cloned())
    };
    let deployments = world.client().api::<Deployment>("default");
    let ours = annotation(deployments.get("ours").await.expect("it exists"));
    assert_eq!(ours.as_deref(), Some(changed.resource_version()));
    assert_eq!(annotation(deployments.get("other").await.expect("it exists")), None);
    assert!(program.unmatched().is_empty(), "{:?}", program.unmatched());
    program.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_changes_of_a_spec_are_reconciled() {
    let world = World::with(DEPLOYMENTS).await;
    let mut program = world.start("22-predicates");
    program.prints("ours has generation 1").await;
    let deployments = world.client().api::<Deployment>("default");
    deployments.patch_status("ours", Patch::merge(json!({"status": {"replicas": 1}}))).await.expect("it exists");
    deployments.patch("other", Patch::merge(json!({"spec": {"replicas": 3}}))).await.expect("it exists");
    deployments.patch("ours", Patch::merge(json!({"spec": {"replicas": 3}}))).await.expect("it exists");
    program.prints("ours has generation 2").await;
    assert!(program.unmatched().is_empty(), "{:?}", program.unmatched());
    program.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn config_maps_are_deleted_at_the_end_of_their_lifetime() {
    let world = World::with("").await;
    let mut program = world.start("23-requeue-after");
    let maps = world.client().api::<ConfigMap>("default");
    for (name, lifetime) in [("kept", None), ("long", Some("3600")), ("invalid", Some("soon")), ("short", Some("1"))] {
        let mut map = ConfigMap::default();
        map.set_name(name);
        if let Some(lifetime) = lifetime {
            map.metadata.annotations.insert("side-by-side/lifetime-seconds", lifetime.into());
        }
        maps.create(&map).await.expect("it is new");
    }
    program.prints("deleted short").await;
    assert!(maps.get_opt("short").await.expect("it answers").is_none());
    for name in ["kept", "long", "invalid"] {
        maps.get(name).await.expect("it was not deleted");
    }
    program.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_config_map_is_cleaned_up_before_it_is_deleted() {
    let world = World::with("").await;
    let mut program = world.start("24-finalizer");
    let maps = world.client().api::<ConfigMap>("default");
    for (name, app) in [("other", "other"), ("ours", "side-by-side")] {
        let mut map = ConfigMap::default();
        map.set_name(name);
        map.metadata.labels.insert("app", app.into());
        maps.create(&map).await.expect("it is new");
    }
    program.prints("prepared ours").await;
    let prepared = maps.get("ours").await.expect("it exists");
    assert!(prepared.finalizers().iter().any(|finalizer| finalizer == "side-by-side.example.com/cleanup"));
    assert!(maps.get("other").await.expect("it exists").finalizers().is_empty());
    maps.delete("ours").await.expect("it exists");
    program.prints("cleaned up ours").await;
    let gone = await_condition(&maps, "ours", |map| map.is_none());
    timeout(Duration::from_secs(60), gone).await.expect("the finalizer is removed").expect("it answers");
    program.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_change_only_with_the_object() {
    let world = World::with(SITES).await;
    let mut program = world.start("25-status-conditions");
    let sites = objects(&world, "sites");
    let site = object(json!({
        "apiVersion": "side-by-side.example.com/v1", "kind": "Site", "metadata": {"name": "a"},
        "spec": {"url": "http://a.example.com"},
    }));
    sites.create(&site).await.expect("it is valid");
    program.prints("a is ready: false").await;
    sites.patch("a", Patch::merge(json!({"spec": {"url": "https://a.example.com"}}))).await.expect("it exists");
    program.prints("a is ready: true").await;
    sites.patch("a", Patch::merge(json!({"metadata": {"labels": {"seen": "yes"}}}))).await.expect("it exists");
    sites.patch("a", Patch::merge(json!({"spec": {"url": "ftp://a.example.com"}}))).await.expect("it exists");
    program.prints("a is ready: false").await;
    assert!(program.unmatched().is_empty(), "{:?}", program.unmatched());
    program.stop().await;
}
