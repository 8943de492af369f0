//! Terminating owners and namespaces that the caches do not show yet.

use std::time::Duration;

use kubewright_api::apps::v1::ReplicaSet;
use kubewright_api::core::v1::{ConfigMap, Event, Namespace, Pod};
use kubewright_apiserver::Fault;
use kubewright_client::Api;
use kubewright_core::options::{DeleteOptions, ListOptions, PropagationPolicy, WatchOptions};
use kubewright_core::owner::controller_of;
use kubewright_core::stream::WatchEvent;
use kubewright_core::{Kind, Namespaced, Object};
use tokio::time::{sleep, timeout};

use crate::support::{Cluster, deployment, has_ready, replica_set};

const HELD: &str = "example.com/held";

/// Duration of a delayed request for replica sets.
const BLIND: Duration = Duration::from_secs(2000);

/// Freezes the cache of replica sets for this long and until the faults are removed.
async fn stop_watching_sets(cluster: &Cluster) {
    for verb in ["watch", "list"] {
        cluster.faults().inject(Fault::delay(BLIND).verb(verb).resource("replicasets"));
    }
    cluster.faults().cut_watches();
    sleep(Duration::from_secs(5)).await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_set_adopts_and_creates_no_pods() {
    // RS-4
    let cluster = Cluster::with_nodes(1).await;
    let first = cluster.create(&replica_set("web", 1)).await;
    cluster.until::<ReplicaSet>("web", |set| has_ready(set, 1)).await;
    stop_watching_sets(&cluster).await;
    let orphaning = DeleteOptions::default().propagation(PropagationPolicy::Orphan);
    cluster.api::<ReplicaSet>().delete_with("web", &orphaning).await.unwrap();
    let orphaned = cluster.until_pods(|pods| pods.iter().all(|pod| pod.metadata.owner_references.is_empty())).await;
    sleep(Duration::from_secs(600)).await;
    let pods = cluster.pods().await;
    assert_eq!(pods.len(), 1);
    assert_eq!((pods[0].uid(), pods[0].metadata.owner_references.len()), (orphaned[0].uid(), 0));
    // The same with a recreated owner of the same name, which adopts the pod once the cache shows
    // it.
    let second = cluster.create(&replica_set("web", 1)).await;
    cluster.patch::<Pod>(pods[0].name(), r#"{"metadata":{"labels":{"touched":"yes"}}}"#).await;
    sleep(Duration::from_secs(600)).await;
    assert!(cluster.pods().await.iter().all(|pod| pod.metadata.owner_references.is_empty()));
    cluster.faults().clear();
    sleep(BLIND).await;
    let adopted = cluster.until::<Pod>(pods[0].name(), |pod| controller_of(&pod.metadata).is_some()).await;
    assert_eq!(controller_of(&adopted.metadata).map(|owner| owner.uid.clone()).as_deref(), Some(second.uid()));
    assert_ne!(first.uid(), second.uid());
    assert_eq!(cluster.pods().await.len(), 1);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_set_that_is_being_deleted_adopts_nothing() {
    // RS-4
    let cluster = Cluster::with_nodes(1).await;
    let mut set = replica_set("web", 0);
    set.metadata.finalizers = [HELD.into()].into();
    cluster.create(&set).await;
    cluster.until::<ReplicaSet>("web", |set| has_ready(set, 0)).await;
    stop_watching_sets(&cluster).await;
    cluster.api::<ReplicaSet>().delete("web").await.unwrap();
    assert!(cluster.get::<ReplicaSet>("web").await.is_being_deleted());
    let template = set.spec.as_ref().unwrap().template.clone().unwrap();
    let mut orphan = Pod { spec: template.spec.clone(), ..Default::default() };
    orphan.metadata.name = Some("orphan".into());
    orphan.metadata.labels = template.metadata.labels.clone();
    let orphan = cluster.create(&orphan).await;
    sleep(Duration::from_secs(600)).await;
    let pods = cluster.list::<Pod>().await;
    assert_eq!(pods.len(), 1);
    // Adopting it would exceed the replicas.
    assert_eq!((pods[0].uid(), pods[0].metadata.owner_references.len()), (orphan.uid(), 0));
    assert!(!pods[0].is_being_deleted());
    cluster.stop().await;
}

/// A namespace that stays terminating during the test.
async fn lasting_namespace(cluster: &Cluster) {
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some("going".into());
    Api::<Namespace>::all(&cluster.client).create(&namespace).await.unwrap();
    let mut held = ConfigMap::default();
    held.metadata.name = Some("held".into());
    held.metadata.finalizers = [HELD.into()].into();
    Api::<ConfigMap>::namespaced(&cluster.client, "going").create(&held).await.unwrap();
}

/// Creates an owner, and deletes the namespace during the first creation for it; returns the states
/// of the owner, and the events of the namespace.
async fn overtaken<T: Kind<Scope = Namespaced>>(cluster: &Cluster, owner: &T, creates: &str) -> (Vec<T>, Vec<Event>) {
    lasting_namespace(cluster).await;
    let minute = Duration::from_secs(60);
    cluster.faults().inject(Fault::delay(minute).verb("create").resource(creates).namespace("going"));
    let owners = Api::<T>::namespaced(&cluster.client, "going");
    let created = owners.create(owner).await.unwrap();
    let mut watch = owners.watch(&WatchOptions::default().resource_version(created.resource_version())).await.unwrap();
    sleep(minute / 2).await;
    Api::<Namespace>::all(&cluster.client).delete("going").await.unwrap();
    let mut changes = Vec::new();
    while let Ok(Some(event)) = timeout(minute * 10, watch.next()).await {
        match event.unwrap() {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => changes.push(object),
            _ => panic!("it stays, and so does the watch"),
        }
    }
    let events = Api::<Event>::namespaced(&cluster.client, "going");
    (changes, events.list(&ListOptions::default()).await.unwrap().items)
}

fn errors_of(cluster: &Cluster, controller: &str) -> u64 {
    let all = cluster.activity();
    all.iter().find(|one| one.name == controller).expect("it is running").errors
}

#[tokio::test(start_paused = true)]
async fn a_terminating_namespace_is_no_error_for_a_replica_set() {
    // RS-4
    let cluster = Cluster::with_nodes(1).await;
    let mut set = replica_set("web", 3);
    set.metadata.finalizers = [HELD.into()].into();
    let (changes, events) = overtaken(&cluster, &set, "pods").await;
    assert!(changes.last().is_some_and(|set| set.is_being_deleted() && set.status.is_some()), "{changes:?}");
    for status in changes.iter().filter_map(|set| set.status.as_ref()) {
        assert!(status.conditions.is_empty(), "{:?}", status.conditions);
    }
    assert!(events.iter().all(|event| event.reason.as_deref() != Some("FailedCreate")), "{events:?}");
    assert_eq!(errors_of(&cluster, "replicaset"), 0);
    assert!(
        Api::<Pod>::namespaced(&cluster.client, "going").list(&ListOptions::default()).await.unwrap().items.is_empty()
    );
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_terminating_namespace_is_no_error_for_a_deployment() {
    // DP-7
    let cluster = Cluster::with_nodes(1).await;
    let mut web = deployment("web", 3);
    web.metadata.finalizers = [HELD.into()].into();
    let (changes, events) = overtaken(&cluster, &web, "replicasets").await;
    assert!(changes.last().is_some_and(|web| web.is_being_deleted()), "{changes:?}");
    let conditions = changes.iter().filter_map(|web| web.status.as_ref()).flat_map(|status| status.conditions.iter());
    let reasons: Vec<_> = conditions.map(|condition| condition.reason.as_deref().unwrap_or_default()).collect();
    assert!(!reasons.contains(&"ReplicaSetCreateError"), "{reasons:?}");
    assert!(events.iter().all(|event| event.reason.as_deref() != Some("ReplicaSetCreateError")), "{events:?}");
    assert_eq!(errors_of(&cluster, "deployment"), 0);
    cluster.stop().await;
}
