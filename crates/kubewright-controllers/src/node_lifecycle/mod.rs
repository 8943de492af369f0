//! Health of nodes: taints for their conditions, and `Unknown` for nodes that are silent.
//!
//! A node is alive if it renews its Lease in `kube-node-lease`, or its status. After 50 s of
//! silence (60 s if it never wrote a status), its conditions become `Unknown` and its pods not
//! ready. The taints follow, and evict the pods that do not tolerate them (`nodes/eviction.rs`).
//! Differences from node-lifecycle-controller: NoExecute taints are not rate limited, and zones do
//! not count; while no node at all is ready, nothing is evicted.

mod health;
mod taints;

use std::sync::Arc;
use std::time::Duration;

use kubewright_api::coordination::v1::Lease;
use kubewright_api::core::v1::{Node, NodeCondition, Pod};
use kubewright_cache::{Event, Lister};
use kubewright_client::{Api, Client, clock};
use kubewright_core::{Object, ObjectKey, Selector, Time};
use kubewright_runtime::events::EventRecorder;
use tokio_util::sync::CancellationToken;

use crate::context::ControllerContext;
use crate::error::Error;
use crate::pods::{is_ready as is_pod_ready, node_name};
use crate::worker::{self, Reconcile, Synced, work};
use health::{Health, Heartbeat};
use taints::condition;

pub(crate) use taints::is_ready;

/// The namespace of the Leases of nodes.
pub(crate) const LEASES: &str = "kube-node-lease";
/// How often a node is checked.
const MONITOR_PERIOD: Duration = Duration::from_secs(5);
/// How long a node may be silent.
const GRACE_PERIOD: Duration = Duration::from_secs(50);
/// How long a new node may be silent.
const STARTUP_GRACE_PERIOD: Duration = Duration::from_secs(60);
/// The conditions that a kubelet writes.
const OF_KUBELET: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

struct NodeLifecycle {
    client: Client,
    nodes: Lister<Node>,
    leases: Lister<Lease>,
    pods: Lister<Pod>,
    events: EventRecorder,
    health: Health,
}

/// Watches the health of nodes until `stop` is cancelled.
///
/// # Errors
/// If the caches stop before they have synced.
#[doc(alias = "NodeLifecycleController")]
pub async fn run(context: &ControllerContext, stop: &CancellationToken) -> Result<(), Error> {
    let (client, factory) = (context.client(), context.factory());
    let queue = worker::queue(context, NodeLifecycle::NAME);
    let (nodes, pods, leases) = (factory.informer::<Node>(), factory.informer::<Pod>(), factory.informer::<Lease>());
    let of_nodes = nodes.add_handler({
        let queue = queue.clone();
        move |event: &Event<Node>| queue.add(event.key())
    })?;
    factory.start(stop);
    if of_nodes.synced().await && pods.synced().await && leases.synced().await {
        let controller = NodeLifecycle {
            client: client.clone(),
            nodes: nodes.lister(),
            leases: leases.lister(),
            pods: pods.lister(),
            events: context.recorder("node-controller"),
            health: Health::default(),
        };
        work(Arc::new(controller), &queue, context, stop).await;
    }
    of_nodes.remove();
    Ok(())
}

impl Reconcile for NodeLifecycle {
    const NAME: &'static str = "node-lifecycle";
    type Key = ObjectKey;

    async fn sync(&self, key: &ObjectKey) -> Synced {
        let Some(node) = self.nodes.get(key.name()) else {
            self.health.forget(key.name());
            return Ok(None);
        };
        if self.is_silent(&node)
            && let Some(changed) = unknown(&node, clock::now())
        {
            self.mark_unknown(&node, &changed).await?;
        } else {
            self.update_taints(&node).await?;
        }
        Ok(Some(MONITOR_PERIOD))
    }
}

impl NodeLifecycle {
    fn is_silent(&self, node: &Node) -> bool {
        let status = condition(node, "Ready").map(|ready| ready.last_heartbeat_time);
        let lease = self.leases.namespace(LEASES).get(node.name());
        let lease = lease.and_then(|lease| lease.spec.as_ref()?.renew_time);
        let grace = if status.is_some() { GRACE_PERIOD } else { STARTUP_GRACE_PERIOD };
        let heartbeat = Heartbeat { status: status.flatten(), lease };
        self.health.silence(node.name(), node.uid(), heartbeat) > grace
    }

    /// Writes the conditions of a silent node, and marks its pods.
    async fn mark_unknown(&self, node: &Node, changed: &Node) -> Result<(), Error> {
        match Api::<Node>::all(&self.client).update_status(changed).await {
            // Gone, or it has just written: its event comes.
            Err(error) if error.is_not_found() || error.is_conflict() => return Ok(()),
            Err(error) => return Err(error.into()),
            Ok(_) => {}
        }
        if is_ready(node) {
            let message = format!("Node {} status is now: NodeNotReady", node.name());
            self.events.normal(node, "NodeNotReady", message);
            self.mark_pods(node.name()).await?;
        }
        Ok(())
    }

    /// Makes the pods of a node not ready, so that they get no traffic.
    #[doc(alias = "MarkPodsNotReady")]
    async fn mark_pods(&self, node: &str) -> Result<(), Error> {
        let pods = self.pods.snapshot();
        for pod in pods.iter().filter(|pod| node_name(pod) == node && is_pod_ready(pod)) {
            let mut changed = (**pod).clone();
            for ready in changed.status.get_or_insert_default().conditions.iter_mut() {
                if ready.type_ == "Ready" {
                    ready.status = "False".into();
                    ready.last_transition_time = Some(clock::now());
                }
            }
            match Api::<Pod>::namespaced(&self.client, pod.namespace()).update_status(&changed).await {
                Err(error) if error.is_not_found() || error.is_conflict() => {}
                Err(error) => return Err(error.into()),
                Ok(_) => self.events.warning(&**pod, "NodeNotReady", "Node is not ready"),
            }
        }
        Ok(())
    }

    async fn update_taints(&self, node: &Node) -> Result<(), Error> {
        let evicts = || self.nodes.list(&Selector::everything()).iter().any(|node| is_ready(node));
        let Some(taints) = taints::changed(node, !is_ready(node) && evicts(), clock::now()) else { return Ok(()) };
        let mut changed = node.clone();
        changed.spec.get_or_insert_default().taints = taints;
        match Api::<Node>::all(&self.client).update(&changed).await {
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error.into()),
            Ok(_) => Ok(()),
        }
    }
}

/// The node with unknown conditions; `None` if it has them.
#[doc(alias = "tryUpdateNodeHealth")]
fn unknown(node: &Node, now: Time) -> Option<Node> {
    let mut changed = node.clone();
    let conditions = &mut changed.status.get_or_insert_default().conditions;
    let mut is_changed = false;
    for type_ in OF_KUBELET {
        match conditions.iter_mut().find(|condition| condition.type_ == type_) {
            None => {
                is_changed = true;
                conditions.push(NodeCondition {
                    type_: type_.into(),
                    status: "Unknown".into(),
                    reason: Some("NodeStatusNeverUpdated".into()),
                    message: Some("Kubelet never posted node status.".into()),
                    last_heartbeat_time: node.metadata.creation_timestamp,
                    last_transition_time: Some(now),
                });
            }
            Some(condition) if condition.status != "Unknown" => {
                is_changed = true;
                condition.status = "Unknown".into();
                condition.reason = Some("NodeStatusUnknown".into());
                condition.message = Some("Kubelet stopped posting node status.".into());
                condition.last_transition_time = Some(now);
            }
            Some(_) => {}
        }
    }
    is_changed.then_some(changed)
}
