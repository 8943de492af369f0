//! Stateful sets.

use kubewright_api::apps::v1::{ControllerRevision, StatefulSet, StatefulSetSpec};
use kubewright_api::core::v1::{PersistentVolumeClaim, Pod, ResourceQuota};
use kubewright_apiserver::Fault;
use kubewright_core::meta::v1::LabelSelector;
use kubewright_core::options::{DeleteOptions, PropagationPolicy};
use kubewright_core::owner::controller_of;
use kubewright_core::{Object, Str};

use crate::support::{Cluster, labels, template};

fn stateful_set(name: &str, replicas: i32) -> StatefulSet {
    let mut set = StatefulSet::default();
    set.metadata.name = Some(name.into());
    let mut claim = PersistentVolumeClaim::default();
    claim.metadata.name = Some("data".into());
    let spec = claim.spec.get_or_insert_default();
    spec.access_modes = ["ReadWriteOnce".into()].into();
    let resources = spec.resources.get_or_insert_default();
    resources.requests.insert("storage", "1Gi".parse().unwrap());
    set.spec = Some(StatefulSetSpec {
        replicas: Some(replicas),
        selector: LabelSelector { match_labels: labels(name), ..Default::default() },
        template: template(name, "one:1"),
        service_name: Some("peers".into()),
        volume_claim_templates: [claim].into(),
        ..Default::default()
    });
    set
}

/// Whether a set has this many ready pods of its last revision, and its status says so.
fn is_rolled_out(set: &StatefulSet, count: i32) -> bool {
    let Some(status) = &set.status else { return false };
    status.observed_generation == set.metadata.generation
        && status.replicas == count
        && status.ready_replicas.unwrap_or_default() == count
        && status.updated_replicas.unwrap_or_default() == count
        && status.current_revision == status.update_revision
}

fn names<T: Object>(objects: &[T]) -> Vec<&str> {
    objects.iter().map(Object::name).collect()
}

