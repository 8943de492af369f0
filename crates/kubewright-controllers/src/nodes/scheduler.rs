//! Assigns pods to ready, matching nodes in turn.
//!
//! Considers cordons, taints, node selectors, required node affinity and the number of pods.
//! Resources, preferences and pod affinity are deliberately ignored: simulated pods need no
//! resources.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kubewright_api::core::v1::{Binding, Node, ObjectReference, Pod, PodSpec, PodStatus};
use kubewright_client::Api;
use kubewright_client::clock;
use kubewright_core::{Object, Selector, Str};

use super::Nodes;
use crate::placement;
use crate::pods::{condition, new_condition};
use crate::worker::Synced;

/// Retry delay of a pod while nodes are full.
const RETRY_DELAY: Duration = Duration::from_secs(5);

impl Nodes {
    /// Assigns a node, or records that there is none.
    pub(super) async fn schedule(&self, pod: &Arc<Pod>) -> Synced {
        let Some(spec) = &pod.spec else { return Ok(None) };
        let is_default = matches!(spec.scheduler_name.as_deref(), None | Some("" | "default-scheduler"));
        if !is_default || !spec.scheduling_gates.is_empty() {
            return Ok(None);
        }
        let mut fitting: Vec<Arc<Node>> = self.nodes.list(&Selector::everything());
        let all = fitting.len();
        fitting.retain(|node| self.options.is_ours(node.name()) && fits(spec, node));
        fitting.sort_by(|a, b| a.name().cmp(b.name()));
        let turn = self.turns.fetch_add(1, Ordering::Relaxed) % fitting.len().max(1);
        fitting.rotate_left(turn);
        let Some(node) = fitting.iter().find(|node| self.seats.reserve(pod, node.name(), capacity(node))) else {
            return self.refuse(pod, all, fitting.len()).await;
        };
        let mut binding = Binding {
            target: ObjectReference {
                kind: Some("Node".into()),
                name: node.metadata.name.clone(),
                ..Default::default()
            },
            ..Default::default()
        };
        binding.metadata.name = pod.metadata.name.clone();
        binding.metadata.namespace = pod.metadata.namespace.clone();
        binding.metadata.uid = pod.metadata.uid.clone();
        match Api::<Pod>::namespaced(&self.client, pod.namespace()).bind(pod.name(), &binding).await {
            Ok(()) => {
                let message = format!("Successfully assigned {} to {}", pod.key(), node.name());
                self.events.normal(&**pod, "Scheduled", message);
                Ok(None)
            }
            Err(error) => {
                // If it was bound after all, its event records the seat.
                self.seats.release(pod);
                // Deleted, or bound by another scheduler: the cache will show it.
                if error.is_not_found() || error.is_conflict() { Ok(None) } else { Err(error.into()) }
            }
        }
    }

    /// Records that a pod is unschedulable: no node matches, or the matching ones are full.
    async fn refuse(&self, pod: &Arc<Pod>, nodes: usize, full: usize) -> Synced {
        let why = match full {
            0 => "none fits the pod's node selector, affinity and tolerations".to_owned(),
            full => format!("{full} Too many pods"),
        };
        let message = format!("0/{nodes} nodes are available: {why}.");
        // A changed node queues the pod again; a free seat on it does not.
        let again = (full > 0).then_some(RETRY_DELAY);
        let is_told = condition(pod, "PodScheduled")
            .is_some_and(|condition| condition.status == "False" && condition.message.as_deref() == Some(&*message));
        if is_told {
            return Ok(again);
        }
        let mut changed = (**pod).clone();
        let status: &mut PodStatus = changed.status.get_or_insert_default();
        status.conditions.retain(|condition| condition.type_ != "PodScheduled");
        let mut refused = new_condition("PodScheduled", false, clock::now());
        refused.reason = Some("Unschedulable".into());
        refused.message = Some(Str::from(message.as_str()));
        status.conditions.push(refused);
        match Api::<Pod>::namespaced(&self.client, pod.namespace()).update_status(&changed).await {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => {
                self.events.warning(&**pod, "FailedScheduling", message);
                Ok(again)
            }
        }
    }
}

/// The pod capacity of a node; unlimited if not stated.
fn capacity(node: &Node) -> usize {
    let pods = node.status.as_ref().and_then(|status| status.allocatable.get("pods"));
    pods.map_or(usize::MAX, |pods| usize::try_from(pods.value()).unwrap_or_default())
}

fn fits(spec: &PodSpec, node: &Node) -> bool {
    let ready = node.status.iter().flat_map(|status| status.conditions.iter()).find(|one| one.type_ == "Ready");
    placement::is_allowed(spec, node)
        && ready.is_some_and(|condition| condition.status == "True")
        && placement::repelling(&spec.tolerations, node).iter().all(|taint| taint.effect == "PreferNoSchedule")
}
