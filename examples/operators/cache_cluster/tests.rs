//! The operator with the controllers of a cluster, which run its pods on simulated nodes.

use std::time::Duration;

use kubewright::api::apps::v1::StatefulSet;
use kubewright::api::batch::v1::CronJob;
use kubewright::api::core::v1::{ConfigMap, Service};
use kubewright::controllers::{ControllerSet, NodeOptions, RunningControllers};
use kubewright::options::{ApplyOptions, Patch};
use kubewright::runtime::custom::CustomResource;
use kubewright::runtime::ownership::is_controlled_by;
use kubewright::runtime::testing::{RunningManager, TestCluster};
use kubewright::{Api, Object, condition, json};

use super::{CacheCluster, CacheClusterSpec, manager};
use crate::support::{Audit, assert_written, cluster, operator};

const RBAC: &str = include_str!("rbac.yaml");
const CRD: &str = include_str!("crd.yaml");

struct Fixture {
    cluster: TestCluster,
    caches: Api<CacheCluster>,
    running: RunningManager,
    audit: Audit,
    controllers: RunningControllers,
}

async fn start() -> Fixture {
    let cluster = cluster(&[RBAC, CRD]).await.patience(Duration::from_secs(600));
    let controllers = ControllerSet::new(&cluster.client()).nodes(NodeOptions::default().count(3)).start();
    let (client, audit) = operator(&cluster, "cache-operator");
    let running = cluster.run(manager(&client).expect("valid options"));
    let caches = Api::namespaced(&cluster.client(), "default");
    Fixture { cluster, caches, running, audit, controllers }
}

fn sessions() -> CacheCluster {
    let spec = CacheClusterSpec {
        image: "example.com/cache:1".to_owned(),
        replicas: 2,
        max_memory: "64mb".to_owned(),
        backup_schedule: None,
    };
    CacheCluster::new("sessions", spec)
}

fn is_ready(replicas: i32) -> impl Fn(&CacheCluster) -> bool {
    move |cluster| {
        cluster
            .status
            .as_ref()
            .is_some_and(|status| status.ready_replicas == replicas && condition::is_true(&status.conditions, "Ready"))
    }
}

#[test]
fn the_manifest_is_the_definition_of_the_type() {
    assert_written("cache_cluster/crd.yaml", CRD, &CacheCluster::definition());
}

#[tokio::test(start_paused = true)]
async fn a_cluster_runs_scales_backs_up_and_ends_with_exactly_these_permissions() {
    let Fixture { cluster, caches, running, audit, controllers: _controllers } = start().await;
    caches.create(&sessions()).await.expect("it is valid");
    let sessions = cluster.eventually("default", "sessions", is_ready(2)).await;
    let service: Service = cluster.eventually("default", "sessions", |_| true).await;
    assert!(is_controlled_by(&service, &sessions));

    // As `kubectl scale` and autoscalers do.
    caches.apply_scale("sessions", 3, &ApplyOptions::new("scaler").force()).await.expect("it has a scale");
    cluster.eventually("default", "sessions", is_ready(3)).await;

    let schedule = |schedule: Option<&str>| Patch::merge(json!({"spec": {"backupSchedule": schedule}}));
    caches.patch("sessions", schedule(Some("*/5 * * * *"))).await.expect("it is valid");
    let has_backup =
        |cluster: &CacheCluster| cluster.status.as_ref().is_some_and(|status| status.last_backup.is_some());
    cluster.eventually("default", "sessions", has_backup).await;
    caches.patch("sessions", schedule(None)).await.expect("it is valid");
    cluster.eventually_gone::<CronJob>("default", "sessions-backup").await;

    // A change of the configuration restarts the servers.
    let more = Patch::merge(json!({"spec": {"maxMemory": "128mb"}}));
    let before =
        Api::<StatefulSet>::namespaced(&cluster.client(), "default").get("sessions").await.expect("it is there");
    let before = before.status.expect("a status").current_revision;
    caches.patch("sessions", more).await.expect("it is valid");
    let is_updated = |set: &StatefulSet| set.status.as_ref().is_some_and(|status| status.current_revision != before);
    cluster.eventually("default", "sessions", is_updated).await;
    cluster.eventually("default", "sessions", is_ready(3)).await;

    caches.delete("sessions").await.expect("it is there");
    cluster.eventually_gone::<StatefulSet>("default", "sessions").await;
    cluster.eventually_gone::<ConfigMap>("default", "sessions").await;
    running.stop().await.expect("it stops in order");
    audit.assert_exact(RBAC);
}

#[tokio::test(start_paused = true)]
async fn a_service_of_somebody_else_is_kept_and_reported() {
    let Fixture { cluster, caches, running, controllers: _controllers, .. } = start().await;
    let services = Api::<Service>::namespaced(&cluster.client(), "default");
    let mut foreign = Service::default();
    foreign.set_name("sessions");
    foreign.spec.get_or_insert_default().ports =
        [kubewright::api::core::v1::ServicePort { port: 80, ..Default::default() }].into();
    let foreign = services.create(&foreign).await.expect("it is valid");
    caches.create(&sessions()).await.expect("it is valid");
    let is_reported = |cluster: &CacheCluster| {
        let conditions = cluster.status.as_ref().map(|status| &status.conditions[..]).unwrap_or_default();
        condition::find(conditions, "Ready").is_some_and(|ready| ready.reason == "Failed")
    };
    cluster.eventually("default", "sessions", is_reported).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(services.get("sessions").await.expect("it is there"), foreign);

    // Back-off ends soon after the name is free.
    services.delete("sessions").await.expect("it is there");
    cluster.eventually("default", "sessions", is_ready(2)).await;
    running.stop().await.expect("it stops in order");
}

#[tokio::test(start_paused = true)]
async fn changes_of_others_stay_unless_they_contradict() {
    let Fixture { cluster, caches, running, controllers: _controllers, .. } = start().await;
    caches.create(&sessions()).await.expect("it is valid");
    cluster.eventually("default", "sessions", is_ready(2)).await;
    let sets = Api::<StatefulSet>::namespaced(&cluster.client(), "default");
    let patch = json!({"metadata": {"annotations": {"example.com/team": "web"}}, "spec": {"replicas": 7}});
    sets.patch("sessions", Patch::merge(patch)).await.expect("it is valid");
    let is_repaired = |set: &StatefulSet| set.spec.as_ref().is_some_and(|spec| spec.replicas == Some(2));
    let set = cluster.eventually("default", "sessions", is_repaired).await;
    assert_eq!(set.annotations().get("example.com/team"), Some("web"));
    running.until_idle().await;
    let version = sets.get("sessions").await.expect("it is there").metadata.generation;
    // Reconciles that change nothing write nothing.
    running.controller("cache-clusters").expect("its name").request(set.key(), "test");
    running.until_idle().await;
    assert_eq!(sets.get("sessions").await.expect("it is there").metadata.generation, version);
    running.stop().await.expect("it stops in order");
}
