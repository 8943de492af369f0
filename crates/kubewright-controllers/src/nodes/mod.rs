//! Simulated nodes: pods are scheduled, started, made ready and stopped without a machine to run them on.
//!
//! Nodes are objects as any others, so that they can be cordoned, tainted and labelled. `scheduler` gives a pod a node, `lifecycle`
//! moves it on from there, `eviction` makes it leave a node whose taints it does not tolerate or that is gone, and `pod_status` says what a kubelet
//! would write at each step. Only pods on nodes made here are touched, among which are those of an earlier start that had more nodes.

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

use crate::clock::Clock;
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
    clock: Clock,
    events: EventRecorder,
    taint_events: EventRecorder,
    timers: Timers,
    /// When pods that a taint drives away have to go.
    evictions: Timers,
    seats: Seats,
    /// Counts pods that were given a node, so that each node has its turn.
    turns: AtomicUsize,
    /// Counts addresses that were given to pods.
    addresses: AtomicUsize,
}

/// Makes nodes and runs pods on them until `stop` is cancelled.
///
/// The nodes stay when it returns, as machines that no longer answer.
///
/// # Errors
/// If the nodes cannot be created, or the caches stop before they were complete.
pub async fn run(context: &ControllerContext, options: NodeOptions, stop: &CancellationToken) -> Result<(), Error> {
    let (client, factory, clock) = (context.client(), context.factory(), Clock::new());
    registration::register(client, &options, clock).await?;
    let queue = worker::queue(context, Nodes::NAME);
    let (nodes, pods) = (factory.informer::<Node>(), factory.informer::<Pod>());
    indices::by_address(&pods);
    let controller = Arc::new(Nodes {
        client: client.clone(),
        options,
        nodes: nodes.lister(),
        pods: pods.lister(),
        clock,
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
    // A node that comes, or changes, may be what waiting pods have been waiting for; its own may have to leave it.
    let of_nodes = nodes.add_handler({
        let (queue, pods) = (queue.clone(), pods.lister());
        move |event: &Event<Node>| {
            if event.is_reminder() {
                return;
            }
            let (before, after) = match event {
                Event::Updated { old, new } => (Some(old), Some(new)),
                event => (None, event.object()),
            };
            let key = event.key();
            let is_driving = matches!(event, Event::Deleted(_))
                || before.into_iter().chain(after).any(|node| eviction::is_driving(node));
            let is_concerned = |pod: &Pod| is_waiting(pod) || is_driving && node_name(pod) == &**key.name();
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

/// Whether a pod has no node and wants one.
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
        match is_waiting(&pod) {
            true => self.schedule(&pod).await,
            false if self.options.is_ours(node_name(&pod)) => {
                let ControlFlow::Continue(stay) = self.drive_away(&pod).await? else { return Ok(None) };
                let step = self.move_on(&pod).await?;
                Ok([stay, step].into_iter().flatten().min())
            }
            // Nobody is left to run it, so it stops if it is told to, or is lost as with any other node.
            false if self.options.is_former(node_name(&pod)) => match self.drive_away(&pod).await? {
                ControlFlow::Continue(None) if pod.is_being_deleted() => self.move_on(&pod).await,
                ControlFlow::Continue(stay) => Ok(stay),
                ControlFlow::Break(()) => Ok(None),
            },
            false => Ok(None),
        }
    }
}
