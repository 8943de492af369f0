//! Simulated nodes: pods are scheduled, started and stopped without a machine.
//!
//! Nodes are ordinary objects that can be cordoned, tainted and labelled. `scheduler` assigns a
//! node, `lifecycle` advances the pod, `eviction` removes it from tainted or missing nodes, and
//! `pod_status` writes what a kubelet would. Only pods on simulated nodes are touched, including
//! those of an earlier start with more nodes.

mod eviction;
mod lifecycle;
mod options;
mod pod_status;
mod registration;
mod scheduler;
mod seats;
mod timers;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use kubewright_api::core::v1::{Node, Pod};
use kubewright_cache::{Event, Lister};
use kubewright_client::Client;
use kubewright_core::{Object, ObjectKey};
use kubewright_runtime::events::EventRecorder;
use tokio_util::sync::CancellationToken;

use crate::context::ControllerContext;
use crate::error::Error;
use crate::indices;
use crate::pods::{is_finished, node_name};
use crate::worker::{self, Reconcile, Synced, work};
use seats::Seats;
use timers::Timers;

pub use options::{EXIT_CODE_ANNOTATION, NodeOptions};

struct Nodes {
    client: Client,
    options: NodeOptions,
    nodes: Lister<Node>,
    pods: Lister<Pod>,
    events: EventRecorder,
    taint_events: EventRecorder,
    timers: Timers,
    /// Deadlines of tainted pods.
    evictions: Timers,
    seats: Seats,
    /// Round-robin counter for nodes.
    turns: AtomicUsize,
    /// Counter for pod addresses.
    addresses: AtomicUsize,
}

/// The pause before nodes are registered again.
const REGISTRATION_RETRY: std::time::Duration = std::time::Duration::from_secs(1);

/// Creates nodes and runs pods on them until `stop` is cancelled.
///
/// The nodes stay when it returns, like unresponsive machines.
///
/// # Errors
/// If the nodes cannot be created, or the caches stop before they have synced.
pub async fn run(context: &ControllerContext, options: NodeOptions, stop: &CancellationToken) -> Result<(), Error> {
    let (client, factory) = (context.client(), context.factory());
    // A server that fails for a moment must not leave the cluster without nodes.
    while let Err(error) = registration::register(client, &options).await {
        tracing::warn!(error = &error as &dyn std::error::Error, "nodes cannot be registered, trying again");
        if stop.run_until_cancelled(tokio::time::sleep(REGISTRATION_RETRY)).await.is_none() {
            return Ok(());
        }
    }
    let queue = worker::queue(context, Nodes::NAME);
    let (nodes, pods) = (factory.informer::<Node>(), factory.informer::<Pod>());
    indices::by_address(&pods);
    let controller = Arc::new(Nodes {
        client: client.clone(),
        options,
        nodes: nodes.lister(),
        pods: pods.lister(),
        events: context.recorder("default-scheduler"),
        taint_events: context.recorder("taint-eviction-controller"),
        timers: Timers::default(),
        evictions: Timers::default(),
        seats: Seats::default(),
        turns: AtomicUsize::new(0),
        addresses: AtomicUsize::new(1),
    });
    let of_pods = pods.add_handler({
        let (queue, controller) = (queue.clone(), controller.clone());
        move |event: &Event<Pod>| {
            match event {
                Event::Added { object, .. } => controller.seats.note(object),
                Event::Updated { old, new } => {
                    if old.uid() != new.uid() {
                        controller.seats.release(old);
                    }
                    controller.seats.note(new);
                }
                Event::Deleted(deleted) => {
                    deleted.object().into_iter().for_each(|pod| controller.seats.release(pod));
                }
            }
            queue.add(event.key());
        }
    })?;
    // A new or changed node may accept pending pods, and may evict its own.
    let of_nodes = nodes.add_handler({
        let (queue, pods) = (queue.clone(), pods.lister());
        move |event: &Event<Node>| {
            if event.is_resync() {
                return;
            }
            let (before, after) = match event {
                Event::Updated { old, new } => (Some(old), Some(new)),
                event => (None, event.object()),
            };
            let key = event.key();
            let has_no_execute_taint = matches!(event, Event::Deleted(_))
                || before.into_iter().chain(after).any(|node| eviction::has_no_execute_taint(node));
            let is_concerned = |pod: &Pod| is_waiting(pod) || has_no_execute_taint && node_name(pod) == &**key.name();
            pods.snapshot().iter().filter(|pod| is_concerned(pod)).for_each(|pod| queue.add(pod.key()));
        }
    })?;
    factory.start(stop);
    if of_nodes.synced().await && of_pods.synced().await {
        work(controller, &queue, context, stop).await;
    }
    of_nodes.remove();
    of_pods.remove();
    Ok(())
}

/// Whether a pod is pending without a node.
fn is_waiting(pod: &Pod) -> bool {
    node_name(pod).is_empty() && !is_finished(pod) && !pod.is_being_deleted()
}

impl Reconcile for Nodes {
    const NAME: &'static str = "nodes";
    type Key = ObjectKey;

    async fn sync(&self, key: &ObjectKey) -> Synced {
        let Some(pod) = self.pods.namespace(key.namespace().clone()).get(key.name()) else {
            self.timers.forget(key);
            self.evictions.forget(key);
            return Ok(None);
        };
        if is_waiting(&pod) {
            self.schedule(&pod).await
        } else if self.options.is_ours(node_name(&pod)) {
            let ControlFlow::Continue(stay) = self.evict_if_due(&pod).await? else { return Ok(None) };
            let step = self.move_on(&pod).await?;
            Ok([stay, step].into_iter().flatten().min())
        } else if self.options.is_former(node_name(&pod)) {
            // The node is gone: the pod stops when it is deleted, or is lost as with any other
            // node.
            match self.evict_if_due(&pod).await? {
                ControlFlow::Continue(None) if pod.is_being_deleted() => self.move_on(&pod).await,
                ControlFlow::Continue(stay) => Ok(stay),
                ControlFlow::Break(()) => Ok(None),
            }
        } else {
            Ok(None)
        }
    }
}
