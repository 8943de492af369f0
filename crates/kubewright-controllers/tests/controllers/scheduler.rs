//! Assignment of pods to nodes, and preemption.

use std::time::Duration;

use kubewright_api::core::v1::{Node, Pod, PodSchedulingGate, ResourceRequirements};
use kubewright_api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use kubewright_client::Api;
use kubewright_core::meta::v1::LabelSelector;
use kubewright_core::options::Patch;
use kubewright_core::{IntOrString, Object};
use tokio::time::sleep;

use crate::support::{Cluster, labels, template};

/// A pod that requests this much CPU.
fn pod(name: &str, cpu: &str) -> Pod {
    let mut pod = Pod { spec: template(name, "one:1").spec, ..Default::default() };
    pod.metadata.name = Some(name.into());
    pod.metadata.labels = labels(name);
    let mut resources = ResourceRequirements::default();
    resources.requests.insert("cpu", cpu.parse().unwrap());
    pod.spec.as_mut().unwrap().containers[0].resources = Some(resources.into());
    pod
}

fn with_class(mut pod: Pod, class: &str) -> Pod {
    pod.spec.as_mut().unwrap().priority_class_name = Some(class.into());
    pod
}

fn node_of(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
}

/// Status and message of the condition `PodScheduled`.
fn scheduled(pod: &Pod) -> (&str, &str) {
    let conditions = pod.status.as_ref().map(|status| &status.conditions[..]).unwrap_or_default();
    let scheduled = conditions.iter().find(|one| one.type_ == "PodScheduled");
    scheduled.map(|one| (one.status.as_str(), one.message.as_deref().unwrap_or_default())).unwrap_or_default()
}

async fn limit_cpu(cluster: &Cluster, node: &str, cpu: &str) {
    let nodes = Api::<Node>::all(&cluster.client);
    while nodes.get_opt(node).await.unwrap().is_none_or(|node| node.status.is_none_or(|one| one.conditions.is_empty()))
    {
        sleep(Duration::from_millis(20)).await;
    }
    let patch = format!(r#"{{"status":{{"allocatable":{{"cpu":"{cpu}"}}}}}}"#);
    nodes.patch_status(node, Patch::Merge(patch.into_bytes())).await.unwrap();
    sleep(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_until_resources_are_free() {
    let cluster = Cluster::with_nodes(1).await;
    limit_cpu(&cluster, "kubewright-node-1", "2").await;
    cluster.create(&pod("first", "1500m")).await;
    cluster.until::<Pod>("first", |pod| scheduled(pod).0 == "True").await;
    cluster.create(&pod("second", "1")).await;
    let second = cluster.until::<Pod>("second", |pod| scheduled(pod).0 == "False").await;
    let message = "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: \
        1 No preemption victims found for incoming pod.";
    assert_eq!(scheduled(&second).1, message);
    let event = cluster.until_told("Pod", "FailedScheduling").await;
    assert_eq!((event.type_.as_deref(), event.message.as_deref()), (Some("Warning"), Some(message)));
    // Pods that request nothing, or less, still fit.
    cluster.create(&pod("third", "500m")).await;
    cluster.until::<Pod>("third", |pod| scheduled(pod).0 == "True").await;
    cluster.api::<Pod>().delete("first").await.unwrap();
    cluster.until::<Pod>("second", |pod| scheduled(pod).0 == "True").await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_high_priority_preempts_the_least_important_pods() {
    let cluster = Cluster::with_nodes(2).await;
    limit_cpu(&cluster, "kubewright-node-1", "2").await;
    limit_cpu(&cluster, "kubewright-node-2", "2").await;
    let mut budget = PodDisruptionBudget::default();
    budget.metadata.name = Some("guard".into());
    budget.spec = Some(PodDisruptionBudgetSpec {
        min_available: Some(IntOrString::from(1)),
        selector: Some(LabelSelector { match_labels: labels("guarded"), ..Default::default() }.into()),
        ..Default::default()
    });
    cluster.create(&budget).await;
    for name in ["guarded", "free"] {
        cluster.create(&pod(name, "2")).await;
        cluster.until::<Pod>(name, |pod| !node_of(pod).is_empty()).await;
    }
    let free = cluster.get::<Pod>("free").await;
    let node = node_of(&free).to_owned();
    sleep(Duration::from_secs(2)).await;

    let urgent = cluster.create(&with_class(pod("urgent", "1"), "system-node-critical")).await;
    let nominated = |pod: &Pod| pod.status.as_ref().and_then(|status| status.nominated_node_name.clone());
    let waiting = cluster.until::<Pod>("urgent", |pod| nominated(pod).is_some()).await;
    assert_eq!(nominated(&waiting).as_deref(), Some(&*node));
    assert_eq!(scheduled(&waiting).1, "0/2 nodes are available: 2 Insufficient cpu.");
    let placed = cluster.until::<Pod>("urgent", |pod| scheduled(pod).0 == "True").await;
    assert_eq!(node_of(&placed), node);
    let event = cluster.until_told("Pod", "Preempted").await;
    assert_eq!(event.involved_object.name.as_deref(), Some("free"));
    let message = format!("Preempted by pod {} on node {node}", urgent.uid());
    assert_eq!(event.message.as_deref(), Some(&*message));
    assert!(cluster.api::<Pod>().get_opt("free").await.unwrap().is_none());
    assert!(!node_of(&cluster.get::<Pod>("guarded").await).is_empty());
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_gated_pod_is_not_scheduled() {
    let cluster = Cluster::with_nodes(1).await;
    let mut gated = pod("gated", "1");
    gated.spec.as_mut().unwrap().scheduling_gates = [PodSchedulingGate { name: "example.com/wait".into() }].into();
    cluster.create(&gated).await;
    sleep(Duration::from_secs(600)).await;
    assert_eq!(node_of(&cluster.get::<Pod>("gated").await), "");
    cluster.patch::<Pod>("gated", r#"{"spec":{"schedulingGates":null}}"#).await;
    cluster.until::<Pod>("gated", |pod| !node_of(pod).is_empty()).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_controller_are_spread_over_nodes() {
    let cluster = Cluster::with_nodes(3).await;
    cluster.create(&crate::support::replica_set("web", 6)).await;
    let pods = cluster.until_pods(|pods| pods.len() == 6 && pods.iter().all(|pod| !node_of(pod).is_empty())).await;
    for number in 1..=3 {
        let node = format!("kubewright-node-{number}");
        assert_eq!(pods.iter().filter(|pod| node_of(pod) == node).count(), 2, "{node}");
    }
    cluster.stop().await;
}
