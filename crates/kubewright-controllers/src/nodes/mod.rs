//! Simulated nodes: pods are scheduled, started and stopped without a machine.
//!
//! Nodes are ordinary objects that can be cordoned, tainted and labelled. `scheduler` chooses a
//! node, `lifecycle` advances the pod, `eviction` removes it from tainted or missing nodes, and
//! `pod_status` writes what a kubelet would. What containers do is computed by `kubewright-kubelet`
//! from annotations and commands; `network` connects it with an API server. Only pods on simulated
//! nodes are touched, including those of an earlier start with more nodes.

mod eviction;
mod heartbeat;
mod image_pulls;
mod lifecycle;
mod network;
mod options;
mod pod_status;
mod probing;
mod registration;
mod scheduler;
mod scheduling;
mod timers;

use std::ops::ControlFlow;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kubewright_api::core::v1::{Namespace, Node, Pod};
use kubewright_api::policy::v1::PodDisruptionBudget;
use kubewright_cache::{Event, Lister};
use kubewright_client::Client;
use kubewright_core::{Object, ObjectKey};
use kubewright_kubelet::ContainerFiles;
use kubewright_runtime::events::EventRecorder;
use tokio_util::sync::CancellationToken;

use crate::context::ControllerContext;
use crate::error::Error;
use crate::indices;
use crate::pods::{is_finished, node_name};
use crate::worker::{self, Reconcile, Synced, work};
use image_pulls::ImagePulls;
use scheduler::{Placements, WaitingPods};
use timers::Timers;

pub use kubewright_kubelet::behaviour::{CPU_USAGE_ANNOTATION, EXIT_CODE_ANNOTATION, MEMORY_USAGE_ANNOTATION};
pub use kubewright_kubelet::{ContainerUsage, usage};
pub use network::network;
pub use options::{FAILED_ANNOTATION, NodeOptions, SLOWDOWN_ANNOTATION};

struct Nodes {
    client: Client,
    options: NodeOptions,
    nodes: Lister<Node>,
    pods: Lister<Pod>,
    namespaces: Lister<Namespace>,
    budgets: Lister<PodDisruptionBudget>,
    events: EventRecorder,
    taint_events: EventRecorder,
    kubelet_events: EventRecorder,
    timers: Timers,
    image_pulls: ImagePulls,
    files: Arc<ContainerFiles>,
    /// Deadlines of tainted pods.
    evictions: Timers,
    placements: Mutex<Placements>,
    waiting: WaitingPods,
    /// Counter for pod addresses.
    addresses: AtomicUsize,
}

/// The pause before nodes are registered again.
const REGISTRATION_RETRY: Duration = Duration::from_secs(1);
/// How long unschedulable pods wait after a change, so that many changes cause one attempt.
const RESCHEDULE_DELAY: Duration = Duration::from_secs(1);

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
    let (namespaces, budgets) = (factory.informer::<Namespace>(), factory.informer::<PodDisruptionBudget>());
    indices::by_address(&pods);
    let controller = Arc::new(Nodes {
        client: client.clone(),
        options,
        nodes: nodes.lister(),
        pods: pods.lister(),
        namespaces: namespaces.lister(),
        budgets: budgets.lister(),
        events: context.recorder("default-scheduler"),
        taint_events: context.recorder("taint-eviction-controller"),
        kubelet_events: context.recorder("kubelet"),
        timers: Timers::default(),
        image_pulls: ImagePulls::default(),
        files: Arc::clone(&context.container_files),
        evictions: Timers::default(),
        placements: Mutex::default(),
        waiting: WaitingPods::default(),
        addresses: AtomicUsize::new(1),
    });
    let of_pods = pods.add_handler({
        let (queue, controller) = (queue.clone(), controller.clone());
        move |event: &Event<Pod>| {
            for key in controller.reschedulable(event) {
                queue.add_after(key, RESCHEDULE_DELAY);
            }
            if !is_refusal(event) {
                queue.add(event.key());
            }
        }
    })?;
    // A new or changed node may accept pending pods, and may evict its own.
    let of_nodes = nodes.add_handler({
        let (queue, pods, controller) = (queue.clone(), pods.lister(), controller.clone());
        move |event: &Event<Node>| {
            if event.is_resync() || is_heartbeat(event) {
                return;
            }
            controller.waiting.take_all().into_iter().for_each(|key| queue.add(key));
            let (before, after) = match event {
                Event::Updated { old, new } => (Some(old), Some(new)),
                event => (None, event.object()),
            };
            let key = event.key();
            let has_no_execute_taint = matches!(event, Event::Deleted(_))
                || before.into_iter().chain(after).any(|node| eviction::has_no_execute_taint(node));
            let has_recovered = before.is_some_and(|node| heartbeat::has_failed(node));
            let slowdowns = [before, after].map(|node| node.map(|node| heartbeat::slowdown(node)));
            if has_no_execute_taint || has_recovered || slowdowns[0] != slowdowns[1] {
                let pods = pods.snapshot();
                let is_there = pods.iter().filter(|pod| node_name(pod) == &**key.name());
                is_there.for_each(|pod| queue.add(pod.key()));
            }
        }
    })?;
    factory.start(stop);
    let has_synced = of_nodes.synced().await && of_pods.synced().await;
    if has_synced && namespaces.synced().await && budgets.synced().await {
        let entering = async {
            // The probes of a pod may see what a command has changed in it.
            while let Some(entered) = stop.run_until_cancelled(context.container_files.next_entered()).await {
                entered.into_iter().for_each(|key| queue.add(key));
            }
        };
        tokio::join!(controller.beat(stop), entering, work(controller.clone(), &queue, context, stop));
    }
    of_nodes.remove();
    of_pods.remove();
    Ok(())
}

