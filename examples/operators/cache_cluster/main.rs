//! Runs cache clusters, with backups on a schedule and on request.
//!
//! `cargo run -p kubewright-examples --example cache_cluster`
//!
//! A `CacheCluster` owns a ConfigMap, a Service, a StatefulSet, and a CronJob for its backups. With
//! server-side apply, repeated reconciles change nothing, and fields that others set stay. `kubectl
//! scale` works, through the scale subresource, and so does `kubectl create job
//! --from=cronjob/NAME-backup`. No finalizer is needed: the garbage collector deletes everything.

use std::sync::Arc;

use kubewright::api::apps::v1::{StatefulSet, StatefulSetApply};
use kubewright::api::batch::v1::{CronJob, CronJobApply};
use kubewright::api::core::v1::{
    ConfigMap, ConfigMapApply, ContainerApply, ContainerPortApply, Service, ServiceApply, ServicePortApply,
    VolumeApply, VolumeMountApply,
};
use kubewright::cache::FactoryOptions;
use kubewright::condition::set_status_condition;
use kubewright::meta::v1::Condition;
use kubewright::options::ApplyOptions;
use kubewright::runtime::custom::{self, CustomResource};
use kubewright::runtime::events::{EventApi, EventRecorder};
use kubewright::runtime::{BoxError, Context, Manager, ManagerOptions, Outcome, Predicate, shutdown_on_signals};
use kubewright::{Client, Object, Selector, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The field manager, and the label of owned objects. The caches hold no others.
const MANAGER: &str = "cache-operator";
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
const INSTANCE: &str = "app.kubernetes.io/instance";

/// A cluster of cache servers.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Debug, Clone)]
#[resource(group = "cache.example.com", version = "v1", kind = "CacheCluster", namespaced, status = CacheClusterStatus)]
#[resource(scale(spec = ".spec.replicas", status = ".status.replicas", selector = ".status.selector"))]
#[resource(column(name = "Ready", type = "integer", path = ".status.readyReplicas"))]
#[resource(column(name = "Last backup", type = "date", path = ".status.lastBackup"))]
#[serde(rename_all = "camelCase")]
pub struct CacheClusterSpec {
    /// The image of the servers, which also has the backup tool.
    pub image: String,
    /// The number of servers.
    #[schemars(range(min = 0, max = 100))]
    pub replicas: i32,
    /// The memory limit of a server, such as `64mb`. A change restarts the servers.
    pub max_memory: String,
    /// When backups are made, in cron syntax. Never by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup_schedule: Option<String>,
}

/// The observed state.
#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct CacheClusterStatus {
    /// The number of existing servers.
    pub replicas: i32,
    /// The number of ready servers.
    pub ready_replicas: i32,
    /// The label selector of the servers, for autoscalers.
    pub selector: String,
    /// When the last successful backup ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_backup: Option<Time>,
    /// The condition `Ready`.
    #[schemars(transform = custom::list_map(["type"]))]
    pub conditions: Vec<Condition>,
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let shutdown = shutdown_on_signals();
    Ok(manager(&Client::try_default().await?)?.run(&shutdown).await?)
}

/// The operator.
pub fn manager(client: &Client) -> Result<Manager, BoxError> {
    let caches = FactoryOptions::default()
        .labels(format!("{MANAGED_BY}={MANAGER}").parse()?)
        .labels_of::<CacheCluster>(Selector::everything());
    let mut manager = Manager::new(client, ManagerOptions::default().caches(caches));
    manager.elect_by_lease(MANAGER)?;
    let events = manager.recorder(MANAGER, EventApi::Events);
    let controller = manager.controller::<CacheCluster>("cache-clusters").filter(Predicate::generation_changed());
    let controller = controller.owns::<ConfigMap>().owns::<Service>().owns::<StatefulSet>().owns::<CronJob>();
    manager.add(controller.reconciling_with(events, reconcile))?;
    Ok(manager)
}

async fn reconcile(
    cluster: Arc<CacheCluster>,
    context: Context,
    events: Arc<EventRecorder>,
) -> Result<Outcome, BoxError> {
    if cluster.is_being_deleted() {
        return Ok(Outcome::Done);
    }
    let mut changed = (*cluster).clone();
    let status = changed.status.get_or_insert_default();
    let ensured = ensure(&cluster, status, &context).await;
    let (ready, wanted) = (status.ready_replicas, cluster.spec.replicas);
    let (is_ready, reason, message) = match &ensured {
        Ok(true) if ready == wanted => (true, "Ready", format!("{ready} servers are ready")),
        Ok(_) => (false, "Progressing", format!("{ready} of {wanted} servers are ready")),
        Err(error) => (false, "Failed", error.to_string()),
    };
    let condition = Condition::new("Ready", is_ready, reason, message.as_str()).observing(&*cluster);
    set_status_condition(&mut status.conditions, condition);
    if changed.status != cluster.status {
        context.api::<CacheCluster>(cluster.namespace()).update_status(&changed).await?;
        match ensured {
            Ok(_) => events.normal(&*cluster, reason, message),
            Err(_) => events.warning(&*cluster, reason, message),
        }
    }
    ensured.map(|_| Outcome::Done)
}

