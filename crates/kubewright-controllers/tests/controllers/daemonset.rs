//! Daemon sets.

use std::time::Duration;

use kubewright_api::apps::v1::{ControllerRevision, DaemonSet, DaemonSetSpec};
use kubewright_api::core::v1::{Node, Pod};
use kubewright_client::Api;
use kubewright_core::Object;
use kubewright_core::meta::v1::LabelSelector;
use kubewright_core::options::Patch;
use tokio::time::Instant;

use crate::support::{Cluster, labels, template};

fn daemon_set(name: &str) -> DaemonSet {
    let mut set = DaemonSet::default();
    set.metadata.name = Some(name.into());
    set.spec = Some(DaemonSetSpec {
        selector: LabelSelector { match_labels: labels(name), ..Default::default() },
        template: template(name, "one:1"),
        ..Default::default()
    });
    set
}

/// Whether a set has the desired number of available pods of its current template, and its status
/// says so.
fn is_rolled_out(set: &DaemonSet, count: i32) -> bool {
    let Some(status) = &set.status else { return false };
    status.observed_generation == set.metadata.generation
        && (status.desired_number_scheduled, status.current_number_scheduled) == (count, count)
        && status.updated_number_scheduled.unwrap_or_default() == count
        && status.number_available.unwrap_or_default() == count
        && status.number_misscheduled == 0
}

fn nodes_of(pods: &[Pod]) -> Vec<String> {
    let mut nodes: Vec<_> =
        pods.iter().map(|pod| pod.spec.as_ref().unwrap().node_name.clone().unwrap_or_default().to_string()).collect();
    nodes.sort_unstable();
    nodes
}

