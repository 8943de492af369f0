//! Carries out the decisions of the scheduler: bindings, conditions and evictions.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use kubewright_api::core::v1::{Binding, ObjectReference, Pod};
use kubewright_client::{Api, clock};
use kubewright_core::options::DeleteOptions;
use kubewright_core::{Map, Object, Selector, Str};

use super::Nodes;
use super::scheduler::{Candidate, Cluster, Decision, PREEMPTED, Placements, PodInfo, decide, priority};
use crate::error::Error;
use crate::pods::{condition, new_condition};
use crate::worker::Synced;

/// Retry delay of an unschedulable pod for which nothing seems to have changed.
const RETRY_DELAY: Duration = Duration::from_secs(300);

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

    /// Deletes the victims. Nominations of lesser pods to the same node end: they may not fit any
    /// more.
    #[doc(alias = "prepareCandidate")]
    async fn preempt(&self, pod: &Arc<Pod>, candidate: &Candidate) -> Result<(), Error> {
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
