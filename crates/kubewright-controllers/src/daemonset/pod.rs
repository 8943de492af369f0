//! The pods of a daemon set: node affinity and tolerations.

use kubewright_api::apps::v1::{DaemonSet, DaemonSetSpec};
use kubewright_api::core::v1::{Node, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, Toleration};
use kubewright_core::{Object, owner};

use super::KIND;
use crate::placement::{self, NODE_NAME_FIELD, UNSCHEDULABLE};
use crate::pods::node_name;
use crate::revisions::REVISION_LABEL;

/// Tolerations of every daemon pod: it stays on its node in any state.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    (UNSCHEDULABLE, "NoSchedule"),
];
/// Toleration of pods with host networking.
const NO_NETWORK: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// Whether a node should have a pod, and whether an existing one may stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NodeMatch {
    pub(super) is_wanted: bool,
    pub(super) may_stay: bool,
}

/// Matches a node against a daemon set.
#[doc(alias = "NodeShouldRunDaemonPod")]
pub(super) fn place(spec: &DaemonSetSpec, node: &Node) -> NodeMatch {
    let Some(template) = &spec.template.spec else { return NodeMatch { is_wanted: false, may_stay: false } };
    let is_named = template.node_name.as_deref().is_none_or(|name| name.is_empty() || name == node.name());
    if !is_named || !placement::is_allowed(template, node) {
        return NodeMatch { is_wanted: false, may_stay: false };
    }
    let repelling = placement::repelling(&tolerations(template), node);
    let has = |effects: &[&str]| repelling.iter().any(|taint| effects.contains(&&*taint.effect));
    NodeMatch { is_wanted: !has(&["NoSchedule", "NoExecute"]), may_stay: !has(&["NoExecute"]) }
}

#[doc(alias = "AddOrUpdateDaemonPodTolerations")]
fn tolerations(template: &PodSpec) -> Vec<Toleration> {
    let toleration = |(key, effect): (&str, &str)| Toleration {
        key: Some(key.into()),
        operator: Some("Exists".into()),
        effect: Some(effect.into()),
        ..Default::default()
    };
    let more = TOLERATED.into_iter().chain((template.host_network == Some(true)).then_some(NO_NETWORK)).map(toleration);
    let mut all: Vec<_> = template.tolerations.iter().cloned().collect();
    for one in more {
        match all.iter_mut().find(|have| have.key == one.key && have.effect == one.effect) {
            Some(have) => *have = one,
            None => all.push(one),
        }
    }
    all
}

/// A pod for a node.
#[doc(alias = "CreatePodTemplate")]
pub(super) fn new_pod(set: &DaemonSet, spec: &DaemonSetSpec, hash: &str, node: &str) -> Pod {
    let template = &spec.template;
    let mut pod = Pod { spec: template.spec.clone(), ..Default::default() };
    pod.metadata.generate_name = Some(format!("{}-", set.name()).into());
    pod.metadata.namespace = set.metadata.namespace.clone();
    pod.metadata.labels = template.metadata.labels.clone();
    pod.metadata.labels.insert(REVISION_LABEL, hash.into());
    pod.metadata.annotations = template.metadata.annotations.clone();
    pod.metadata.finalizers = template.metadata.finalizers.clone();
    pod.metadata.owner_references = [owner::new_controller_ref(&set.metadata, &KIND)].into();
    let pod_spec = pod.spec.get_or_insert_default();
    pod_spec.tolerations = tolerations(pod_spec).into_iter().collect();
    ask_for(pod_spec, node);
    pod
}

/// Adds an affinity for this node only. Other requirements were checked when the node was matched.
#[doc(alias = "ReplaceDaemonSetPodNodeNameNodeAffinity")]
fn ask_for(spec: &mut PodSpec, node: &str) {
    let affinity = spec.affinity.get_or_insert_default().node_affinity.get_or_insert_default();
    let required = affinity.required_during_scheduling_ignored_during_execution.get_or_insert_default();
    let name =
        NodeSelectorRequirement { key: NODE_NAME_FIELD.into(), operator: "In".into(), values: [node.into()].into() };
    required.node_selector_terms = [NodeSelectorTerm { match_fields: [name].into(), ..Default::default() }].into();
}

/// The node of a pod: the assigned one, or the one in its affinity.
#[doc(alias = "GetTargetNodeName")]
pub(super) fn target(pod: &Pod) -> Option<String> {
    if !node_name(pod).is_empty() {
        return Some(node_name(pod).to_owned());
    }
    let affinity = pod.spec.as_ref()?.affinity.as_ref()?.node_affinity.as_ref()?;
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
    let fields = required.node_selector_terms.iter().flat_map(|term| term.match_fields.iter());
    fields
        .filter(|field| field.key == NODE_NAME_FIELD)
        .find_map(|field| field.values.first().map(|name| name.to_string()))
}

#[cfg(test)]
mod tests {
    use kubewright_api::core::v1::Taint;

    use super::*;

    #[test]
    fn a_node_runs_a_pod_unless_a_predicate_fails() {
        let mut spec = DaemonSetSpec::default();
        let template = spec.template.spec.get_or_insert_default();
        template.node_selector.insert("role", "worker".into());
        let node = |role: &str, taint: Option<(&str, &str)>| {
            let mut node = Node::default();
            node.metadata.name = Some("one".into());
            node.metadata.labels.insert("role", role.into());
            let taint =
                taint.map(|(key, effect)| Taint { key: key.into(), effect: effect.into(), ..Default::default() });
            node.spec.get_or_insert_default().taints = taint.into_iter().collect();
            node
        };
        for (role, taint, is_wanted, may_stay) in [
            ("worker", None, true, true),
            ("master", None, false, false),
            ("worker", Some(("own", "NoSchedule")), false, true),
            ("worker", Some(("own", "NoExecute")), false, false),
            ("worker", Some(("own", "PreferNoSchedule")), true, true),
            ("worker", Some((UNSCHEDULABLE, "NoSchedule")), true, true),
            ("worker", Some(("node.kubernetes.io/not-ready", "NoExecute")), true, true),
        ] {
            assert_eq!(place(&spec, &node(role, taint)), NodeMatch { is_wanted, may_stay }, "{role} {taint:?}");
        }
        let mut cordoned = node("worker", None);
        cordoned.spec.get_or_insert_default().unschedulable = Some(true);
        assert!(place(&spec, &cordoned).is_wanted);
        spec.template.spec.get_or_insert_default().node_name = Some("two".into());
        assert!(!place(&spec, &node("worker", None)).is_wanted);
    }

    #[test]
    fn a_pod_has_node_affinity_to_its_node() {
        let set = DaemonSet::default();
        let mut spec = DaemonSetSpec::default();
        spec.template.spec.get_or_insert_default().host_network = Some(true);
        let mut pod = new_pod(&set, &spec, "abc", "one");
        assert_eq!((target(&pod).as_deref(), pod.labels().get(REVISION_LABEL)), (Some("one"), Some("abc")));
        assert_eq!(pod.spec.as_ref().unwrap().tolerations.len(), 7);
        pod.spec.get_or_insert_default().node_name = Some("two".into());
        assert_eq!(target(&pod).as_deref(), Some("two"));
        assert_eq!(target(&Pod::default()), None);
    }
}
