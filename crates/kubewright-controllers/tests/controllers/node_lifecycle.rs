//! Heartbeats, conditions and taints of nodes.

use std::time::Duration;

use kubewright_api::coordination::v1::Lease;
use kubewright_api::core::v1::{Node, Pod};
use kubewright_client::Api;
use kubewright_controllers::nodes::FAILED_ANNOTATION;
use kubewright_core::Object;
use kubewright_core::options::Patch;
use tokio::time::{Instant, sleep};

use crate::support::{Cluster, template};

fn taints(node: &Node) -> Vec<String> {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter());
    let mut texts: Vec<String> = taints.map(|taint| format!("{}:{}", taint.key, taint.effect)).collect();
    texts.sort();
    texts
}

fn ready(node: &Node) -> (&str, &str) {
    let conditions = node.status.as_ref().map(|status| &status.conditions[..]).unwrap_or_default();
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready");
    ready.map(|one| (one.status.as_str(), one.reason.as_deref().unwrap_or_default())).unwrap_or_default()
}

async fn until(cluster: &Cluster, name: &str, holds: impl Fn(&Node) -> bool) -> Node {
    let (nodes, start) = (Api::<Node>::all(&cluster.client), Instant::now());
    loop {
        let node = nodes.get_opt(name).await.unwrap();
        if let Some(node) = node.as_ref().filter(|node| holds(node)) {
            return node.clone();
        }
        assert!(start.elapsed() < Duration::from_secs(3600), "{name} is still {node:#?}");
        sleep(Duration::from_millis(100)).await;
    }
}

async fn fail(cluster: &Cluster, node: &str, failed: &str) {
    let patch = format!(r#"{{"metadata":{{"annotations":{{"{FAILED_ANNOTATION}":{failed}}}}}}}"#);
    Api::<Node>::all(&cluster.client).patch(node, Patch::Merge(patch.into_bytes())).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_becomes_unknown_and_loses_its_pods() {
    let cluster = Cluster::with_nodes(2).await;
    let name = "kubewright-node-1";
    until(&cluster, name, |node| ready(node).0 == "True" && taints(node).is_empty()).await;
    let leases = Api::<Lease>::namespaced(&cluster.client, "kube-node-lease");
    let renewed = async || leases.get(name).await.unwrap().spec.unwrap().renew_time;
    sleep(Duration::from_secs(25)).await;
    let first = renewed().await;
    sleep(Duration::from_secs(11)).await;
    assert_ne!(first, renewed().await);
    let mut pod = Pod { spec: template("web", "one:1").spec, ..Default::default() };
    pod.metadata.name = Some("web".into());
    pod.spec.as_mut().unwrap().node_selector.insert("kubernetes.io/hostname", name.into());
    cluster.create(&pod).await;
    let condition = |pod: &Pod, type_: &str| {
        let conditions = pod.status.as_ref().map(|status| &status.conditions[..]).unwrap_or_default();
        conditions.iter().find(|one| one.type_ == type_).map(|one| one.status.to_string())
    };
    cluster.until::<Pod>("web", |pod| condition(pod, "Ready").as_deref() == Some("True")).await;

    fail(&cluster, name, r#""true""#).await;
    let start = Instant::now();
    let node = until(&cluster, name, |node| ready(node).0 == "Unknown").await;
    assert!((40..66).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    assert_eq!(ready(&node).1, "NodeStatusUnknown");
    let unreachable = "node.kubernetes.io/unreachable";
    let both = [format!("{unreachable}:NoExecute"), format!("{unreachable}:NoSchedule")];
    until(&cluster, name, |node| taints(node) == both).await;
    cluster.until::<Pod>("web", |pod| condition(pod, "Ready").as_deref() == Some("False")).await;
    // Pods tolerate it for five minutes.
    let start = Instant::now();
    cluster.until::<Pod>("web", |pod| pod.is_being_deleted()).await;
    assert!((295..306).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    // Nothing confirms that it has stopped, until the node is back.
    sleep(Duration::from_secs(120)).await;
    assert!(cluster.api::<Pod>().get_opt("web").await.unwrap().is_some());
    fail(&cluster, name, "null").await;
    cluster.until_gone::<Pod>("web").await;
    until(&cluster, name, |node| ready(node).0 == "True" && taints(node).is_empty()).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn any_ready_node_loses_its_taint() {
    let cluster = Cluster::with_nodes(0).await;
    let nodes = Api::<Node>::all(&cluster.client);
    let mut node = Node::default();
    node.metadata.name = Some("own".into());
    let not_ready = "node.kubernetes.io/not-ready:NoSchedule";
    assert_eq!(taints(&nodes.create(&node).await.unwrap()), [not_ready]);
    sleep(Duration::from_secs(5)).await;
    assert_eq!(taints(&nodes.get("own").await.unwrap()), [not_ready]);
    let patch = |status: &str| {
        Patch::Merge(format!(r#"{{"status":{{"conditions":[{{"type":"Ready","status":"{status}"}}]}}}}"#).into_bytes())
    };
    nodes.patch_status("own", patch("True")).await.unwrap();
    until(&cluster, "own", |node| taints(node).is_empty()).await;
    // The only node is never drained.
    nodes.patch_status("own", patch("False")).await.unwrap();
    until(&cluster, "own", |node| taints(node) == [not_ready]).await;
    // It has no kubelet.
    until(&cluster, "own", |node| ready(node) == ("Unknown", "NodeStatusUnknown")).await;
    until(&cluster, "own", |node| taints(node) == ["node.kubernetes.io/unreachable:NoSchedule"]).await;
    cluster.stop().await;
}
