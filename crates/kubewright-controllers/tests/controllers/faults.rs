//! Controllers with a failing server.

use std::time::Duration;

use kubewright_api::apps::v1::{Deployment, ReplicaSet};
use kubewright_api::core::v1::Pod;
use kubewright_apiserver::{ApiServer, Fault};
use kubewright_client::Api;
use kubewright_controllers::NodeOptions;
use kubewright_core::options::ListOptions;
use tokio::time::{Instant, sleep};

use crate::support::{Cluster, deployment, is_rolled_out, replica_set};

#[tokio::test(start_paused = true)]
async fn a_rollout_survives_errors_and_conflicts_without_surplus_pods() {
    // RS-1, RS-2, DP-7
    let cluster = Cluster::with_nodes(2).await;
    for (verb, code, share) in
        [("create", 500, 0.2), ("update", 409, 0.2), ("update", 500, 0.1), ("delete", 500, 0.2), ("patch", 500, 0.2)]
    {
        cluster.faults().inject(Fault::answer(code).verb(verb).probability(share));
    }
    let mut web = deployment("web", 6);
    while cluster.api::<Deployment>().create(&web).await.is_err() {}
    cluster.until::<Deployment>("web", is_rolled_out).await;
    web = cluster.get("web").await;
    web.metadata.resource_version = None;
    web.spec.as_mut().unwrap().template.spec.as_mut().unwrap().containers[0].image = Some("two:2".into());
    while cluster.api::<Deployment>().update(&web).await.is_err() {}
    let mut most = 0;
    while !is_rolled_out(&cluster.get("web").await) {
        most = most.max(cluster.pods().await.len());
        sleep(Duration::from_millis(20)).await;
    }
    assert!(most <= 8, "{most}");
    cluster.faults().clear();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(cluster.pods().await.len(), 6);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_that_cannot_be_created_are_a_condition() {
    // RS-1
    let cluster = Cluster::with_nodes(1).await;
    cluster.faults().inject(Fault::answer(403).verb("create").resource("pods"));
    cluster.create(&replica_set("web", 3)).await;
    let failure = |set: &ReplicaSet| {
        let conditions = set.status.as_ref().map(|status| &status.conditions[..]).unwrap_or_default();
        conditions.iter().find(|one| one.type_ == "ReplicaFailure").cloned()
    };
    let reason = |set: &ReplicaSet| failure(set).and_then(|one| one.reason);
    let set = cluster.until::<ReplicaSet>("web", |set| reason(set).as_deref() == Some("FailedCreate")).await;
    // The condition has the server's message, like the event.
    let message = failure(&set).and_then(|one| one.message).unwrap_or_default();
    let event = cluster.until_told("ReplicaSet", "FailedCreate").await;
    assert_eq!(event.message.as_deref(), Some(&*format!("Error creating: {message}")));
    cluster.faults().clear();
    cluster.until::<ReplicaSet>("web", |set| reason(set).is_none()).await;
    cluster.until_pods(|pods| pods.len() == 3).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deployment_that_exhausts_its_retries_waits_for_a_change() {
    // DP-7
    let cluster = Cluster::with_nodes(1).await;
    cluster.faults().inject(Fault::answer(500).verb("create").resource("replicasets").times(10));
    cluster.create(&deployment("patient", 1)).await;
    cluster.until::<Deployment>("patient", is_rolled_out).await;

    cluster.faults().inject(Fault::answer(500).verb("create").resource("replicasets"));
    cluster.create(&deployment("stuck", 1)).await;
    sleep(Duration::from_secs(3600)).await;
    cluster.faults().clear();
    sleep(Duration::from_secs(3600)).await;
    let sets: Vec<ReplicaSet> = cluster.list().await;
    assert_eq!(sets.len(), 1, "it was dropped after its last try");
    cluster.patch::<Deployment>("stuck", r#"{"metadata":{"annotations":{"look":"again"}}}"#).await;
    cluster.until::<Deployment>("stuck", is_rolled_out).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn stopping_controllers_waits_for_running_reconciles() {
    // RS-8
    let cluster = Cluster::with_nodes(0).await;
    cluster.faults().inject(Fault::delay(Duration::from_secs(20)).verb("create").resource("pods"));
    cluster.create(&replica_set("web", 1)).await;
    sleep(Duration::from_secs(5)).await;
    assert!(cluster.pods().await.is_empty(), "it is on its way");
    let since = Instant::now();
    let server = cluster.stop_controllers().await;
    assert!(since.elapsed() >= Duration::from_secs(14), "{:?}", since.elapsed());
    let pods = Api::<Pod>::namespaced(&server.client(), "default");
    assert_eq!(pods.list(&ListOptions::default()).await.unwrap().items.len(), 1);
    server.stop().await;
}

#[tokio::test]
async fn a_restarted_cluster_continues_from_its_stored_state() {
    let data = std::env::temp_dir().join(format!("kubewright-controllers-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&data);
    let start = async || Cluster::over(ApiServer::in_memory().data(&data), NodeOptions::default()).await;
    let cluster = start().await;
    cluster.create(&deployment("web", 8)).await;
    // During the rollout, and again during that of the next version.
    sleep(Duration::from_millis(150)).await;
    cluster.stop().await;
    let cluster = start().await;
    let image = r#"{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"two:2"}]}}}}"#;
    cluster.patch::<Deployment>("web", image).await;
    sleep(Duration::from_millis(150)).await;
    cluster.stop().await;
    let cluster = start().await;
    cluster.until::<Deployment>("web", is_rolled_out).await;
    let pods = cluster.until_pods(|pods| pods.len() == 8).await;
    let addresses: std::collections::BTreeSet<_> =
        pods.iter().map(|pod| pod.status.as_ref().unwrap().pod_ip.clone()).collect();
    assert_eq!(addresses.len(), 8);
    cluster.stop().await;
    let _ = std::fs::remove_dir_all(&data);
}
