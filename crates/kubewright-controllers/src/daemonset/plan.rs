//! Plans the next step of a daemon set: nodes that need a pod, and pods to delete.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use kubewright_api::apps::v1::DaemonSetSpec;
use kubewright_api::core::v1::{Node, Pod};
use kubewright_core::{IntOrString, Object, Str, Time};

use super::pod::{NodeMatch, place, target};
use crate::pods::{is_finished, is_ready, node_name, phase, until_available};
use crate::revisions::REVISION_LABEL;

/// The planned actions.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    /// Nodes that need a pod.
    pub(super) create: Vec<String>,
    /// Pods to delete.
    pub(super) delete: Vec<Arc<Pod>>,
}

/// The nodes and pods of a daemon set.
pub(super) struct PlanInput<'a> {
    pub(super) spec: &'a DaemonSetSpec,
    /// The hash of the current template.
    pub(super) hash: &'a str,
    pub(super) now: Time,
    pub(super) nodes: Vec<(String, NodeMatch)>,
    /// Pods by node, oldest first.
    pub(super) pods: BTreeMap<String, Vec<Arc<Pod>>>,
    /// Uids of failed pods in back-off.
    pub(super) held: HashSet<Str>,
    /// Maximum surge and maximum unavailable.
    limits: (usize, usize),
}

impl<'a> PlanInput<'a> {
    #[doc(alias = "getNodesToDaemonPods")]
    pub(super) fn new(
        spec: &'a DaemonSetSpec,
        hash: &'a str,
        nodes: &[Arc<Node>],
        pods: &[Arc<Pod>],
        now: Time,
    ) -> Self {
        let nodes: Vec<_> = nodes.iter().map(|node| (node.name().to_owned(), place(spec, node))).collect();
        let mut of_node: BTreeMap<String, Vec<Arc<Pod>>> = BTreeMap::new();
        for pod in pods {
            // An ended pod that is being deleted is ignored.
            if let Some(node) = target(pod).filter(|_| !(pod.is_being_deleted() && is_finished(pod))) {
                of_node.entry(node).or_default().push(pod.clone());
            }
        }
        for pods in of_node.values_mut() {
            // Creation times have no fractions: of two equally old pods, the one that is further
            // along counts as older.
            let is_bound = |pod: &Pod| !node_name(pod).is_empty();
            pods.sort_by_key(|pod| (pod.creation_timestamp(), !is_bound(pod), !is_ready(pod)));
        }
        let limits = limits(spec, nodes.iter().filter(|(_, place)| place.is_wanted).count());
        PlanInput { spec, hash, now, nodes, pods: of_node, held: HashSet::new(), limits }
    }

    pub(super) fn pods_of(&self, node: &str) -> &[Arc<Pod>] {
        self.pods.get(node).map_or(&[], Vec::as_slice)
    }

    pub(super) fn is_available(&self, pod: &Pod) -> bool {
        let minimum = self.spec.min_ready_seconds.unwrap_or_default();
        until_available(pod, minimum, self.now).is_some_and(|wait| wait.is_zero())
    }

    pub(super) fn is_new(&self, pod: &Pod) -> bool {
        pod.labels().get(REVISION_LABEL) == Some(self.hash)
    }

    /// One pod per matching node; rolling updates only when nothing else is to do.
    pub(super) fn plan(&self) -> Plan {
        let plan = self.keep();
        let strategy = self.spec.update_strategy.as_ref().and_then(|strategy| strategy.type_.as_deref());
        let rolls = plan == Plan::default() && strategy.is_none_or(|strategy| strategy != "OnDelete");
        if rolls { self.replace() } else { plan }
    }

    #[doc(alias = "podsShouldBeOnNode")]
    fn keep(&self) -> Plan {
        let mut plan = Plan::default();
        for (node, place) in &self.nodes {
            let pods = self.pods_of(node);
            let staying = pods.iter().filter(|pod| !pod.is_being_deleted()).cloned();
            match place {
                NodeMatch { is_wanted: true, .. } if pods.is_empty() => plan.create.push(node.clone()),
                NodeMatch { may_stay: true, .. } => {
                    let (ended, running): (Vec<_>, Vec<_>) = staying.partition(|pod| is_finished(pod));
                    plan.delete.extend(ended.into_iter().filter(|pod| !self.held.contains(pod.uid())));
                    plan.delete.extend(self.surplus(running));
                }
                _ => plan.delete.extend(staying),
            }
        }
        // Pods for a missing node would be pending forever.
        let known: HashSet<&str> = self.nodes.iter().map(|(node, _)| node.as_str()).collect();
        let lost = self.pods.iter().filter(|(node, _)| !known.contains(node.as_str())).flat_map(|(_, pods)| pods);
        let waits = |pod: &&Arc<Pod>| phase(pod) == "Pending" && node_name(pod).is_empty();
        plan.delete.extend(lost.filter(|pod| waits(pod) && !pod.is_being_deleted()).cloned());
        plan
    }