fn images(pods: &[Pod]) -> Vec<Str> {
    pods.iter().map(|pod| pod.spec.as_ref().unwrap().containers[0].image.clone().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn pods_start_in_order_and_stop_in_reverse() {
    let cluster = Cluster::with_nodes(2).await;
    cluster.create(&stateful_set("db", 3)).await;
    let mut most = 0;
    while !is_rolled_out(&cluster.get("db").await, 3) {
        let pods = cluster.pods().await;
        let waiting = pods.iter().filter(|pod| !is_ready(pod)).count();
        assert!(waiting <= 1, "one after the other: {:?}", names(&pods));
        most = most.max(pods.len());
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_eq!(most, 3);
    let pods = cluster.pods().await;
    assert_eq!(names(&pods), ["db-0", "db-1", "db-2"]);
    let last = &pods[2];
    let spec = last.spec.as_ref().unwrap();
    assert_eq!((spec.hostname.as_deref(), spec.subdomain.as_deref()), (Some("db-2"), Some("peers")));
    let (name, index) = ("statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index");
    assert_eq!((last.labels().get(name), last.labels().get(index)), (Some("db-2"), Some("2")));
    assert_eq!(spec.volumes[0].persistent_volume_claim.as_ref().unwrap().claim_name, "data-db-2");
    let claims: Vec<PersistentVolumeClaim> = cluster.list().await;
    assert_eq!(names(&claims), ["data-db-0", "data-db-1", "data-db-2"]);
    assert_eq!(claims[0].labels().get("app"), Some("db"));

    // A deleted pod is created again under its name, with the same storage.
    cluster.api::<Pod>().delete("db-1").await.unwrap();
    cluster.until::<Pod>("db-1", |pod| pod.uid() != pods[1].uid() && is_ready(pod)).await;
    cluster.patch::<StatefulSet>("db", r#"{"spec":{"replicas":1}}"#).await;
    cluster.until::<StatefulSet>("db", |set| is_rolled_out(set, 1)).await;
    assert_eq!(names(&cluster.pods().await), ["db-0"]);
    let kept: Vec<PersistentVolumeClaim> = cluster.list().await;
    assert_eq!(kept.len(), 3, "storage outlives its pod");
    cluster.stop().await;
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_template_rolls_down_to_the_partition_and_back() {
    let cluster = Cluster::with_nodes(2).await;
    cluster.create(&stateful_set("db", 3)).await;
    let first = cluster.until::<StatefulSet>("db", |set| is_rolled_out(set, 3)).await;
    let revision = |set: &StatefulSet| set.status.as_ref().unwrap().update_revision.clone().unwrap();
    let change = r#"{"spec":{"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":2}},
        "template":{"spec":{"containers":[{"name":"main","image":"two:2"}]}}}}"#;
    cluster.patch::<StatefulSet>("db", change).await;
    let held = |set: &StatefulSet| {
        let status = set.status.as_ref().unwrap();
        status.updated_replicas == Some(1) && status.ready_replicas == Some(3) && status.current_replicas == Some(2)
    };
    let set = cluster.until::<StatefulSet>("db", held).await;
    assert_eq!(set.status.as_ref().unwrap().current_revision, Some(revision(&first)));
    assert_eq!(images(&cluster.pods().await), ["one:1", "one:1", "two:2"]);
    // A pod below the partition is recreated in the old revision.
    let uid = cluster.get::<Pod>("db-0").await.uid().to_owned();
    cluster.api::<Pod>().delete("db-0").await.unwrap();
    cluster.until::<Pod>("db-0", |pod| pod.uid() != uid && is_ready(pod)).await;
    assert_eq!(images(&cluster.pods().await), ["one:1", "one:1", "two:2"]);

    let all = r#"{"spec":{"updateStrategy":{"rollingUpdate":{"partition":0}}}}"#;
    cluster.patch::<StatefulSet>("db", all).await;
    cluster.until::<StatefulSet>("db", |set| is_rolled_out(set, 3) && revision(set) != revision(&first)).await;
    assert_eq!(images(&cluster.pods().await), ["two:2"; 3]);
    let back = r#"{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"one:1"}]}}}}"#;
    cluster.patch::<StatefulSet>("db", back).await;
    cluster.until::<StatefulSet>("db", |set| is_rolled_out(set, 3) && revision(set) == revision(&first)).await;
    assert_eq!(images(&cluster.pods().await), ["one:1"; 3]);
    let revisions: Vec<ControllerRevision> = cluster.list().await;
    let mut numbers: Vec<_> = revisions.iter().map(|revision| revision.revision).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [2, 3], "the first revision has become the last");
    assert!(revisions.iter().all(|revision| controller_of(&revision.metadata).is_some()));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn claims_are_deleted_with_the_set_or_on_scale_down_by_policy() {
    let cluster = Cluster::with_nodes(1).await;
    let mut set = stateful_set("db", 3);
    let spec = set.spec.as_mut().unwrap();
    spec.pod_management_policy = Some("Parallel".into());
    let policy = spec.persistent_volume_claim_retention_policy.get_or_insert_default();
    (policy.when_deleted, policy.when_scaled) = (Some("Delete".into()), Some("Delete".into()));
    cluster.create(&set).await;
    cluster.until::<StatefulSet>("db", |set| is_rolled_out(set, 3)).await;
    cluster.patch::<StatefulSet>("db", r#"{"spec":{"replicas":1}}"#).await;
    cluster.until::<StatefulSet>("db", |set| is_rolled_out(set, 1)).await;
    while cluster.list::<PersistentVolumeClaim>().await.len() > 1 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    // The new pod has new storage.
    cluster.patch::<StatefulSet>("db", r#"{"spec":{"replicas":2}}"#).await;
    cluster.until::<StatefulSet>("db", |set| is_rolled_out(set, 2)).await;
    assert_eq!(names(&cluster.list::<PersistentVolumeClaim>().await), ["data-db-0", "data-db-1"]);
    cluster.api::<StatefulSet>().delete("db").await.unwrap();
    while !cluster.list::<PersistentVolumeClaim>().await.is_empty() || !cluster.list::<Pod>().await.is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_that_fit_are_adopted_and_history_is_trimmed() {
    let cluster = Cluster::with_nodes(1).await;
    for (name, app) in [("db-0", "db"), ("stranger", "db"), ("db-1", "other")] {
        let mut pod = Pod { spec: template("db", "zero:0").spec, ..Default::default() };
        pod.metadata.name = Some(name.into());
        pod.metadata.labels = labels(app);
        cluster.create(&pod).await;
    }
    let mut set = stateful_set("db", 1);
    set.spec.as_mut().unwrap().revision_history_limit = Some(1);
    cluster.create(&set).await;
    // Its revision is unknown, so it is replaced; the others do not belong to the set.
    cluster.until::<StatefulSet>("db", |set| is_rolled_out(set, 1)).await;
    cluster.until::<Pod>("db-0", |pod| images(std::slice::from_ref(pod)) == ["one:1"]).await;
    assert!(controller_of(&cluster.get::<Pod>("stranger").await.metadata).is_none());
    assert!(controller_of(&cluster.get::<Pod>("db-1").await.metadata).is_none());
    for number in 2..6 {
        let image = format!(
            r#"{{"spec":{{"template":{{"spec":{{"containers":[{{"name":"main","image":"n:{number}"}}]}}}}}}}}"#
        );
        cluster.patch::<StatefulSet>("db", &image).await;
        let image = format!("n:{number}");
        cluster.until::<Pod>("db-0", |pod| images(std::slice::from_ref(pod)) == [image.as_str()]).await;
        cluster.until::<StatefulSet>("db", |set| is_rolled_out(set, 1)).await;
    }
    while cluster.list::<ControllerRevision>().await.len() > 2 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_with_claims_run_while_others_wait_for_storage() {
    let cluster = Cluster::with_nodes(1).await;
    let mut quota = ResourceQuota::default();
    quota.metadata.name = Some("few".into());
    quota.spec.get_or_insert_default().hard.insert("persistentvolumeclaims", "2".parse().unwrap());
    cluster.create(&quota).await;
    cluster.until::<ResourceQuota>("few", |quota| quota.status.is_some()).await;
    let mut set = stateful_set("db", 4);
    set.spec.as_mut().unwrap().pod_management_policy = Some("Parallel".into());
    cluster.create(&set).await;
    let pods = cluster.until_pods(|pods| pods.len() == 2 && pods.iter().all(is_ready)).await;
    assert_eq!(names(&pods), ["db-0", "db-1"]);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_terminating_set_takes_no_action() {
    let cluster = Cluster::with_nodes(1).await;
    cluster.create(&stateful_set("db", 1)).await;
    cluster.until::<StatefulSet>("db", |set| is_rolled_out(set, 1)).await;
    cluster.patch::<Pod>("db-0", r#"{"metadata":{"finalizers":["example.com/held"]}}"#).await;
    let options = DeleteOptions::default().propagation(PropagationPolicy::Foreground);
    cluster.api::<StatefulSet>().delete_with("db", &options).await.unwrap();
    let reconciles = || cluster.activity().iter().find(|one| one.name == "statefulset").unwrap().reconciles;
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    let before = reconciles();
    tokio::time::sleep(std::time::Duration::from_secs(600)).await;
    assert!(reconciles() - before <= 3, "{} more", reconciles() - before);
    cluster.patch::<Pod>("db-0", r#"{"metadata":{"finalizers":null}}"#).await;
    while !cluster.list::<StatefulSet>().await.is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert!(cluster.list::<ControllerRevision>().await.is_empty());
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pod_events_equal_those_of_the_stateful_set_controller() {
    let cluster = Cluster::with_nodes(1).await;
    let mut orphan = Pod { spec: template("db", "zero:0").spec, ..Default::default() };
    orphan.metadata.name = Some("db-0".into());
    orphan.metadata.labels = labels("db");
    cluster.create(&orphan).await;
    cluster.faults().inject(Fault::answer(403).verb("create").resource("pods").times(1));
    cluster.create(&stateful_set("db", 1)).await;
    cluster.until::<StatefulSet>("db", |set| is_rolled_out(set, 1)).await;
    for (reason, told) in [
        ("SuccessfulUpdate", "update Pod db-0 in StatefulSet db successful"),
        ("SuccessfulDelete", "delete Pod db-0 in StatefulSet db successful"),
        ("FailedCreate", "create Pod db-0 in StatefulSet db failed error: "),
    ] {
        let message = cluster.until_told("StatefulSet", reason).await.message.unwrap_or_default();
        assert!(message.starts_with(told), "{message}");
    }
    let created = "create Pod db-0 in StatefulSet db successful";
    cluster.until_event(|event| event.message.as_deref() == Some(created)).await;
    cluster.stop().await;
}
