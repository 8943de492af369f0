//! Carries out a preemption.

use std::sync::Arc;

use kubewright_api::core::v1::Pod;
use kubewright_core::Object;
use kubewright_core::options::DeleteOptions;

use super::pod_info::priority;
use super::preemption::{Candidate, PREEMPTED};
use crate::error::Error;
use crate::nodes::Nodes;

impl Nodes {
    /// Deletes the victims. Nominations of lesser pods to the same node end: they may not fit any
    /// more.
    #[doc(alias = "prepareCandidate")]
    pub(super) async fn preempt(&self, pod: &Arc<Pod>, candidate: &Candidate) -> Result<(), Error> {
        for victim in candidate.victims.iter().filter(|victim| !victim.is_being_deleted()) {
            let mut status = victim.status.clone().unwrap_or_default();
            let message = "default-scheduler: preempting to accommodate a higher priority pod";
            self.disrupt(&mut status, PREEMPTED, message);
            self.remove(victim, status, DeleteOptions::default()).await?;
            let message = format!("Preempted by pod {} on node {}", pod.uid(), candidate.node);
            self.events.normal(&**victim, "Preempted", message);
        }
        let mut placements = self.placements();
        let lesser = placements.nominated_to(&candidate.node).filter(|other| other.priority() < priority(pod));
        let lesser: Vec<Arc<Pod>> = lesser.map(|info| info.pod.clone()).collect();
        for other in lesser {
            placements.withdraw(other.uid());
            // Its next cycle clears the name in its status.
            self.waiting.add(other.key(), true);
        }
        Ok(())
    }
}