async fn change_node(cluster: &Cluster, name: &str, patch: &str) {
    Api::<Node>::all(&cluster.client).patch(name, Patch::Strategic(patch.into())).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn each_node_that_fits_has_a_pod() {
    let cluster = Cluster::with_nodes(3).await;
    cluster.create(&daemon_set("agent")).await;
    cluster.until::<DaemonSet>("agent", |set| is_rolled_out(set, 3)).await;
    let nodes = nodes_of(&cluster.pods().await);
    assert_eq!(nodes.iter().collect::<std::collections::BTreeSet<_>>().len(), 3, "{nodes:?}");

    // A cordon keeps the pod, a selector moves it, a NoSchedule taint leaves it, a NoExecute taint
    // evicts it.
    change_node(&cluster, &nodes[0], r#"{"spec":{"unschedulable":true}}"#).await;
    let pod = cluster.pods().await.into_iter().find(|pod| nodes_of(std::slice::from_ref(pod))[0] == nodes[0]).unwrap();
    cluster.api::<Pod>().delete(pod.name()).await.unwrap();
    cluster.until_pods(|pods| pods.iter().all(|one| one.uid() != pod.uid()) && nodes_of(pods) == nodes).await;
    change_node(&cluster, &nodes[1], r#"{"spec":{"taints":[{"key":"own","effect":"NoExecute"}]}}"#).await;
    cluster.until_pods(|pods| nodes_of(pods) == [nodes[0].as_str(), nodes[2].as_str()]).await;
    cluster.until::<DaemonSet>("agent", |set| is_rolled_out(set, 2)).await;
    change_node(&cluster, &nodes[1], r#"{"spec":{"taints":[]}}"#).await;
    cluster.until::<DaemonSet>("agent", |set| is_rolled_out(set, 3)).await;
    change_node(&cluster, &nodes[2], r#"{"metadata":{"labels":{"disk":"ssd"}}}"#).await;
    let selector = r#"{"spec":{"template":{"spec":{"nodeSelector":{"disk":"ssd"}}}}}"#;
    cluster.patch::<DaemonSet>("agent", selector).await;
    cluster.until::<DaemonSet>("agent", |set| is_rolled_out(set, 1)).await;
    cluster.until_pods(|pods| nodes_of(pods) == [nodes[2].as_str()]).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_template_change_rolls_out_node_by_node() {
    for surge in [false, true] {
        let cluster = Cluster::with_nodes(3).await;
        let mut set = daemon_set("agent");
        let strategy = set.spec.as_mut().unwrap().update_strategy.get_or_insert_default();
        strategy.type_ = Some("RollingUpdate".into());
        let rolling = strategy.rolling_update.get_or_insert_default();
        rolling.max_surge = Some(i32::from(surge).into());
        rolling.max_unavailable = Some(i32::from(!surge).into());
        cluster.create(&set).await;
        cluster.until::<DaemonSet>("agent", |set| is_rolled_out(set, 3)).await;
        let change = r#"{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"two:2"}]}}}}"#;
        cluster.patch::<DaemonSet>("agent", change).await;
        let image = |pod: &Pod| pod.spec.as_ref().unwrap().containers[0].image.clone().unwrap_or_default();
        loop {
            let set: DaemonSet = cluster.get("agent").await;
            let available = set.status.as_ref().and_then(|status| status.number_available).unwrap_or_default();
            assert!(available >= 2 + i32::from(surge), "{:?}", set.status);
            let pods = cluster.pods().await;
            assert!(pods.len() <= 3 + usize::from(surge), "{}", pods.len());
            if is_rolled_out(&set, 3) && pods.len() == 3 && pods.iter().all(|pod| image(pod) == "two:2") {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        let revisions: Vec<ControllerRevision> = cluster.list().await;
        assert_eq!(revisions.len(), 2);
        cluster.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_has_ended_is_replaced() {
    let cluster = Cluster::with_nodes(1).await;
    cluster.create(&daemon_set("agent")).await;
    for (phase, type_, reason, end) in [
        ("Failed", "Warning", "FailedDaemonPod", "will try to kill it"),
        ("Succeeded", "Normal", "SucceededDaemonPod", "will try to delete it"),
    ] {
        cluster.until::<DaemonSet>("agent", |set| is_rolled_out(set, 1)).await;
        let (pod, ended) = end_pod(&cluster, phase).await;
        assert!(ended.elapsed() < Duration::from_secs(1), "{phase}: {:?}", ended.elapsed());
        cluster.until::<DaemonSet>("agent", |set| is_rolled_out(set, 1)).await;
        let event = cluster.until_told("DaemonSet", reason).await;
        assert_eq!(event.type_.as_deref(), Some(type_));
        let node = pod.spec.as_ref().unwrap().node_name.as_deref().unwrap_or_default();
        let state = phase.to_lowercase();
        let message = format!("Found {state} daemon pod default/{} on node {node}, {end}", pod.name());
        assert_eq!(event.message.as_deref(), Some(&*message));
    }
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn repeatedly_failing_pods_are_replaced_with_back_off() {
    let cluster = Cluster::with_nodes(1).await;
    cluster.create(&daemon_set("agent")).await;
    cluster.until::<DaemonSet>("agent", |set| is_rolled_out(set, 1)).await;
    let start = Instant::now();
    let mut replaced = Vec::new();
    for _ in 0..4 {
        end_pod(&cluster, "Failed").await;
        replaced.push(start.elapsed().as_secs());
    }
    assert_eq!(replaced, [0, 1, 3, 7]);
    cluster.stop().await;
}

/// Ends the only pod in this phase, and waits for its replacement. Returns the ended pod and the
/// time.
async fn end_pod(cluster: &Cluster, phase: &str) -> (Pod, Instant) {
    let mut pod = cluster.pods().await.remove(0);
    pod.status.get_or_insert_default().phase = Some(phase.into());
    // Without a precondition on the version, because a new pod is about to be bound.
    pod.metadata.resource_version = None;
    cluster.api::<Pod>().update_status(&pod).await.unwrap();
    let ended = Instant::now();
    cluster.until_pods(|pods| pods.len() == 1 && pods[0].uid() != pod.uid()).await;
    (pod, ended)
}
