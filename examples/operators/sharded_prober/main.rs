//! Probes tens of thousands of endpoints, with the work divided between replicas.
//!
//! `cargo run -p kubewright-examples --example sharded_prober`
//!
//! A hash of its name puts each endpoint into a shard, and each shard has a lease. Its holder
//! probes the endpoints of the shard, under the rules of leader election: a replica that stops
//! finishes its probes before it releases its leases. One that dies or is cut off stops before its
//! leases expire, and others take them only afterwards. So no two replicas work on one endpoint at
//! the same time, and for the time in between none does.
//!
//! Each replica caches all endpoints. Where the server divides lists and watches by itself
//! (Kubernetes 1.36, feature gate `ShardedListAndWatch`), use the cache of `Sharding::informer`.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use kubewright::Client;
use kubewright::condition::{is_false, set_status_condition};
use kubewright::meta::v1::Condition;
use kubewright::runtime::custom::{self, CustomResource};
use kubewright::runtime::election::{LeaderElectionOptions, unique_identity};
use kubewright::runtime::events::{EventApi, EventRecorder};
use kubewright::runtime::{
    BoxError, Context, Manager, ManagerOptions, Outcome, Predicate, Sharding, shutdown_on_signals,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The number of shards, which all replicas must agree on. A few for each replica are enough.
const SHARDS: usize = 8;
/// The number of concurrent probes of a replica.
const PROBES: usize = 64;
/// An endpoint that does not answer in this time is down.
const PATIENCE: Duration = Duration::from_secs(5);

/// An endpoint that is probed.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Debug, Clone)]
#[resource(group = "probe.example.com", version = "v1", kind = "Endpoint", namespaced, status = EndpointStatus)]
#[resource(column(name = "Up", type = "string", path = ".status.conditions[?(@.type=='Up')].status"))]
#[serde(rename_all = "camelCase")]
pub struct EndpointSpec {
    /// Host and port.
    pub address: String,
    /// The time between two probes.
    #[schemars(range(min = 10))]
    pub interval_seconds: u32,
}

/// The result of the last probe. It is written only when it changes, and not while an endpoint has
/// always been up: 50,000 endpoints are 50,000 writes fewer.
#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct EndpointStatus {
    /// The condition `Up`.
    #[schemars(transform = custom::list_map(["type"]))]
    pub conditions: Vec<Condition>,
}

/// Whether an endpoint is up.
pub type Probe = Arc<dyn Fn(String) -> Pin<Box<dyn Future<Output = bool> + Send>> + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let shutdown = shutdown_on_signals();
    let probe: Probe = Arc::new(|address| {
        Box::pin(async move { timeout(PATIENCE, TcpStream::connect(address)).await.is_ok_and(|answer| answer.is_ok()) })
    });
    // Replicas need different identities. In a pod, its name is one.
    let identity = unique_identity();
    Ok(manager(&Client::try_default().await?, &identity, probe)?.run(&shutdown).await?)
}

/// One replica of the operator.
pub fn manager(client: &Client, identity: &str, probe: Probe) -> Result<Manager, BoxError> {
    let mut manager = Manager::new(client, ManagerOptions::default());
    let (namespace, options) = (client.default_namespace(), LeaderElectionOptions::default());
    let sharding = Sharding::new(client, namespace, "sharded-prober", identity, SHARDS, options)?;
    let controller = manager
        .controller::<Endpoint>("endpoints")
        // Otherwise a written status would lead to another probe.
        .filter(Predicate::generation_changed())
        .workers(PROBES);
    let events = manager.recorder("sharded-prober", EventApi::Events);
    manager.add(controller.reconciling_with((probe, events), reconcile))?;
    manager.share(&sharding);
    Ok(manager)
}

async fn reconcile(
    endpoint: Arc<Endpoint>,
    context: Context,
    state: Arc<(Probe, EventRecorder)>,
) -> Result<Outcome, BoxError> {
    let (probe, events) = &*state;
    let is_up = probe(endpoint.spec.address.clone()).await;
    let was_down = endpoint.status.as_ref().is_some_and(|status| is_false(&status.conditions, "Up"));
    if is_up == was_down {
        let (reason, message) =
            if is_up { ("Answered", "the endpoint is up") } else { ("NoAnswer", "the endpoint is down") };
        let mut changed = (*endpoint).clone();
        let condition = Condition::new("Up", is_up, reason, message).observing(&*endpoint);
        set_status_condition(&mut changed.status.get_or_insert_default().conditions, condition);
        context.api::<Endpoint>(context.key().namespace()).update_status(&changed).await?;
        if is_up {
            events.normal(&*endpoint, reason, message);
        } else {
            events.warning(&*endpoint, reason, message);
        }
    }
    Ok(Outcome::requeue_after(Duration::from_secs(endpoint.spec.interval_seconds.into())))
}

#[cfg(test)]
mod tests;
