//! Pods that a taint drives from their node: at once, or when the time is over for which they put up with it.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use kubewright_api::core::v1::{Node, Pod, PodStatus, Taint, Toleration};
use kubewright_client::Api;
use kubewright_core::Object;
use kubewright_core::options::DeleteOptions;

use super::Nodes;
use super::timers::Step;
use crate::error::Error;
use crate::placement::tolerates;
use crate::pods::{new_condition, node_name};

/// The condition of a pod that somebody makes go.
const DISRUPTED: &str = "DisruptionTarget";

/// How long a pod may stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stay {
    AsLongAsItLikes,
    For(Duration),
}

/// Whether a node drives pods away.
pub(super) fn is_driving(node: &Node) -> bool {
    driving(node).next().is_some()
}

fn driving(node: &Node) -> impl Iterator<Item = &Taint> {
    node.spec.iter().flat_map(|spec| spec.taints.iter()).filter(|taint| taint.effect == "NoExecute")
}

/// How long tolerations let a pod stay on a node: the shortest that any of them gives.
#[doc(alias = "getMinTolerationTime")]
fn stay(node: &Node, tolerations: &[Toleration]) -> Stay {
    let mut stay = Stay::AsLongAsItLikes;
    for taint in driving(node) {
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
    /// Deletes a pod that its node drives away, when its time is over, which breaks with all else; goes on with how long it may still
    /// stay, if that is limited.
    #[doc(alias = "processPodOnNode")]
    pub(super) async fn drive_away(&self, pod: &Arc<Pod>) -> Result<ControlFlow<(), Option<Duration>>, Error> {
        let node = self.nodes.get(node_name(pod)).filter(|_| !pod.is_being_deleted());
        let tolerations = pod.spec.as_ref().map(|spec| &spec.tolerations[..]).unwrap_or_default();
        let Some(Stay::For(time)) = node.map(|node| stay(&node, tolerations)) else {
            self.evictions.forget(&pod.key());
            return Ok(ControlFlow::Continue(None));
        };
        if let Some(wait) = self.evictions.wait(&pod.key(), pod.uid(), Step::Stop, time) {
            return Ok(ControlFlow::Continue(Some(wait)));
        }
        self.taint_events.normal(&**pod, "TaintManagerEviction", format!("Marking for deletion Pod {}", pod.key()));
        let api = Api::<Pod>::namespaced(&self.client, pod.namespace());
        let mut changed = (**pod).clone();
        let status: &mut PodStatus = changed.status.get_or_insert_default();
        status.conditions.retain(|condition| condition.type_ != DISRUPTED);
        let mut disrupted = new_condition(DISRUPTED, true, self.clock.now());
        disrupted.reason = Some("DeletionByTaintManager".into());
        disrupted.message = Some("Taint manager: deleting due to NoExecute taint".into());
        status.conditions.push(disrupted);
        let deleted = match api.update_status(&changed).await {
            Ok(_) => api.delete_with(pod.name(), &DeleteOptions::default().uid(pod.uid())).await.map(drop),
            Err(error) => Err(error),
        };
        match deleted {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(ControlFlow::Break(())),
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
        assert!(is_driving(&node));
        assert!(!is_driving(&Node::default()));
    }
}
