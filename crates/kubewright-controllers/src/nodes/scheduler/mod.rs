//! Assigns pods to nodes as kube-scheduler does with its default plugins.
//!
//! A scheduling cycle takes one pod: `filter` finds the nodes on which it fits, `score` the best of
//! them, and if there is none, `preemption` finds pods of lower priority that could leave.
//! Decisions are made one at a time, over `placements`, which knows assignments before the cache
//! does. A cycle is linear in the number of nodes and of pods that the terms of the pod concern.
//!
//! Any node is used whose taints allow it, as by kube-scheduler: a node that is not ready is
//! tainted by the server and by `node_lifecycle`.
//!
//! Unschedulable pods are tried again when a pod leaves, when a node changes, and in any case after
//! a while. Pods are taken in the order of their events, not of their priority: a pod of high
//! priority that comes late preempts. Not considered: volumes, images and dynamic resources.

mod affinity;
mod cluster;
mod filter;
#[cfg(test)]
mod fixtures;
mod messages;
mod placements;
mod pod_info;
mod ports;
mod preemption;
mod resources;
mod score;
mod spread;
mod victims;
mod waiting;

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use kubewright_api::core::v1::{Binding, Node, ObjectReference, Pod};
use kubewright_api::policy::v1::PodDisruptionBudget;
use kubewright_client::{Api, clock};
use kubewright_core::{Map, Object, Selector, Str};

use super::Nodes;
use crate::pods::{condition, new_condition};
use crate::worker::Synced;
use cluster::Cluster;
use filter::Filter;
use messages::unavailable;
use placements::NodeLoad;
use pod_info::PodInfo;
use preemption::{Candidate, Preemption};

pub(super) use placements::Placements;
pub(super) use resources::is_sidecar;
pub(super) use waiting::WaitingPods;

/// Retry delay of an unschedulable pod for which nothing seems to have changed.
const RETRY_DELAY: Duration = Duration::from_secs(300);
const NO_NODES: &str = "no nodes available to schedule pods";

/// The result of a scheduling cycle.
#[derive(Debug)]
enum Decision {
    Assign(Str),
    /// `is_hopeless`: no pods could make room, so a nomination ends.
    Refuse {
        message: String,
        candidate: Option<Candidate>,
        is_hopeless: bool,
    },
}

/// Finds a node for a pod.
fn decide(cluster: &Cluster<'_>, incoming: &Arc<PodInfo>, budgets: &[Arc<PodDisruptionBudget>]) -> Decision {
    if cluster.nodes.is_empty() {
        return Decision::Refuse { message: NO_NODES.to_owned(), candidate: None, is_hopeless: true };
    }
    let mut filter = Filter::new(cluster, incoming);
    let (mut feasible, mut rejected, none): (Vec<&Node>, _, _) = (Vec::new(), Vec::new(), NodeLoad::default());
    for node in cluster.nodes {
        match filter.check(node, cluster.placements.load(node.name()).unwrap_or(&none)) {
            Ok(()) => feasible.push(node),
            Err(rejection) => rejected.push((node, rejection)),
        }
    }
    // The room that victims have left is for their preemptor.
    let nominated = cluster.placements.nomination(incoming.pod.uid());
    if let Some(node) = nominated.filter(|node| feasible.iter().any(|feasible| **node == *feasible.name())) {
        return Decision::Assign(node.clone());
    }
    if let Some(node) = score::best(cluster, incoming, &feasible) {
        return Decision::Assign(node.name().into());
    }
    let message = unavailable(cluster.nodes.len(), rejected.iter().map(|(_, rejection)| rejection));
    match preemption::find(&mut filter, &rejected, budgets) {
        Preemption::Possible(candidate) => Decision::Refuse { message, candidate: Some(candidate), is_hopeless: false },
        Preemption::Ineligible(reason) => {
            Decision::Refuse { message: format!("{message} preemption: {reason}"), candidate: None, is_hopeless: false }
        }
        Preemption::Hopeless(reason) => {
            Decision::Refuse { message: format!("{message} preemption: {reason}"), candidate: None, is_hopeless: true }
        }
    }
}

