//! Programs that keep a cache.

use kubewright::api::core::v1::{ConfigMap, Pod};
use kubewright::options::{DeleteOptions, Patch};
use kubewright::{Object, json};

use crate::world::World;

const PODS: &str = "
{apiVersion: v1, kind: Node, metadata: {name: node-1}}
---
{apiVersion: v1, kind: Node, metadata: {name: node-2}}
---
{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: default, labels: {app: side-by-side}},
 spec: {nodeName: node-1, containers: [{name: web, image: nginx}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: b, namespace: default},
 spec: {nodeName: node-1, containers: [{name: web, image: nginx}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: c, namespace: kube-system, labels: {app: side-by-side}},
 spec: {nodeName: node-2, containers: [{name: web, image: nginx}]}}
";

#[tokio::test(flavor = "multi_thread")]
async fn caches_are_read() {
    let world = World::with(PODS).await;
    assert_eq!(world.run("16-shared-informer-factory").await, "2 nodes, 1 pods\n");
    assert_eq!(world.run("17-index").await, "2 pods on node-1\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_phases_are_printed() {
    let world = World::with(PODS).await;
    let mut program = world.start("15-informer");
    program.prints("2 pods").await;
    let pods = world.client().api::<Pod>("default");
    pods.patch("a", Patch::merge(json!({"metadata": {"labels": {"seen": "yes"}}}))).await.expect("it exists");
    pods.patch_status("a", Patch::merge(json!({"status": {"phase": "Running"}}))).await.expect("it exists");
    program.prints("a: Pending to Running").await;
    pods.delete_with("a", &DeleteOptions::default().grace_period_seconds(0)).await.expect("it exists");
    program.prints("a: deleted").await;
    assert!(program.unmatched().is_empty(), "{:?}", program.unmatched());
    drop(program);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_key_is_dropped_after_its_retries() {
    let world = World::with("").await;
    let mut program = world.start("18-work-queue");
    let maps = world.client().api::<ConfigMap>("default");
    for (name, app, key) in
        [("other", "other", "colour"), ("broken", "side-by-side", "size"), ("good", "side-by-side", "colour")]
    {
        let mut map = ConfigMap::default();
        map.set_name(name);
        map.metadata.labels.insert("app", app.into());
        map.data.insert(key, "blue".into());
        maps.create(&map).await.expect("it is new");
    }
    program.prints("default/good is blue").await;
    program.prints("dropped default/broken: it has no colour").await;
    // It is tried again after a change.
    maps.patch("broken", Patch::merge(json!({"data": {"colour": "red"}}))).await.expect("it exists");
    program.prints("default/broken is red").await;
    assert!(program.unmatched().is_empty(), "{:?}", program.unmatched());
    program.stop().await;
}
