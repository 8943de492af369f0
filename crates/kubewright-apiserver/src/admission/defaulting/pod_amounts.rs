//! What a pod asks for as a whole, and may have at the most, beside what its containers say.

use kubewright_core::{Str, Value};

use super::super::limits::containers_total;
use crate::object::tree;

/// Whether a pod says itself what it needs.
pub(super) fn is_whole(spec: &Value) -> bool {
    let kinds = ["requests", "limits"].into_iter();
    let mut amounts = kinds.filter_map(|kind| tree::get(spec, &["resources", kind])?.as_object());
    amounts.any(|amounts| amounts.keys().any(|name| is_for_pods(name)))
}

/// Whether a pod can ask for it as a whole.
pub(in super::super) fn is_for_pods(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || is_huge(name)
}

fn is_huge(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Fills in what a pod with limits asks for: what its containers do, or the limits.
pub(super) fn complete(spec: &mut Value) {
    if spec.get("resources").is_none() {
        return;
    }
    let has = |spec: &Value, kind: &str| !names(spec, kind).is_empty();
    if has(spec, "limits") || has(spec, "requests") {
        for name in named_by_containers(spec, "limits").into_iter().filter(|name| is_huge(name)) {
            // Who asks for pages is taken at the word.
            if tree::get(spec, &["resources", "requests", &name]).is_none() {
                set_total(spec, "limits", &name);
            }
        }
    }
    if has(spec, "limits") {
        for name in named_by_containers(spec, "requests").into_iter().filter(|name| !is_huge(name)) {
            set_total(spec, "requests", &name);
        }
        for name in names(spec, "limits").into_iter().filter(|name| is_for_pods(name)) {
            if let Some(limit) = tree::get(spec, &["resources", "limits", &name]).cloned() {
                tree::object(spec, &["resources", "requests"]).get_or_insert_with(name, || limit);
            }
        }
    }
}

fn names(spec: &Value, kind: &str) -> Vec<Str> {
    let amounts = tree::get(spec, &["resources", kind]).and_then(Value::as_object);
    amounts.map_or_else(Vec::new, |amounts| amounts.keys().cloned().collect())
}

/// What containers name, and a pod could ask for.
fn named_by_containers(spec: &Value, kind: &str) -> Vec<Str> {
    let containers = ["containers", "initContainers"].into_iter().flat_map(|list| tree::items(spec, &[list]));
    let mut all: Vec<Str> = containers.flat_map(|container| names(container, kind)).collect();
    all.retain(|name| is_for_pods(name));
    all.sort();
    all.dedup();
    all
}

fn set_total(spec: &mut Value, kind: &str, name: &str) {
    if let Some(total) = containers_total(spec, kind, name) {
        tree::object(spec, &["resources", kind]).get_or_insert_with(name, || total.to_string().into());
    }
}