impl Nodes {
    /// Assigns a node, or records that there is none.
    pub(super) async fn schedule(&self, pod: &Arc<Pod>) -> Synced {
        let Some(spec) = &pod.spec else { return Ok(None) };
        let is_default = matches!(spec.scheduler_name.as_deref(), None | Some("" | "default-scheduler"));
        if !is_default || !spec.scheduling_gates.is_empty() {
            return Ok(None);
        }
        let info = Arc::new(PodInfo::new(pod));
        // Before the decision, so that no change after it is missed.
        self.waiting.add(pod.key(), info.waits_for_pods());
        match self.reserve(&info) {
            Decision::Assign(node) => {
                self.waiting.remove(&pod.key());
                self.bind(pod, &node).await
            }
            Decision::Refuse { message, candidate, .. } => self.refuse(pod, message, candidate).await,
        }
    }

    /// Decides, and reserves the room on the chosen node.
    fn reserve(&self, info: &Arc<PodInfo>) -> Decision {
        let mut nodes = self.nodes.list(&Selector::everything());
        nodes.sort_unstable_by(|a, b| a.name().cmp(b.name()));
        let labels = |name: &str| -> Map<Str> {
            self.namespaces.get(name).map(|namespace| namespace.metadata.labels.clone()).unwrap_or_default()
        };
        let budgets = self.budgets.list(&Selector::everything());
        let mut placements = self.placements();
        let cluster = Cluster { nodes: &nodes, placements: &placements, labels_of_namespace: &labels };
        let decision = decide(&cluster, info, &budgets);
        match &decision {
            Decision::Assign(node) => placements.place(info, node),
            Decision::Refuse { candidate: Some(candidate), .. } => placements.nominate(info, &candidate.node),
            Decision::Refuse { is_hopeless: true, .. } => placements.withdraw(info.pod.uid()),
            Decision::Refuse { .. } => {}
        }
        decision
    }

    pub(super) fn placements(&self) -> MutexGuard<'_, Placements> {
        self.placements.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn bind(&self, pod: &Arc<Pod>, node: &Str) -> Synced {
        let mut binding = Binding {
            target: ObjectReference { kind: Some("Node".into()), name: Some(node.clone()), ..Default::default() },
            ..Default::default()
        };
        binding.metadata.name = pod.metadata.name.clone();
        binding.metadata.namespace = pod.metadata.namespace.clone();
        binding.metadata.uid = pod.metadata.uid.clone();
        match Api::<Pod>::namespaced(&self.client, pod.namespace()).bind(pod.name(), &binding).await {
            Ok(()) => {
                self.events.normal(&**pod, "Scheduled", format!("Successfully assigned {} to {node}", pod.key()));
                Ok(None)
            }
            Err(error) => {
                // If it was bound after all, its event records the node.
                self.placements().release(pod.uid());
                // Deleted, or bound by another scheduler: the cache will show it.
                if error.is_not_found() || error.is_conflict() { Ok(None) } else { Err(error.into()) }
            }
        }
    }

    /// Records that a pod is unschedulable, and evicts the pods that make room for it.
    async fn refuse(&self, pod: &Arc<Pod>, message: String, candidate: Option<Candidate>) -> Synced {
        let have = pod.status.as_ref().and_then(|status| status.nominated_node_name.clone()).unwrap_or_default();
        // Victims that are still leaving keep the nomination.
        let nominated = self.placements().nomination(pod.uid()).cloned().unwrap_or_default();
        let is_told = condition(pod, "PodScheduled")
            .is_some_and(|condition| condition.status == "False" && condition.message.as_deref() == Some(&*message));
        if !is_told || have != nominated {
            let mut changed = (**pod).clone();
            let status = changed.status.get_or_insert_default();
            status.conditions.retain(|condition| condition.type_ != "PodScheduled");
            let mut refused = new_condition("PodScheduled", false, clock::now());
            refused.reason = Some("Unschedulable".into());
            refused.message = Some(Str::from(message.as_str()));
            status.conditions.push(refused);
            status.nominated_node_name = (!nominated.is_empty()).then_some(nominated);
            match Api::<Pod>::namespaced(&self.client, pod.namespace()).update_status(&changed).await {
                Err(error) if error.is_not_found() => return Ok(None),
                Err(error) => return Err(error.into()),
                Ok(_) => self.events.warning(&**pod, "FailedScheduling", message),
            }
        }
        if let Some(candidate) = candidate {
            self.preempt(pod, &candidate).await?;
        }
        Ok(Some(RETRY_DELAY))
    }
}