/// Applies the owned objects, and observes them. Returns whether the StatefulSet is up to date.
async fn ensure(cluster: &CacheCluster, status: &mut CacheClusterStatus, context: &Context) -> Result<bool, BoxError> {
    let (namespace, name, options) = (cluster.namespace(), cluster.name(), ApplyOptions::new(MANAGER).force());
    // An object of somebody else with one of these names is an error, and stays unchanged.
    context.api::<ConfigMap>(namespace).apply_controlled(cluster, &config(cluster), &options).await?;
    context.api::<Service>(namespace).apply_controlled(cluster, &service(cluster), &options).await?;
    let set = context.api::<StatefulSet>(namespace);
    let set = set.apply_controlled(cluster, &stateful_set(cluster), &options).await?;

    let cron_jobs = context.api::<CronJob>(namespace);
    if let Some(schedule) = &cluster.spec.backup_schedule {
        let cron_job = cron_jobs.apply_controlled(cluster, &backups(cluster, schedule), &options).await?;
        status.last_backup = cron_job.status.and_then(|status| status.last_successful_time);
    } else {
        cron_jobs.delete_controlled_by(cluster, &format!("{name}-backup")).await?;
    }
    status.selector = format!("{MANAGED_BY}={MANAGER},{INSTANCE}={name}");
    let observed = set.status.unwrap_or_default();
    status.replicas = observed.replicas;
    status.ready_replicas = observed.ready_replicas.unwrap_or_default();
    Ok(observed.observed_generation >= set.metadata.generation)
}

fn labels(cluster: &CacheCluster) -> [(&str, &str); 2] {
    [(MANAGED_BY, MANAGER), (INSTANCE, cluster.name())]
}

fn config(cluster: &CacheCluster) -> ConfigMapApply {
    let text = format!("maxmemory {}\nmaxmemory-policy allkeys-lru\n", cluster.spec.max_memory);
    ConfigMapApply::new(cluster.name()).labels(labels(cluster)).data([("cache.conf", text)])
}

fn service(cluster: &CacheCluster) -> ServiceApply {
    ServiceApply::new(cluster.name()).labels(labels(cluster)).spec(|spec| {
        let port = ServicePortApply::default().name("cache").port(6379);
        spec.cluster_ip("None").selector(labels(cluster)).ports([port])
    })
}

fn stateful_set(cluster: &CacheCluster) -> StatefulSetApply {
    let server = ContainerApply::default()
        .name("server")
        .image(cluster.spec.image.as_str())
        .args(["/etc/cache/cache.conf"])
        .ports([ContainerPortApply::default().name("cache").container_port(6379)])
        .volume_mounts([VolumeMountApply::default().name("config").mount_path("/etc/cache")]);
    let config = VolumeApply::default().name("config").config_map(|map| map.name(cluster.name()));
    StatefulSetApply::new(cluster.name()).labels(labels(cluster)).spec(|spec| {
        spec.replicas(cluster.spec.replicas)
            .service_name(cluster.name())
            .selector(|selector| selector.match_labels(labels(cluster)))
            .template(|pod| {
                let max_memory = [("cache.example.com/max-memory", cluster.spec.max_memory.as_str())];
                pod.metadata(|meta| meta.labels(labels(cluster)).annotations(max_memory))
                    .spec(|spec| spec.containers([server]).volumes([config]))
            })
    })
}

fn backups(cluster: &CacheCluster, schedule: &str) -> CronJobApply {
    let backup = ContainerApply::default().name("backup").image(cluster.spec.image.as_str()).command([
        "cache-backup",
        "--host",
        cluster.name(),
    ]);
    CronJobApply::new(format!("{}-backup", cluster.name())).labels(labels(cluster)).spec(|spec| {
        spec.schedule(schedule).concurrency_policy("Forbid").job_template(|job| {
            job.spec(|spec| spec.template(|pod| pod.spec(|spec| spec.restart_policy("Never").containers([backup]))))
        })
    })
}

#[cfg(test)]
mod tests;
