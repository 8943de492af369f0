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
//! This folder decides; `nodes/scheduling.rs` carries the decisions out. Unschedulable pods are
//! tried again when a pod leaves, when a node changes, and in any case after a while. Pods are
//! taken in the order of their events, not of their priority: a pod of high priority that comes
//! late preempts. Not considered: volumes, images and dynamic resources.

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
mod waiting;

use std::sync::Arc;

use kubewright_api::core::v1::Node;
use kubewright_api::policy::v1::PodDisruptionBudget;
use kubewright_core::{Object, Str};

use filter::Filter;
use messages::unavailable;
use placements::NodeLoad;
use preemption::Preemption;

pub(super) use cluster::Cluster;
pub(super) use placements::Placements;
pub(super) use pod_info::{PodInfo, priority};
pub(super) use preemption::{Candidate, PREEMPTED};
pub(super) use resources::is_sidecar;
pub(super) use waiting::WaitingPods;

const NO_NODES: &str = "no nodes available to schedule pods";

/// The result of a scheduling cycle.
#[derive(Debug)]
pub(super) enum Decision {
    Assign(Str),
    /// `is_hopeless`: no pods could make room, so a nomination ends.
    Refuse {
        message: String,
        candidate: Option<Candidate>,
        is_hopeless: bool,
    },
}

/// Finds a node for a pod.
pub(super) fn decide(cluster: &Cluster<'_>, incoming: &Arc<PodInfo>, budgets: &[Arc<PodDisruptionBudget>]) -> Decision {
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