/// Whether only the status of a node changed, in a way that matters to no pod.
fn is_heartbeat(event: &Event<Node>) -> bool {
    let Event::Updated { old, new } = event else { return false };
    let has_recovered = heartbeat::has_failed(old) && !heartbeat::has_failed(new);
    let is_as_fast = heartbeat::slowdown(old) == heartbeat::slowdown(new);
    let allocatable = |node: &Node| node.status.as_ref().map(|status| status.allocatable.clone());
    !has_recovered
        && is_as_fast
        && old.spec == new.spec
        && old.metadata.labels == new.metadata.labels
        && allocatable(old) == allocatable(new)
}

/// Whether only the status of an unassigned pod changed, as when it is found unschedulable.
fn is_refusal(event: &Event<Pod>) -> bool {
    let Event::Updated { old, new } = event else { return false };
    let metadata = |pod: &Pod| (pod.metadata.labels.clone(), pod.metadata.annotations.clone());
    is_waiting(old)
        && is_waiting(new)
        && old.spec == new.spec
        && metadata(old) == metadata(new)
        && old.uid() == new.uid()
}

impl Nodes {
    /// Records the node of a pod, and returns the unschedulable pods that the event may help.
    fn reschedulable(&self, event: &Event<Pod>) -> Vec<ObjectKey> {
        let has_place = |pod: &Pod| !node_name(pod).is_empty() && !is_finished(pod);
        let mut placements = self.placements();
        let (before, after) = match event {
            Event::Added { object, .. } => (None, Some(object)),
            Event::Updated { old, new } => (Some(old), Some(new)),
            Event::Deleted(deleted) => {
                // A tombstone may lack the object.
                let pod = deleted.object();
                (pod, None)
            }
        };
        if let Some(old) = before
            && after.is_none_or(|new| new.uid() != old.uid())
        {
            placements.release(old.uid());
        }
        if let Some(new) = after {
            placements.note(new);
        }
        match (before.is_some_and(|pod| has_place(pod)), after.is_some_and(|pod| has_place(pod))) {
            (true, false) => self.waiting.take_all(),
            (false, true) => self.waiting.take_for_arrival(),
            _ => Vec::new(),
        }
    }
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
            self.image_pulls.forget(key);
            self.evictions.forget(key);
            self.waiting.remove(key);
            return Ok(None);
        };
        if is_waiting(&pod) {
            self.schedule(&pod).await
        } else if self.options.is_ours(node_name(&pod)) {
            let ControlFlow::Continue(stay) = self.evict_if_due(&pod).await? else { return Ok(None) };
            if self.nodes.get(node_name(&pod)).is_some_and(|node| heartbeat::has_failed(&node)) {
                return Ok(stay);
            }
            let step = self.move_on(&pod).await?;
            Ok([stay, step].into_iter().flatten().min())
        } else {
            match self.evict_if_due(&pod).await? {
                // Pods of a simulated node that is gone stop when they are deleted.
                ControlFlow::Continue(None) if pod.is_being_deleted() && self.options.is_former(node_name(&pod)) => {
                    self.move_on(&pod).await
                }
                ControlFlow::Continue(stay) => Ok(stay),
                ControlFlow::Break(()) => Ok(None),
            }
        }
    }
}
