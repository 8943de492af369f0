//! Simulated nodes, and default objects of a cluster.

use std::time::Duration;

use kubewright_api::apps::v1::ReplicaSet;
use kubewright_api::core::v1::{Event, Namespace, Node, Pod, ServiceAccount, Toleration};
use kubewright_client::Api;
use kubewright_controllers::NodeOptions;
use kubewright_controllers::nodes::EXIT_CODE_ANNOTATION;
use kubewright_core::Object;
use kubewright_core::options::{ListOptions, Patch};
use tokio::time::{Instant, sleep};

use crate::support::{Cluster, has_ready, replica_set, template};

fn pod(name: &str) -> Pod {
    let mut pod = Pod { spec: template(name, "one:1").spec, ..Default::default() };
    pod.metadata.name = Some(name.into());
    pod
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

fn condition<'a>(pod: &'a Pod, type_: &str) -> &'a str {
    let conditions = pod.status.as_ref().map(|status| &status.conditions[..]).unwrap_or_default();
    conditions.iter().find(|one| one.type_ == type_).map_or("", |one| one.status.as_str())
}

#[tokio::test(start_paused = true)]
async fn a_pod_starts_becomes_ready_and_stops_after_its_delays() {
    let seconds = Duration::from_secs;
    let options = NodeOptions::default().start_delay(seconds(5)).ready_delay(seconds(10)).stop_delay(seconds(20));
    let cluster = Cluster::new(options).await;
    let start = Instant::now();
    cluster.create(&pod("web")).await;
    let running = cluster.until::<Pod>("web", |pod| phase(pod) == "Running").await;
    assert_eq!(start.elapsed().as_secs(), 5);
    assert_eq!((condition(&running, "Ready"), condition(&running, "PodScheduled")), ("False", "True"));
    let ready = cluster.until::<Pod>("web", |pod| condition(pod, "Ready") == "True").await;
    assert_eq!(start.elapsed().as_secs(), 15);
    let status = ready.status.as_ref().unwrap();
    assert!(status.pod_ip.is_some() && status.host_ip.is_some() && status.start_time.is_some());
    assert!(status.container_statuses[0].ready && status.container_statuses[0].image == "one:1");

    let start = Instant::now();
    cluster.api::<Pod>().delete("web").await.unwrap();
    while cluster.api::<Pod>().get_opt("web").await.unwrap().is_some() {
        sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(start.elapsed().as_secs(), 20);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_scheduled_where_it_fits_and_else_stays_pending() {
    let cluster = Cluster::with_nodes(2).await;
    let nodes = Api::<Node>::all(&cluster.client);
    sleep(Duration::from_secs(1)).await;
    let names: Vec<String> =
        nodes.list(&ListOptions::default()).await.unwrap().items.iter().map(|node| node.name().to_owned()).collect();
    assert_eq!(names.len(), 2);
    let merge = |text: &str| Patch::Merge(text.into());
    nodes.patch(&names[0], merge(r#"{"spec":{"unschedulable":true}}"#)).await.unwrap();
    nodes.patch(&names[1], merge(r#"{"metadata":{"labels":{"disk":"fast"}}}"#)).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    let mut fast = pod("fast");
    fast.spec.as_mut().unwrap().node_selector.insert("disk", "fast".into());
    cluster.create(&fast).await;
    let fast = cluster.until::<Pod>("fast", |pod| phase(pod) == "Running").await;
    assert_eq!(fast.spec.unwrap().node_name.as_deref(), Some(names[1].as_str()));

    let mut slow = pod("slow");
    slow.spec.as_mut().unwrap().node_selector.insert("disk", "slow".into());
    cluster.create(&slow).await;
    cluster.until::<Pod>("slow", |pod| condition(pod, "PodScheduled") == "False").await;
    nodes
        .patch(&names[0], merge(r#"{"spec":{"unschedulable":null},"metadata":{"labels":{"disk":"slow"}}}"#))
        .await
        .unwrap();
    let slow = cluster.until::<Pod>("slow", |pod| condition(pod, "Ready") == "True").await;
    assert_eq!(slow.spec.unwrap().node_name.as_deref(), Some(names[0].as_str()));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_runs_at_most_its_pod_capacity() {
    let cluster = Cluster::with_nodes(1).await;
    let nodes = Api::<Node>::all(&cluster.client);
    sleep(Duration::from_secs(1)).await;
    let name = nodes.list(&ListOptions::default()).await.unwrap().items[0].name().to_owned();
    nodes.patch_status(&name, Patch::Merge(r#"{"status":{"allocatable":{"pods":"2"}}}"#.into())).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    // All at once, so that the cache is stale.
    for number in 0..5 {
        cluster.create(&pod(&format!("web-{number}"))).await;
    }
    let count =
        |pods: &[Pod], type_: &str, status: &str| pods.iter().filter(|pod| condition(pod, type_) == status).count();
    let is_settled = |pods: &[Pod]| count(pods, "PodScheduled", "False") == 3 && count(pods, "Ready", "True") == 2;
    let pods = cluster.until_pods(is_settled).await;
    let waiting = pods.iter().find(|pod| condition(pod, "PodScheduled") == "False").unwrap();
    let message = waiting.status.as_ref().unwrap().conditions[0].message.clone();
    assert_eq!(
        message.as_deref(),
        Some(
            "0/1 nodes are available: 1 Too many pods. preemption: 0/1 nodes are available: \
             1 No preemption victims found for incoming pod."
        )
    );
    sleep(Duration::from_secs(600)).await;
    assert!(is_settled(&cluster.pods().await));
    // Freed capacity is used.
    let ready = pods.iter().find(|pod| condition(pod, "Ready") == "True").unwrap();
    cluster.api::<Pod>().delete(ready.name()).await.unwrap();
    cluster.until_pods(|pods| count(pods, "PodScheduled", "False") == 2 && count(pods, "Ready", "True") == 2).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_held_shows_that_it_has_stopped() {
    let cluster = Cluster::with_nodes(1).await;
    let mut held = pod("held");
    held.metadata.finalizers = ["example.com/held".into()].into();
    cluster.create(&held).await;
    cluster.until::<Pod>("held", |pod| condition(pod, "Ready") == "True").await;
    cluster.api::<Pod>().delete("held").await.unwrap();
    let stopped = cluster.until::<Pod>("held", |pod| phase(pod) == "Failed").await;
    let state = stopped.status.as_ref().unwrap().container_statuses[0].state.clone().unwrap();
    assert_eq!(state.terminated.unwrap().exit_code, 143);
    cluster.until::<Pod>("held", |pod| pod.metadata.deletion_grace_period_seconds == Some(0)).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_ended_pod_is_restarted_by_its_restart_policy() {
    let cluster = Cluster::with_nodes(1).await;
    for (name, policy) in [("always", "Always"), ("never", "Never")] {
        let mut pod = pod(name);
        pod.metadata.annotations.insert(EXIT_CODE_ANNOTATION, "2".into());
        pod.spec.as_mut().unwrap().restart_policy = Some(policy.into());
        cluster.create(&pod).await;
    }
    let restarts =
        |pod: &Pod| pod.status.as_ref().unwrap().container_statuses.first().map_or(0, |one| one.restart_count);
    let always = cluster.until::<Pod>("always", |pod| restarts(pod) == 3).await;
    assert_eq!(phase(&always), "Running");
    // The third restart waited for twenty seconds, and the next one waits for twice as long.
    let reason = |pod: &Pod| {
        let state = pod.status.as_ref().unwrap().container_statuses[0].state.clone();
        state.and_then(|state| state.waiting.clone()?.reason.clone())
    };
    let crashed = cluster.until::<Pod>("always", |pod| reason(pod).as_deref() == Some("CrashLoopBackOff")).await;
    let start = Instant::now();
    assert_eq!((restarts(&crashed), condition(&crashed, "Ready"), phase(&crashed)), (3, "False", "Running"));
    cluster.until::<Pod>("always", |pod| restarts(pod) == 4).await;
    assert!((39..42).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    let never = cluster.until::<Pod>("never", |pod| phase(pod) == "Failed").await;
    let state = never.status.as_ref().unwrap().container_statuses[0].state.clone().unwrap();
    assert_eq!(state.terminated.unwrap().exit_code, 2);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn each_namespace_has_a_service_account() {
    let cluster = Cluster::with_nodes(0).await;
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some("other".into());
    Api::<Namespace>::all(&cluster.client).create(&namespace).await.unwrap();
    let accounts = Api::<ServiceAccount>::namespaced(&cluster.client, "other");
    sleep(Duration::from_secs(1)).await;
    let first = accounts.get("default").await.unwrap();
    accounts.delete("default").await.unwrap();
    sleep(Duration::from_secs(1)).await;
    assert_ne!(accounts.get("default").await.unwrap().uid(), first.uid());
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_taint_drives_pods_away_when_they_no_longer_tolerate_it() {
    let cluster = Cluster::with_nodes(1).await;
    let tolerating = |name: &str, seconds: Option<i64>| {
        let mut pod = pod(name);
        let toleration = Toleration {
            key: Some("broken".into()),
            operator: Some("Exists".into()),
            effect: Some("NoExecute".into()),
            toleration_seconds: seconds,
            ..Default::default()
        };
        pod.spec.as_mut().unwrap().tolerations = [toleration].into();
        pod
    };
    for pod in [pod("touchy"), tolerating("patient", Some(100)), tolerating("lasting", None)] {
        cluster.create(&pod).await;
    }
    cluster.until_pods(|pods| pods.len() == 3 && pods.iter().all(|pod| phase(pod) == "Running")).await;
    let nodes = Api::<Node>::all(&cluster.client);
    let taints = |taints: &str| Patch::Merge(format!(r#"{{"spec":{{"taints":{taints}}}}}"#).into_bytes());
    let name = |pod: &Pod| pod.name().to_owned();
    let driving = r#"[{"key":"broken","effect":"NoExecute"}]"#;
    nodes.patch("kubewright-node-1", taints(driving)).await.unwrap();
    let start = Instant::now();
    let left = cluster.until_all_pods(|pods| pods.len() == 2).await;
    assert_eq!(left.iter().map(name).collect::<Vec<_>>(), ["lasting", "patient"]);
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    // A pod with a pending eviction may stay if the taint is removed.
    sleep(Duration::from_secs(50)).await;
    nodes.patch("kubewright-node-1", taints("[]")).await.unwrap();
    sleep(Duration::from_secs(100)).await;
    assert_eq!(cluster.pods().await.len(), 2);
    nodes.patch("kubewright-node-1", taints(driving)).await.unwrap();
    let start = Instant::now();
    let going = cluster.until::<Pod>("patient", |pod| condition(pod, "DisruptionTarget") == "True").await;
    assert!((98..103).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    let reason = going.status.unwrap().conditions.last().unwrap().reason.clone();
    assert_eq!(reason.as_deref(), Some("DeletionByTaintManager"));
    let left = cluster.until_all_pods(|pods| pods.len() == 1).await;
    assert_eq!(name(&left[0]), "lasting");
    sleep(Duration::from_secs(2)).await;
    let told = |event: &Event| event.reason.as_deref() == Some("TaintManagerEviction");
    assert_eq!(cluster.list::<Event>().await.iter().filter(|event| told(event)).count(), 2);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_deleted_node_are_garbage_collected() {
    let cluster = Cluster::with_nodes(2).await;
    cluster.create(&replica_set("web", 4)).await;
    cluster.until::<ReplicaSet>("web", |set| has_ready(set, 4)).await;
    let lost = "kubewright-node-2";
    let is_lost = |pod: &Pod| pod.spec.as_ref().unwrap().node_name.as_deref() == Some(lost);
    assert_eq!(cluster.pods().await.iter().filter(|pod| is_lost(pod)).count(), 2);
    Api::<Node>::all(&cluster.client).delete(lost).await.unwrap();
    let start = Instant::now();
    cluster.until_all_pods(|pods| !pods.iter().any(is_lost)).await;
    assert!((39..43).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    cluster.until::<ReplicaSet>("web", |set| has_ready(set, 4)).await;
    assert_eq!(cluster.pods().await.len(), 4);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn restarting_with_fewer_nodes_removes_the_surplus_nodes_and_their_pods() {
    let cluster = Cluster::with_nodes(3).await;
    cluster.create(&replica_set("web", 6)).await;
    cluster.until::<ReplicaSet>("web", |set| has_ready(set, 6)).await;
    let node = |pod: &Pod| pod.spec.as_ref().unwrap().node_name.as_deref().unwrap_or_default().to_owned();
    let of_third: Vec<_> = cluster.pods().await.into_iter().filter(|pod| node(pod).ends_with("-3")).collect();
    let mut other = Node::default();
    other.metadata.name = Some("kubewright-node-9".into());
    let cluster = cluster
        .while_away(NodeOptions::default().count(1), async |client| {
            // One is already terminating, and one is foreign despite its name.
            let pods = Api::<Pod>::namespaced(client, "default");
            pods.delete(of_third[0].name()).await.unwrap();
            Api::<Node>::all(client).create(&other).await.unwrap();
        })
        .await;
    cluster.until_all_pods(|pods| !pods.iter().any(|pod| pod.uid() == of_third[0].uid())).await;
    cluster.until_all_pods(|pods| pods.iter().all(|pod| node(pod) == "kubewright-node-1")).await;
    cluster.until::<ReplicaSet>("web", |set| has_ready(set, 6)).await;
    let nodes = Api::<Node>::all(&cluster.client).list(&ListOptions::default()).await.unwrap().items;
    assert_eq!(nodes.iter().map(|node| node.name()).collect::<Vec<_>>(), ["kubewright-node-1", "kubewright-node-9"]);
    cluster.stop().await;
}
