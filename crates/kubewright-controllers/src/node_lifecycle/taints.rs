//! The taints that follow from the conditions of a node.

use kubewright_api::core::v1::{Node, NodeCondition, Taint};
use kubewright_core::{List, Time};

use crate::placement::UNSCHEDULABLE;

pub(crate) const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const NO_SCHEDULE: &str = "NoSchedule";
const NO_EXECUTE: &str = "NoExecute";

/// The taint for a condition with this status.
const OF_CONDITION: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];

/// The condition of this type.
pub(super) fn condition<'a>(node: &'a Node, type_: &str) -> Option<&'a NodeCondition> {
    node.status.as_ref()?.conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether the `Ready` condition is true.
pub(crate) fn is_ready(node: &Node) -> bool {
    condition(node, "Ready").is_some_and(|condition| condition.status == "True")
}

/// The taints that a node should have, if they differ from those it has.
///
/// A node without a `Ready` condition keeps the taints that it was created with. `evicts` is false
/// while no node is ready: the fault is then likely elsewhere, and nothing would be gained.
pub(super) fn changed(node: &Node, evicts: bool, now: Time) -> Option<List<Taint>> {
    let spec = node.spec.as_ref();
    let ready = condition(node, "Ready")?;
    let holds = |type_: &str, status: &str| condition(node, type_).is_some_and(|condition| condition.status == status);
    let mut wanted: Vec<(&str, &str)> = Vec::new();
    for (type_, status, key) in OF_CONDITION {
        if holds(type_, status) {
            wanted.push((key, NO_SCHEDULE));
            if evicts && type_ == ready.type_ {
                wanted.push((key, NO_EXECUTE));
            }
        }
    }
    if spec.is_some_and(|spec| spec.unschedulable == Some(true)) {
        wanted.push((UNSCHEDULABLE, NO_SCHEDULE));
    }
    let have = || spec.into_iter().flat_map(|spec| spec.taints.iter());
    let is_wanted = |taint: &Taint| wanted.iter().any(|(key, effect)| taint.key == *key && taint.effect == *effect);
    let mut taints: List<Taint> = have().filter(|taint| !is_managed(taint) || is_wanted(taint)).cloned().collect();
    let mut is_changed = taints.len() != have().count();
    for (key, effect) in wanted {
        if !have().any(|taint| taint.key == key && taint.effect == effect) {
            is_changed = true;
            let time_added = Some(now);
            taints.push(Taint { key: key.into(), effect: effect.into(), time_added, ..Default::default() });
        }
    }
    is_changed.then_some(taints)
}

/// Whether a taint is one of this controller.
fn is_managed(taint: &Taint) -> bool {
    let evicts = taint.key == NOT_READY || taint.key == UNREACHABLE;
    match &*taint.effect {
        NO_SCHEDULE => taint.key == UNSCHEDULABLE || OF_CONDITION.iter().any(|(_, _, key)| taint.key == *key),
        NO_EXECUTE => evicts,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taints_follow_the_conditions() {
        let not_ready = "node.kubernetes.io/not-ready";
        let unreachable = "node.kubernetes.io/unreachable";
        let of = |condition: &str, unschedulable: bool, taints: &[&str], evicts: bool| {
            let mut node = Node::default();
            let spec = node.spec.get_or_insert_default();
            spec.unschedulable = unschedulable.then_some(true);
            let taint = |text: &&str| {
                let (key, effect) = text.split_once(':').unwrap();
                Taint { key: key.into(), effect: effect.into(), ..Default::default() }
            };
            spec.taints = taints.iter().map(taint).collect();
            for pair in condition.split_whitespace() {
                let (type_, status) = pair.split_once('=').unwrap();
                let new = NodeCondition { type_: type_.into(), status: status.into(), ..Default::default() };
                node.status.get_or_insert_default().conditions.push(new);
            }
            let text = |taint: &Taint| format!("{}:{}", taint.key.rsplit('/').next().unwrap(), taint.effect);
            let mut texts: Vec<String> = changed(&node, evicts, Time::now())?.iter().map(text).collect();
            texts.sort();
            Some(texts.join(" "))
        };
        let with = |key: &str, effect: &str| format!("{key}:{effect}");
        let (created, user) = (with(not_ready, NO_SCHEDULE), with("example.com/own", NO_EXECUTE));
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(of("", false, &[&created], true), None);
        assert_eq!(of("Ready=True", false, &[], true), None);
        assert_eq!(of("Ready=True", false, &[&created, &user], true), some("own:NoExecute"));
        assert_eq!(of("Ready=False", false, &[&created], true), some("not-ready:NoExecute not-ready:NoSchedule"));
        let both = [with(not_ready, NO_SCHEDULE), with(not_ready, NO_EXECUTE)];
        let both = [both[0].as_str(), both[1].as_str()];
        assert_eq!(of("Ready=False", false, &both, true), None);
        assert_eq!(of("Ready=Unknown", false, &both, true), some("unreachable:NoExecute unreachable:NoSchedule"));
        assert_eq!(of("Ready=Unknown", false, &[&with(unreachable, NO_SCHEDULE)], false), None);
        assert_eq!(of("Ready=False", false, &both, false), some("not-ready:NoSchedule"));
        assert_eq!(of("Ready=True MemoryPressure=True", false, &[], true), some("memory-pressure:NoSchedule"));
        assert_eq!(of("Ready=True", true, &[], true), some("unschedulable:NoSchedule"));
        assert_eq!(of("Ready=True", false, &[&with(UNSCHEDULABLE, NO_SCHEDULE)], true), some(""));
    }
}
