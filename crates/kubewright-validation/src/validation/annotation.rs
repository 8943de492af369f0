//! Validates well-known annotations of pods.

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;
use kubewright_core::tree::{self, Meta, text_map};

use super::metadata::quoted;

/// Marks a mirror pod: a static pod that the kubelet publishes.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// Relative cost of deleting this pod when its ReplicaSet scales down.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Validates the annotations of a pod. Values that were already invalid in `old` are accepted.
pub(super) fn pod_annotations(pod: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let annotations = text_map(pod.meta("annotations"));
    let mut causes = Vec::new();
    if let Some(mirror) = annotations.get(MIRROR)
        && tree::text(pod, &["spec", "nodeName"]).is_empty()
    {
        let why = "must set spec.nodeName if mirror pod annotation is set";
        causes.push(StatusCause::invalid(field(MIRROR), quoted(mirror), why));
    }
    let is_lax = old.is_some_and(|old| text_map(old.meta("annotations")).get(DELETION_COST).is_some_and(is_no_cost));
    if let Some(cost) = annotations.get(DELETION_COST).filter(|cost| !is_lax && is_no_cost(cost)) {
        causes.push(StatusCause::invalid(field(DELETION_COST), quoted(cost), "must be a 32bit integer"));
    }
    causes
}

/// Validates the annotations of an updated pod. The mirror pod annotation is immutable.
pub(super) fn changes(pod: &Value, old: &Value) -> Vec<StatusCause> {
    let [now, before] = [pod, old].map(|pod| text_map(pod.meta("annotations")).get(MIRROR).cloned());
    let why = match (&before, &now) {
        (Some(before), now) if now.as_ref() != Some(before) => Some("may not remove or update mirror pod annotation"),
        (None, Some(_)) => Some("may not add mirror pod annotation"),
        _ => None,
    };
    let mut causes: Vec<_> = why.map(|why| StatusCause::forbidden(field(MIRROR), why)).into_iter().collect();
    causes.extend(pod_annotations(pod, Some(old)));
    causes
}

fn field(annotation: &str) -> String {
    format!("metadata.annotations[{annotation}]")
}

/// Whether `text` is not a valid deletion cost. A plus sign and leading zeros are invalid.
fn is_no_cost(text: impl AsRef<str>) -> bool {
    let text = text.as_ref();
    let begins = match text.bytes().next() {
        Some(b'0') => text == "0",
        Some(first) => first == b'-' || first.is_ascii_digit(),
        None => false,
    };
    !begins || text.parse::<i32>().is_err()
}
