//! Deployments.

use std::time::Duration;

use kubewright_api::apps::v1::{Deployment, ReplicaSet};
use kubewright_api::core::v1::Pod;
use kubewright_controllers::NodeOptions;
use kubewright_core::Object;
use tokio::time::sleep;

use crate::support::{Cluster, deployment, is_rolled_out, replica_set};

const REVISION: &str = "deployment.kubernetes.io/revision";

fn image(name: &str) -> String {
    format!(r#"{{"spec":{{"template":{{"spec":{{"containers":[{{"name":"main","image":"{name}"}}]}}}}}}}}"#)
}

fn reason_of<'a>(deployment: &'a Deployment, type_: &str) -> &'a str {
    let conditions = deployment.status.as_ref().map(|status| &status.conditions[..]).unwrap_or_default();
    let condition = conditions.iter().find(|condition| condition.type_ == type_);
    condition.and_then(|condition| condition.reason.as_deref()).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_new_template_is_rolled_out_within_the_limits() {
    // DP-2, DP-3, DP-4
    let cluster = Cluster::with_nodes(3).await;
    cluster.create(&deployment("web", 8)).await;
    cluster.until::<Deployment>("web", is_rolled_out).await;
    cluster.patch::<Deployment>("web", &image("two:2")).await;
    let (mut fewest, mut most) = (8, 8);
    let rolled_out = loop {
        let deployment = cluster.get::<Deployment>("web").await;
        let pods = cluster.pods().await;
        let is_ready = |pod: &&Pod| {
            let conditions = pod.status.iter().flat_map(|status| status.conditions.iter());
            conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
        };
        fewest = fewest.min(pods.iter().filter(is_ready).count());
        most = most.max(pods.len());
        if is_rolled_out(&deployment) {
            break deployment;
        }
        sleep(Duration::from_millis(10)).await;
    };
    // maxSurge and maxUnavailable are 25 %.
    assert!((6..8).contains(&fewest) && (9..=10).contains(&most), "{fewest} {most}");
    assert_eq!(rolled_out.annotations().get(REVISION), Some("2"));
    let mut sets: Vec<ReplicaSet> = cluster.list().await;
    sets.sort_by_key(|set| set.annotations().get(REVISION).map(str::to_owned));
    let sizes: Vec<_> = sets.iter().map(|set| set.spec.as_ref().unwrap().replicas.unwrap()).collect();
    assert_eq!(sizes, [0, 8]);
    for set in &sets {
        let hash = set.labels().get("pod-template-hash").unwrap();
        assert_eq!(set.name(), format!("web-{hash}"));
    }
    // DP-6
    let done =
        cluster.until::<Deployment>("web", |one| reason_of(one, "Progressing") == "NewReplicaSetAvailable").await;
    assert_eq!(reason_of(&done, "Available"), "MinimumReplicasAvailable");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_rollback_becomes_the_newest_revision() {
    // DP-2
    let cluster = Cluster::with_nodes(1).await;
    cluster.create(&deployment("web", 2)).await;
    cluster.until::<Deployment>("web", is_rolled_out).await;
    cluster.patch::<Deployment>("web", &image("two:2")).await;
    cluster.until::<Deployment>("web", is_rolled_out).await;
    cluster.patch::<Deployment>("web", &image("one:1")).await;
    let back = cluster.until::<Deployment>("web", is_rolled_out).await;
    assert_eq!(back.annotations().get(REVISION), Some("3"));
    let sets: Vec<ReplicaSet> = cluster.list().await;
    let mut histories: Vec<_> = sets
        .iter()
        .map(|set| {
            (set.annotations().get(REVISION), set.annotations().get("deployment.kubernetes.io/revision-history"))
        })
        .collect();
    histories.sort();
    assert_eq!(histories, [(Some("2"), None), (Some("3"), Some("1"))]);
    // DP-1: as requested by clients of the oldest API version.
    cluster
        .patch::<Deployment>("web", r#"{"metadata":{"annotations":{"deprecated.deployment.rollback.to":"2"}}}"#)
        .await;
    let is_two = |one: &Deployment| {
        one.spec.as_ref().unwrap().template.spec.as_ref().unwrap().containers[0].image.as_deref() == Some("two:2")
    };
    let back = cluster.until::<Deployment>("web", |one| is_two(one) && is_rolled_out(one)).await;
    assert!(back.annotations().get("deprecated.deployment.rollback.to").is_none());
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_hash_that_is_taken_is_avoided() {
    // DP-2
    let cluster = Cluster::with_nodes(1).await;
    cluster.create(&deployment("web", 1)).await;
    cluster.until::<Deployment>("web", is_rolled_out).await;
    let name = cluster.list::<ReplicaSet>().await[0].name().to_owned();
    cluster.api::<Deployment>().delete("web").await.unwrap();
    while !cluster.list::<ReplicaSet>().await.is_empty() {
        sleep(Duration::from_millis(100)).await;
    }
    // A set of another owner with the name that the deployment would use.
    let mut other = replica_set("other", 0);
    other.metadata.name = Some(name.as_str().into());
    cluster.create(&other).await;
    cluster.create(&deployment("web", 1)).await;
    let web = cluster.until::<Deployment>("web", is_rolled_out).await;
    assert_eq!(web.status.unwrap().collision_count, Some(1));
    let own =
        cluster.list::<ReplicaSet>().await.into_iter().find(|set| set.labels().get("app") == Some("web")).unwrap();
    assert_ne!(own.name(), name);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn recreation_stops_all_old_pods_first() {
    // DP-1
    let cluster = Cluster::new(NodeOptions::default().stop_delay(Duration::from_secs(5))).await;
    let mut web = deployment("web", 3);
    web.spec.as_mut().unwrap().strategy.get_or_insert_default().type_ = Some("Recreate".into());
    cluster.create(&web).await;
    cluster.until::<Deployment>("web", is_rolled_out).await;
    cluster.patch::<Deployment>("web", &image("two:2")).await;
    loop {
        let pods: Vec<Pod> = cluster.list().await;
        let images: std::collections::BTreeSet<_> =
            pods.iter().map(|pod| pod.spec.as_ref().unwrap().containers[0].image.clone()).collect();
        assert!(images.len() <= 1, "{images:?}");
        if images.first().is_some_and(|image| image.as_deref() == Some("two:2")) {
            break;
        }
        sleep(Duration::from_millis(20)).await;
    }
    cluster.until::<Deployment>("web", is_rolled_out).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_deployment_is_scaled_but_not_rolled_on() {
    // DP-1, DP-5
    let cluster = Cluster::with_nodes(1).await;
    cluster.create(&deployment("web", 2)).await;
    cluster.until::<Deployment>("web", is_rolled_out).await;
    cluster.patch::<Deployment>("web", r#"{"spec":{"paused":true}}"#).await;
    cluster.patch::<Deployment>("web", &image("two:2")).await;
    cluster.patch::<Deployment>("web", r#"{"spec":{"replicas":4}}"#).await;
    let paused = cluster
        .until::<Deployment>("web", |one| {
            one.status.as_ref().unwrap().available_replicas == Some(4)
                && reason_of(one, "Progressing") == "DeploymentPaused"
        })
        .await;
    assert_eq!(paused.status.as_ref().unwrap().updated_replicas, None);
    assert_eq!(cluster.list::<ReplicaSet>().await.len(), 1);
    cluster.patch::<Deployment>("web", r#"{"spec":{"paused":false}}"#).await;
    cluster.until::<Deployment>("web", is_rolled_out).await;
    assert_eq!(cluster.list::<ReplicaSet>().await.len(), 2);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_stalled_rollout_is_reported_after_its_progress_deadline() {
    // DP-6
    let cluster = Cluster::with_nodes(0).await;
    let mut web = deployment("web", 1);
    web.spec.as_mut().unwrap().progress_deadline_seconds = Some(30);
    cluster.create(&web).await;
    sleep(Duration::from_secs(20)).await;
    assert_eq!(reason_of(&cluster.get("web").await, "Progressing"), "ReplicaSetUpdated");
    sleep(Duration::from_secs(20)).await;
    let stuck: Deployment = cluster.get("web").await;
    assert_eq!(reason_of(&stuck, "Progressing"), "ProgressDeadlineExceeded");
    assert_eq!(reason_of(&stuck, "Available"), "MinimumReplicasUnavailable");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn old_revisions_are_removed_beyond_the_limit() {
    // DP-6
    let cluster = Cluster::with_nodes(1).await;
    let mut web = deployment("web", 1);
    web.spec.as_mut().unwrap().revision_history_limit = Some(2);
    cluster.create(&web).await;
    for version in 2..7 {
        cluster.until::<Deployment>("web", is_rolled_out).await;
        cluster.patch::<Deployment>("web", &image(&format!("one:{version}"))).await;
    }
    cluster.until::<Deployment>("web", is_rolled_out).await;
    sleep(Duration::from_secs(5)).await;
    let mut revisions: Vec<_> = cluster
        .list::<ReplicaSet>()
        .await
        .iter()
        .map(|set| set.annotations().get(REVISION).unwrap().to_owned())
        .collect();
    revisions.sort();
    assert_eq!(revisions, ["4", "5", "6"]);
    cluster.stop().await;
}

#[tokio::test]
async fn a_hundred_deployments_of_five_pods_converge() {
    let cluster = Cluster::new(NodeOptions::default().start_delay(Duration::ZERO).ready_delay(Duration::ZERO)).await;
    for number in 0..100 {
        cluster.create(&deployment(&format!("web-{number}"), 5)).await;
    }
    for number in 0..100 {
        cluster.until::<Deployment>(&format!("web-{number}"), is_rolled_out).await;
    }
    assert_eq!(cluster.pods().await.len(), 500);
    cluster.stop().await;
}
