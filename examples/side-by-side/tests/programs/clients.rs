//! Programs that read and write objects.

use kubewright::Object;
use kubewright::api::apps::v1::Deployment;
use kubewright::api::core::v1::{ConfigMap, Pod, Secret};
use kubewright::api::policy::v1::PodDisruptionBudget;
use kubewright::options::{DeleteOptions, Patch};
use kubewright::{Client, json};

use crate::world::World;

/// Two pods of our app, and a pod of somebody else.
const PODS: &str = "
{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: default, labels: {app: side-by-side}},
 spec: {containers: [{name: web, image: nginx}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: b, namespace: default, labels: {app: side-by-side}},
 spec: {containers: [{name: web, image: nginx}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: other, namespace: kube-system},
 spec: {containers: [{name: web, image: nginx}]}}
";

const MAP: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: side-by-side, namespace: default},
 data: {colour: blue, size: small}}";

/// A Deployment in the middle of its first rollout.
const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: side-by-side, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: side-by-side}}
  template:
    metadata: {labels: {app: side-by-side}}
    spec: {containers: [{name: web, image: nginx}]}
";

async fn map(client: &Client) -> ConfigMap {
    client.api::<ConfigMap>("default").get("side-by-side").await.expect("it exists")
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_are_listed() {
    let world = World::with(PODS).await;
    assert_eq!(world.run("01-list-pods").await, "default/a\ndefault/b\nkube-system/other\n");
    let running = Patch::merge(json!({"status": {"phase": "Running"}}));
    world.client().api::<Pod>("default").patch_status("a", running).await.expect("it exists");
    assert_eq!(world.run("07-paged-list").await, "default/a\n");
    let lines = world.run_with("11-dynamic-client", &["pods"]).await;
    assert_eq!(lines, "a\nb\n");
    let namespaces = world.run_with("11-dynamic-client", &["namespaces"]).await;
    assert!(namespaces.contains("default\n") && namespaces.contains("kube-system\n"), "{namespaces}");
    let resources = world.run("12-discovery").await;
    assert!(resources.contains("v1 pods\n") && resources.contains("apps/v1 deployments\n"), "{resources}");
    assert!(!resources.contains("incomplete"), "{resources}");
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_pods_are_printed() {
    let world = World::with(PODS).await;
    let mut program = world.start("02-watch-pods");
    program.prints("changed a").await;
    program.prints("changed b").await;
    let pods = world.client().api::<Pod>("default");
    pods.patch("a", Patch::merge(json!({"metadata": {"labels": {"seen": "yes"}}}))).await.expect("it exists");
    program.prints("changed a").await;
    pods.delete_with("b", &DeleteOptions::default().grace_period_seconds(0)).await.expect("it exists");
    program.prints("deleted b").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_config_map_is_created_and_deleted() {
    let world = World::with("").await;
    assert_eq!(world.run("03-create-and-delete").await, "created side-by-side\ndeleted side-by-side\n");
    let maps = world.client().api::<ConfigMap>("default");
    assert!(maps.get_opt("side-by-side").await.expect("it answers").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_config_map_is_patched_and_counts() {
    let world = World::with(MAP).await;
    assert_eq!(world.run("04-patch").await, "Some(\"green\")\n");
    let patched = map(&world.client()).await;
    assert_eq!(patched.data.get("size").map(|size| size.as_str()), Some("small"), "the rest is unchanged");

    assert_eq!(world.run("06-retry-on-conflict").await, "Some(\"1\")\n");
    // Two at once conflict, and neither run is lost.
    let (one, two) = tokio::join!(world.run("06-retry-on-conflict"), world.run("06-retry-on-conflict"));
    assert_ne!(one, two);
    assert_eq!(map(&world.client()).await.data.get("runs").map(|runs| runs.as_str()), Some("3"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_is_applied_scaled_and_awaited() {
    let world = World::with("").await;
    assert_eq!(world.run("05-server-side-apply").await, "applied side-by-side\n");
    assert_eq!(world.run("05-server-side-apply").await, "applied side-by-side\n", "it can be applied again");
    assert_eq!(world.run("09-scale").await, "Some(3)\n");
    let deployments = world.client().api::<Deployment>("default");
    let scaled = deployments.get("side-by-side").await.expect("it exists");
    let managers: Vec<_> = scaled.metadata.managed_fields.iter().filter_map(|entry| entry.manager.clone()).collect();
    assert!(managers.iter().any(|manager| manager == "me"), "{managers:?}");
    assert_eq!(scaled.spec.and_then(|spec| spec.replicas), Some(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_is_awaited() {
    let world = World::with(DEPLOYMENT).await;
    let mut program = world.start("08-wait");
    let deployments = world.client().api::<Deployment>("default");
    let status = |updated: i32| {
        json!({"status": {"observedGeneration": 1, "replicas": 2, "updatedReplicas": updated,
            "readyReplicas": updated, "availableReplicas": updated,
            "conditions": [{"type": "Progressing", "status": "True",
                "reason": if updated == 2 { "NewReplicaSetAvailable" } else { "ReplicaSetUpdated" }}]}})
    };
    for updated in 0..=2 {
        deployments.patch_status("side-by-side", Patch::merge(status(updated))).await.expect("it exists");
    }
    program.prints("rolled out").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_unprotected_pods_of_the_app_are_evicted() {
    let budget = "---
{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: b, namespace: default},
 spec: {minAvailable: 1, selector: {matchLabels: {protected: 'yes'}}}}";
    let world = World::with(&format!("{PODS}{budget}")).await;
    let pods = world.client().api::<Pod>("default");
    let protect = json!({"metadata": {"labels": {"protected": "yes"}}});
    pods.patch("a", Patch::merge(protect)).await.expect("it exists");
    // A budget protects only pods that are ready.
    let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    pods.patch_status("a", Patch::merge(ready)).await.expect("it exists");
    let status = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1,
        "desiredHealthy": 1, "expectedPods": 1}});
    let budgets = world.client().api::<PodDisruptionBudget>("default");
    budgets.patch_status("b", Patch::merge(status)).await.expect("it exists");
    assert_eq!(world.run("10-evict").await, "kept a\nevicted b\n");
    assert!(!pods.get("a").await.expect("it is protected").is_being_deleted());
    let others = world.client().api::<Pod>("kube-system");
    assert!(!others.get("other").await.expect("it has another label").is_being_deleted());
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_watched_without_their_data() {
    let world = World::with("").await;
    let mut program = world.start("13-metadata");
    let mut secret = Secret::default();
    secret.set_name("side-by-side");
    world.client().api::<Secret>("default").create(&secret).await.expect("it is new");
    program.prints("changed side-by-side").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_impersonated_user_is_asked_about() {
    let world = World::with("").await;
    assert_eq!(world.run("14-impersonation").await, "allowed: false\n");
    let role = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: pods}
rules: [{apiGroups: [''], resources: [pods], verbs: [delete]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: pods, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: pods}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: developers}]
";
    let world = World::with(role).await;
    assert_eq!(world.run("14-impersonation").await, "allowed: true\n");
}
