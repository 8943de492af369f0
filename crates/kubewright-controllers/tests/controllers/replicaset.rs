//! Replica sets.

use std::time::Duration;

use kubewright_api::apps::v1::ReplicaSet;
use kubewright_api::core::v1::{Pod, ReplicationController, ReplicationControllerSpec};
use kubewright_apiserver::Fault;
use kubewright_core::Object;
use kubewright_core::options::{DeleteOptions, PropagationPolicy};
use kubewright_core::owner::controller_of;
use tokio::time::{Instant, sleep};

use crate::support::{Cluster, has_ready, labels, replica_set, template};

#[tokio::test(start_paused = true)]
async fn a_set_has_its_desired_number_of_pods() {
    // RS-1, RS-2
    let cluster = Cluster::with_nodes(3).await;
    cluster.create(&replica_set("web", 1)).await;
    cluster.until::<ReplicaSet>("web", |set| has_ready(set, 1)).await;
    cluster.patch::<ReplicaSet>("web", r#"{"spec":{"replicas":7}}"#).await;
    cluster.until::<ReplicaSet>("web", |set| has_ready(set, 7)).await;
    let pods = cluster.pods().await;
    assert_eq!(pods.len(), 7);
    let nodes: std::collections::BTreeSet<_> =
        pods.iter().map(|pod| pod.spec.as_ref().unwrap().node_name.clone()).collect();
    assert_eq!(nodes.len(), 3);
    let gone = pods[0].name().to_owned();
    cluster.api::<Pod>().delete(&gone).await.unwrap();
    let pods = cluster.until_pods(|pods| pods.len() == 7 && pods.iter().all(|pod| pod.name() != gone)).await;
    assert_eq!(pods.len(), 7);
    cluster.patch::<ReplicaSet>("web", r#"{"spec":{"replicas":0}}"#).await;
    cluster.until::<ReplicaSet>("web", |set| has_ready(set, 0)).await;
    sleep(Duration::from_secs(5)).await;
    assert!(cluster.list::<Pod>().await.is_empty());
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_set_adopts_matching_pods_and_releases_others() {
    // RS-3, RS-4
    let cluster = Cluster::with_nodes(1).await;
    let mut orphan = Pod { spec: template("web", "one:1").spec, ..Default::default() };
    orphan.metadata.name = Some("orphan".into());
    orphan.metadata.labels = labels("web");
    cluster.create(&orphan).await;
    let set = cluster.create(&replica_set("web", 2)).await;
    let adopted = cluster.until::<Pod>("orphan", |pod| controller_of(&pod.metadata).is_some()).await;
    let reference = controller_of(&adopted.metadata).unwrap();
    assert_eq!((reference.uid.as_str(), reference.block_owner_deletion), (set.uid(), Some(true)));
    cluster.until::<ReplicaSet>("web", |set| has_ready(set, 2)).await;
    assert_eq!(cluster.pods().await.len(), 2);

    cluster.patch::<Pod>("orphan", r#"{"metadata":{"labels":{"app":"other"}}}"#).await;
    cluster.until::<Pod>("orphan", |pod| pod.metadata.owner_references.is_empty()).await;
    cluster.until_pods(|pods| pods.len() == 3).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_ready_pod_is_available_when_it_has_been_ready_for_long_enough() {
    // RS-3
    let cluster = Cluster::with_nodes(1).await;
    let mut set = replica_set("web", 1);
    set.spec.as_mut().unwrap().min_ready_seconds = Some(60);
    cluster.create(&set).await;
    let is_available =
        |set: &ReplicaSet| set.status.as_ref().is_some_and(|status| status.available_replicas == Some(1));
    let ready = cluster.until::<ReplicaSet>("web", |set| has_ready(set, 1)).await;
    assert!(!is_available(&ready));
    let since = Instant::now();
    cluster.until::<ReplicaSet>("web", is_available).await;
    assert!((55..65).contains(&since.elapsed().as_secs()), "{:?}", since.elapsed());
    cluster.stop().await;
}

fn replication_controller(name: &str, replicas: i32) -> ReplicationController {
    let mut controller = ReplicationController::default();
    controller.metadata.name = Some(name.into());
    controller.spec = Some(ReplicationControllerSpec {
        replicas: Some(replicas),
        selector: labels(name),
        template: Some(template(name, "one:1").into()),
        ..Default::default()
    });
    controller
}

#[tokio::test(start_paused = true)]
async fn a_replication_controller_has_its_desired_number_of_pods() {
    let cluster = Cluster::with_nodes(2).await;
    let has_ready = |controller: &ReplicationController, count: i32| {
        let Some(status) = &controller.status else { return false };
        status.observed_generation == controller.generation()
            && status.replicas == count
            && [status.ready_replicas, status.available_replicas, status.fully_labeled_replicas]
                .iter()
                .all(|number| number.unwrap_or_default() == count)
    };
    let reason = |controller: &ReplicationController| {
        let conditions = controller.status.as_ref().map(|status| &status.conditions[..]).unwrap_or_default();
        conditions.iter().find(|one| one.type_ == "ReplicaFailure").and_then(|one| one.reason.clone())
    };
    cluster.faults().inject(Fault::answer(403).verb("create").resource("pods"));
    let web = cluster.create(&replication_controller("web", 3)).await;
    cluster.until::<ReplicationController>("web", |web| reason(web).as_deref() == Some("FailedCreate")).await;
    cluster.faults().clear();
    cluster.until::<ReplicationController>("web", |web| reason(web).is_none() && has_ready(web, 3)).await;
    let pods = cluster.pods().await;
    let owner = controller_of(&pods[0].metadata).unwrap();
    let owner = (owner.api_version.as_str(), owner.kind.as_str(), owner.uid.as_str());
    assert_eq!(owner, ("v1", "ReplicationController", web.uid()));

    cluster.patch::<ReplicationController>("web", r#"{"spec":{"replicas":1}}"#).await;
    cluster.until::<ReplicationController>("web", |web| has_ready(web, 1)).await;
    let left = cluster.pods().await.remove(0);
    // An idle controller writes nothing.
    let before: ReplicationController = cluster.get("web").await;
    sleep(Duration::from_secs(600)).await;
    let after: ReplicationController = cluster.get("web").await;
    assert_eq!(after.resource_version(), before.resource_version());

    // Its pod stays, and the next set of this name adopts it.
    let options = DeleteOptions::default().propagation(PropagationPolicy::Orphan);
    cluster.api::<ReplicationController>().delete_with("web", &options).await.unwrap();
    cluster.until::<Pod>(left.name(), |pod| pod.metadata.owner_references.is_empty()).await;
    let next = cluster.create(&replication_controller("web", 1)).await;
    let adopted = cluster
        .until::<Pod>(left.name(), |pod| controller_of(&pod.metadata).is_some_and(|owner| owner.uid == next.uid()))
        .await;
    assert_eq!((adopted.uid(), cluster.pods().await.len()), (left.uid(), 1));
    cluster.stop().await;
}
