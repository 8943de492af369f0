//! Resolves `matchLabelKeys`: selectors that take values from the pod's own labels.
//!
//! The values are resolved once, at pod creation. Schedulers then see plain label selectors.

use kubewright_core::tree::{self, Meta, text_map};
use kubewright_core::{List, Map, Str, Value};

const TERMS: [&str; 2] =
    ["preferredDuringSchedulingIgnoredDuringExecution", "requiredDuringSchedulingIgnoredDuringExecution"];

/// Adds the requirements of `matchLabelKeys` and `mismatchLabelKeys` to the selectors of a new pod.
pub(super) fn resolve(pod: &mut Value) {
    let has_keys = |spec: &Value| spec.get("affinity").or(spec.get("topologySpreadConstraints")).is_some();
    if !pod.get("spec").is_some_and(has_keys) {
        return;
    }
    let labels = text_map(pod.meta("labels"));
    let Some(spec) = tree::field_mut(pod, "spec") else { return };
    for constraint in tree::items_mut(spec, "topologySpreadConstraints") {
        add(constraint, &labels);
    }
    let Some(affinity) = tree::field_mut(spec, "affinity") else { return };
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(terms) = tree::field_mut(affinity, kind) else { continue };
        for list in TERMS {
            for term in tree::items_mut(terms, list) {
                match tree::field_mut(term, "podAffinityTerm") {
                    Some(term) => add(term, &labels),
                    None => add(term, &labels),
                }
            }
        }
    }
}

fn add(term: &mut Value, labels: &Map<Str>) {
    let mut more = Vec::new();
    for (keys, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        let keys = tree::items(term, &[keys]).iter().filter_map(Value::as_str);
        more.extend(keys.filter_map(|key| {
            let values = tree::list([labels.get(key)?.as_str()]);
            Some(tree::map([("key", key.into()), ("operator", operator.into()), ("values", values)]))
        }));
    }
    // An absent selector selects nothing, with or without further requirements.
    if let Some(Value::Object(selector)) = tree::field_mut(term, "labelSelector").filter(|_| !more.is_empty())
        && let Value::Array(list) = selector.get_or_insert_with("matchExpressions", || Value::Array(List::new()))
    {
        more.into_iter().for_each(|requirement| list.push(requirement));
    }
}