    /// The surplus pods of a node: all but the oldest or, with surge, all but the oldest of the
    /// current template and, until that is available, the oldest previous one.
    fn surplus(&self, running: Vec<Arc<Pod>>) -> Vec<Arc<Pod>> {
        if running.len() <= 1 {
            return Vec::new();
        }
        if self.limits.0 == 0 {
            return running.into_iter().skip(1).collect();
        }
        let (mut new, mut old): (Vec<_>, Vec<_>) = running.into_iter().partition(|pod| self.is_new(pod));
        let mut surplus = new.split_off(new.len().min(1));
        surplus.extend(old.split_off(old.len().min(1)));
        if let (Some(new), Some(old)) = (new.first(), old.first())
            && (!is_ready(old) || self.is_available(new))
        {
            surplus.push(old.clone());
        }
        surplus
    }

    /// Replaces pods of older templates within the limits.
    #[doc(alias = "rollingUpdate")]
    fn replace(&self) -> Plan {
        let (surge, unavailable) = self.limits;
        let (mut plan, mut candidates, mut busy) = (Plan::default(), Plan::default(), 0);
        for (node, _) in self.nodes.iter().filter(|(_, place)| place.is_wanted) {
            let staying = self.pods_of(node).iter().filter(|pod| !pod.is_being_deleted());
            let (new, old): (Vec<_>, Vec<_>) = staying.partition(|pod| self.is_new(pod));
            match (new.first(), old.first()) {
                // Replacing an unavailable pod costs nothing.
                (None, Some(old)) if surge == 0 && !self.is_available(old) => {
                    plan.delete.push((*old).clone());
                    busy += 1;
                }
                (None, Some(old)) if surge > 0 && !self.is_available(old) => plan.create.push(node.clone()),
                (None, Some(old)) if surge == 0 => candidates.delete.push((*old).clone()),
                (None, Some(_)) => candidates.create.push(node.clone()),
                (Some(new), Some(_)) if surge > 0 && !self.is_available(new) => busy += 1,
                (Some(_), Some(old)) if surge > 0 => plan.delete.push((*old).clone()),
                (Some(new), None) if self.is_available(new) => {}
                _ if surge == 0 => busy += 1,
                _ => {}
            }
        }
        plan.delete.extend(candidates.delete.into_iter().take(unavailable.saturating_sub(busy)));
        plan.create.extend(candidates.create.into_iter().take(surge.saturating_sub(busy)));
        plan
    }
}

