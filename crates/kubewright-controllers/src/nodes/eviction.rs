//! Pods that must leave their node: evicted by taints, immediately or after their toleration
//! period, or because the node no longer exists.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use kubewright_api::core::v1::{Node, Pod, PodStatus, Taint, Toleration};
use kubewright_client::Api;
use kubewright_client::clock;
use kubewright_core::Object;
use kubewright_core::options::DeleteOptions;

use super::Nodes;
use super::timers::PodStep;
use crate::error::Error;
use crate::placement::tolerates;
use crate::pods::{is_finished, new_condition, node_name};

/// The condition of a disrupted pod.
const DISRUPTED: &str = "DisruptionTarget";

/// How long a node may be missing before its pods are deleted.
const QUARANTINE: Duration = Duration::from_secs(40);

/// How long a pod may stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stay {
    AsLongAsItLikes,
    For(Duration),
}

/// Whether a node has NoExecute taints.
pub(super) fn has_no_execute_taint(node: &Node) -> bool {
    no_execute_taints(node).next().is_some()
}

fn no_execute_taints(node: &Node) -> impl Iterator<Item = &Taint> {
    node.spec.iter().flat_map(|spec| spec.taints.iter()).filter(|taint| taint.effect == "NoExecute")
}

/// How long tolerations let a pod stay: the shortest of them.
#[doc(alias = "getMinTolerationTime")]
fn stay(node: &Node, tolerations: &[Toleration]) -> Stay {
    let mut stay = Stay::AsLongAsItLikes;
    for taint in no_execute_taints(node) {
        let Some(toleration) = tolerations.iter().find(|toleration| tolerates(toleration, taint)) else {
            return Stay::For(Duration::ZERO);
        };
        let seconds = toleration.toleration_seconds.map(|seconds| u64::try_from(seconds).unwrap_or_default());
        stay = match (stay, seconds.map(Duration::from_secs)) {
            (Stay::For(known), Some(time)) => Stay::For(known.min(time)),
            (Stay::AsLongAsItLikes, Some(time)) => Stay::For(time),
            (stay, None) => stay,
        };
    }
    stay
}

impl Nodes {
    /// Evicts a pod when its time is over (`Break`); otherwise continues with the remaining time,
    /// if it is limited.
    #[doc(alias = "processPodOnNode")]
    pub(super) async fn evict_if_due(&self, pod: &Arc<Pod>) -> Result<ControlFlow<(), Option<Duration>>, Error> {
        let tolerations = pod.spec.as_ref().map(|spec| &spec.tolerations[..]).unwrap_or_default();
        let (step, time) = match self.nodes.get(node_name(pod)).map(|node| stay(&node, tolerations)) {
            _ if pod.is_being_deleted() => (PodStep::Stop, Stay::AsLongAsItLikes),
            Some(stay) => (PodStep::Stop, stay),
            None => (PodStep::End, Stay::For(QUARANTINE)),
        };
        let Stay::For(time) = time else {
            self.evictions.forget(&pod.key());
            return Ok(ControlFlow::Continue(None));
        };
        if let Some(wait) = self.evictions.wait(&pod.key(), pod.uid(), step, time) {
            return Ok(ControlFlow::Continue(Some(wait)));
        }
        match step {
            PodStep::End => self.collect(pod).await,
            _ => self.evict(pod).await,
        }
    }

    /// Deletes a pod because of a taint.
    async fn evict(&self, pod: &Pod) -> Result<ControlFlow<(), Option<Duration>>, Error> {
        self.taint_events.normal(pod, "TaintManagerEviction", format!("Marking for deletion Pod {}", pod.key()));
        let mut status = pod.status.clone().unwrap_or_default();
        self.disrupt(&mut status, "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint");
        self.remove(pod, status, DeleteOptions::default()).await?;
        Ok(ControlFlow::Break(()))
    }

    /// Deletes a pod of a missing node. There is no kubelet to stop it, so its status is set here.
    #[doc(alias = "gcOrphaned")]
    async fn collect(&self, pod: &Pod) -> Result<ControlFlow<(), Option<Duration>>, Error> {
        // The cache may not show a node that has returned.
        if Api::<Node>::all(&self.client).get_opt(node_name(pod)).await?.is_some() {
            return Ok(ControlFlow::Continue(None));
        }
        let mut status = pod.status.clone().unwrap_or_default();
        if !is_finished(pod) {
            status.phase = Some("Failed".into());
        }
        self.disrupt(&mut status, "DeletionByPodGC", "PodGC: node no longer exists");
        self.remove(pod, status, DeleteOptions::default().grace_period_seconds(0)).await?;
        Ok(ControlFlow::Break(()))
    }

    /// Sets the disruption condition.
    pub(super) fn disrupt(&self, status: &mut PodStatus, reason: &str, message: &str) {
        status.conditions.retain(|condition| condition.type_ != DISRUPTED);
        let mut disrupted = new_condition(DISRUPTED, true, clock::now());
        disrupted.reason = Some(reason.into());
        disrupted.message = Some(message.into());
        status.conditions.push(disrupted);
    }

    /// Adds the disruption condition to a pod, and deletes it.
    pub(super) async fn remove(&self, pod: &Pod, status: PodStatus, options: DeleteOptions) -> Result<(), Error> {
        let api = Api::<Pod>::namespaced(&self.client, pod.namespace());
        let changed = Pod { status: Some(status), ..pod.clone() };
        let deleted = match api.update_status(&changed).await {
            Ok(_) => api.delete_with(pod.name(), &options.uid(pod.uid())).await.map(drop),
            Err(error) => Err(error),
        };
        match deleted {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_stays_as_long_as_all_taints_let_it() {
        let taint = |key: &str, effect: &str| Taint { key: key.into(), effect: effect.into(), ..Default::default() };
        let toleration = |key: &str, seconds: Option<i64>| Toleration {
            key: Some(key.into()),
            operator: Some("Exists".into()),
            toleration_seconds: seconds,
            ..Default::default()
        };
        let mut node = Node::default();
        let spec = node.spec.get_or_insert_default();
        spec.taints = [taint("soft", "NoSchedule"), taint("a", "NoExecute"), taint("b", "NoExecute")].into();
        for (tolerations, want) in [
            (vec![], Stay::For(Duration::ZERO)),
            (vec![toleration("a", None)], Stay::For(Duration::ZERO)),
            (vec![toleration("a", None), toleration("b", None)], Stay::AsLongAsItLikes),
            (vec![toleration("a", Some(60)), toleration("b", None)], Stay::For(Duration::from_secs(60))),
            (vec![toleration("a", Some(60)), toleration("b", Some(30))], Stay::For(Duration::from_secs(30))),
            (vec![toleration("a", Some(-1)), toleration("b", None)], Stay::For(Duration::ZERO)),
        ] {
            assert_eq!(stay(&node, &tolerations), want, "{tolerations:?}");
        }
        assert!(has_no_execute_taint(&node));
        assert!(!has_no_execute_taint(&Node::default()));
    }
}
