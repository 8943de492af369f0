//! Whether a pod may run on a node: selector, required affinity and tolerations.

use kubewright_api::core::v1::{Node, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Taint, Toleration};
use kubewright_core::{Object, Str};

/// The taint of a cordoned node.
pub(crate) const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// The field in an affinity for one node.
pub(crate) const NODE_NAME_FIELD: &str = "metadata.name";

/// Whether a pod's node selector and required affinity allow a node.
#[doc(alias = "GetRequiredNodeAffinity")]
pub(crate) fn is_allowed(spec: &PodSpec, node: &Node) -> bool {
    let has_labels = spec.node_selector.iter().all(|(key, value)| node.labels().get(key) == Some(value.as_str()));
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    has_labels && required.is_none_or(|required| required.node_selector_terms.iter().any(|term| meets(node, term)))
}

/// Whether a node meets a term. An empty term matches no node.
pub(crate) fn meets(node: &Node, term: &NodeSelectorTerm) -> bool {
    let labels = node.labels();
    let asks = !term.match_expressions.is_empty() || !term.match_fields.is_empty();
    let field = |key: &str| (key == NODE_NAME_FIELD).then(|| node.name());
    asks && term.match_expressions.iter().all(|one| holds(one, labels.get(&one.key)))
        && term.match_fields.iter().all(|one| holds(one, field(&one.key)))
}

fn holds(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let is_listed = value.is_some_and(|value| requirement.values.iter().any(|listed| listed == value));
    let compared = || {
        let number = |text: &str| text.parse::<i64>().ok();
        Some(number(value?)?.cmp(&number(requirement.values.first()?)?))
    };
    match &*requirement.operator {
        "In" => is_listed,
        "NotIn" => !is_listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compared().is_some_and(|order| order.is_gt()),
        "Lt" => compared().is_some_and(|order| order.is_lt()),
        _ => false,
    }
}

/// The taints of a node, including that of a cordon, that a pod does not tolerate.
pub(crate) fn repelling(tolerations: &[Toleration], node: &Node) -> Vec<Taint> {
    let spec = node.spec.as_ref();
    let mut taints: Vec<Taint> = spec.into_iter().flat_map(|spec| spec.taints.iter()).cloned().collect();
    if spec.is_some_and(|spec| spec.unschedulable == Some(true)) {
        taints.push(Taint { key: UNSCHEDULABLE.into(), effect: "NoSchedule".into(), ..Default::default() });
    }
    taints.retain(|taint| !tolerations.iter().any(|toleration| tolerates(toleration, taint)));
    taints
}

/// Whether a toleration matches a taint.
#[doc(alias = "ToleratesTaint")]
pub(crate) fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let text = |text: &Option<Str>| text.clone().unwrap_or_default();
    let (key, effect) = (text(&toleration.key), text(&toleration.effect));
    let is_about = (effect.is_empty() || effect == taint.effect) && (key.is_empty() || key == taint.key);
    let exists = toleration.operator.as_deref() == Some("Exists");
    is_about && (exists || !key.is_empty() && text(&toleration.value) == text(&taint.value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_non_empty_term_satisfies_required_affinity() {
        let mut node = Node::default();
        node.metadata.name = Some("one".into());
        node.metadata.labels = [("zone", Str::from("a")), ("size", "8".into())].into();
        let requirement = |text: &str| {
            let mut words = text.split(' ');
            let mut word = || Str::from(words.next().unwrap_or_default());
            NodeSelectorRequirement { key: word(), operator: word(), values: words.map(Str::from).collect() }
        };
        let is_met = |terms: &[(&str, &str)]| {
            let mut spec = PodSpec::default();
            let affinity = spec.affinity.get_or_insert_default().node_affinity.get_or_insert_default();
            let selector = affinity.required_during_scheduling_ignored_during_execution.get_or_insert_default();
            let all = |text: &str| text.split(',').filter(|one| !one.is_empty()).map(requirement).collect();
            let term = |(labels, fields): &(&str, &str)| NodeSelectorTerm {
                match_expressions: all(labels),
                match_fields: all(fields),
            };
            selector.node_selector_terms = terms.iter().map(term).collect();
            is_allowed(&spec, &node)
        };
        for (terms, want) in [
            (&[][..], false),
            (&[("", "")], false),
            (&[("zone In a b", "")], true),
            (&[("zone In b", "")], false),
            (&[("zone In b", ""), ("zone Exists", "")], true),
            (&[("zone In a,size In 9", "")], false),
            (&[("rack NotIn a", "")], true),
            (&[("zone NotIn a", "")], false),
            (&[("rack DoesNotExist", "")], true),
            (&[("size Gt 7", "")], true),
            (&[("size Lt 8", "")], false),
            (&[("zone Gt 7", "")], false),
            (&[("", "metadata.name In one")], true),
            (&[("", "metadata.name In two")], false),
            (&[("zone In a", "metadata.name NotIn one")], false),
        ] {
            assert_eq!(is_met(terms), want, "{terms:?}");
        }
    }
}
