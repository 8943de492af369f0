//! Defaults of pod-level resources.

use kubewright_core::{Quantity, Str, Value, tree};

use crate::pod_totals::{containers_totals, is_huge_pages, is_pod_level_resource};

/// Whether a pod sets pod-level resources.
pub(super) fn has_pod_level_resources(spec: &Value) -> bool {
    let kinds = ["requests", "limits"].into_iter();
    let mut amounts = kinds.filter_map(|kind| tree::get(spec, &["resources", kind])?.as_object());
    amounts.any(|amounts| amounts.keys().any(|name| is_pod_level_resource(name)))
}

/// Sets the pod-level requests: the sum of the containers' requests, or else the pod limits.
pub(super) fn complete(spec: &mut Value) {
    if spec.get("resources").is_none() {
        return;
    }
    let has = |spec: &Value, kind: &str| !names(spec, kind).is_empty();
    if has(spec, "limits") || has(spec, "requests") {
        for (name, total) in containers_totals(spec, "limits").into_iter().filter(|(name, _)| is_huge_pages(name)) {
            // An explicit huge page request is kept as it is.
            if tree::get(spec, &["resources", "requests", &name]).is_none() {
                set_total(spec, "limits", name, &total);
            }
        }
    }
    if has(spec, "limits") {
        let asked = containers_totals(spec, "requests").into_iter();
        for (name, total) in asked.filter(|(name, _)| is_pod_level_resource(name) && !is_huge_pages(name)) {
            set_total(spec, "requests", name, &total);
        }
        for name in names(spec, "limits").into_iter().filter(|name| is_pod_level_resource(name)) {
            if let Some(limit) = tree::get(spec, &["resources", "limits", &name]).cloned() {
                tree::object_mut(spec, &["resources", "requests"]).get_or_insert_with(name, || limit);
            }
        }
    }
}

fn names(spec: &Value, kind: &str) -> Vec<Str> {
    let amounts = tree::get(spec, &["resources", kind]).and_then(Value::as_object);
    amounts.map_or_else(Vec::new, |amounts| amounts.keys().cloned().collect())
}

fn set_total(spec: &mut Value, kind: &str, name: Str, total: &Quantity) {
    tree::object_mut(spec, &["resources", kind]).get_or_insert_with(name, || total.to_string().into());
}