/// Maximum surge and maximum unavailable. If both are zero, one pod may be unavailable, so that the
/// rollout can progress.
#[doc(alias = "updatedDesiredNodeCounts")]
fn limits(spec: &DaemonSetSpec, wanted: usize) -> (usize, usize) {
    let resolve = |value: Option<&IntOrString>, default: usize| {
        let scaled = value.map(|value| value.scaled_value_from(wanted as i64, true).unwrap_or_default());
        scaled.map_or(default, |scaled| usize::try_from(scaled).unwrap_or_default())
    };
    let rolling = spec.update_strategy.as_ref().and_then(|strategy| strategy.rolling_update.as_ref());
    let surge = resolve(rolling.and_then(|rolling| rolling.max_surge.as_ref()), 0);
    match (surge, resolve(rolling.and_then(|rolling| rolling.max_unavailable.as_ref()), 1)) {
        (0, 0) => (0, 1),
        both => both,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kubewright_api::apps::v1::{DaemonSet, DaemonSetUpdateStrategy, RollingUpdateDaemonSet};

    use super::super::pod::new_pod;
    use super::*;
    use crate::pods::new_condition;

    fn spec(surge: i32, unavailable: i32) -> DaemonSetSpec {
        let rolling =
            RollingUpdateDaemonSet { max_surge: Some(surge.into()), max_unavailable: Some(unavailable.into()) };
        let strategy =
            DaemonSetUpdateStrategy { type_: Some("RollingUpdate".into()), rolling_update: Some(rolling.into()) };
        let mut spec = DaemonSetSpec { update_strategy: Some(strategy.into()), ..Default::default() };
        spec.template.spec = Some(Default::default());
        spec
    }

    /// The actions on nodes `a`, `b` and `c` for pods written as node, state and revision: ready,
    /// waiting, going or failed. Pods are named by that text.
    fn acts(spec: &DaemonSetSpec, pods: &[&str]) -> String {
        let now = Time::now();
        let node = |name: &&str| {
            let mut node = Node::default();
            node.metadata.name = Some((*name).into());
            Arc::new(node)
        };
        let pod = |(age, text): (usize, &&str)| {
            let mut pod = new_pod(&DaemonSet::default(), spec, &text[2..], &text[..1]);
            pod.metadata.name = Some((*text).into());
            pod.metadata.creation_timestamp = now.checked_add(Duration::from_secs(age as u64));
            let state = &text[1..2];
            let status = pod.status.get_or_insert_default();
            status.phase = Some(if state == "f" { "Failed" } else { "Running" }.into());
            status.conditions = [new_condition("Ready", state == "r", now)].into();
            pod.metadata.deletion_timestamp = (state == "g").then_some(now);
            Arc::new(pod)
        };
        let nodes: Vec<_> = ["a", "b", "c"].iter().map(node).collect();
        let pods: Vec<_> = pods.iter().enumerate().map(pod).collect();
        let plan = PlanInput::new(spec, "2", &nodes, &pods, now).plan();
        let created = plan.create.iter().map(|node| format!("+{node}"));
        created.chain(plan.delete.iter().map(|pod| format!("-{}", pod.name()))).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn each_node_has_one_pod_of_the_present_template() {
        for (pods, want) in [
            (&[][..], "+a +b +c"),
            (&["ar2", "bg2"], "+c"),
            (&["ar2", "br2", "cw2"], ""),
            (&["ar2", "bf2", "cr2"], "-bf2"),
            (&["ar2", "br2", "bw2", "cr2"], "-bw2"),
            (&["ar1", "br1", "cr1"], "-ar1"),
            (&["aw2", "br1", "cr1"], ""),
            (&["ar2", "br1", "cr1"], "-br1"),
            (&["ar1", "bw1", "cr1"], "-bw1"),
            (&["ag1", "br1", "cr1"], ""),
        ] {
            assert_eq!(acts(&spec(0, 1), pods), want, "{pods:?}");
        }
        assert_eq!(acts(&spec(0, 2), &["ar1", "br1", "cr1"]), "-ar1 -br1");
        assert_eq!(acts(&spec(0, 0), &["ar1", "br1", "cr1"]), "-ar1");
    }

    #[test]
    fn a_pod_in_back_off_does_not_block_other_replacements() {
        let (spec, now) = (spec(0, 1), Time::now());
        let pod = |node: &str, phase: &str, hash: &str| {
            let mut pod = new_pod(&DaemonSet::default(), &spec, hash, node);
            (pod.metadata.name, pod.metadata.uid) = (Some(node.into()), Some(node.into()));
            let status = pod.status.get_or_insert_default();
            status.phase = Some(phase.into());
            status.conditions = [new_condition("Ready", phase == "Running", now)].into();
            Arc::new(pod)
        };
        let node = |name: &str| {
            let mut node = Node::default();
            node.metadata.name = Some(name.into());
            Arc::new(node)
        };
        for (hash, want) in [("1", &["a"][..]), ("2", &[])] {
            let pods = [pod("a", "Failed", hash), pod("b", "Running", "1")];
            let mut picture = PlanInput::new(&spec, "2", &[node("a"), node("b")], &pods, now);
            picture.held.insert("a".into());
            let going: Vec<_> = picture.plan().delete.iter().map(|pod| pod.name().to_owned()).collect();
            assert_eq!(going, want, "{hash}");
        }
    }

    #[test]
    fn with_max_surge_the_new_pod_is_created_first() {
        for (pods, want) in [
            (&["ar1", "br1", "cr1"][..], "+a"),
            (&["ar1", "br1", "cr1", "aw2"], ""),
            (&["ar1", "br1", "cr1", "ar2"], "-ar1"),
            (&["aw1", "br1", "cr1"], "+a +b"),
            (&["aw1", "br1", "cr1", "aw2"], "-aw1"),
            (&["ag1", "br1", "cr1", "ar2"], "+b"),
        ] {
            assert_eq!(acts(&spec(1, 0), pods), want, "{pods:?}");
        }
    }

    #[test]
    fn a_pending_pod_of_a_deleted_node_is_deleted() {
        let mut spec = spec(0, 1);
        spec.update_strategy.get_or_insert_default().type_ = Some("OnDelete".into());
        assert_eq!(acts(&spec, &["ar1", "br1", "cr1", "xr1"]), "");
        let (now, set) = (Time::now(), DaemonSet::default());
        let mut lost = new_pod(&set, &spec, "2", "x");
        lost.status.get_or_insert_default().phase = Some("Pending".into());
        let lost = Arc::new(lost);
        let plan = PlanInput::new(&spec, "2", &[], std::slice::from_ref(&lost), now).plan();
        assert_eq!(plan, Plan { create: Vec::new(), delete: vec![lost] });
    }
}
