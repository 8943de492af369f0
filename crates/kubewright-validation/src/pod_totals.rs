//! The total resource requests and limits of a pod.

use std::collections::BTreeMap;

use kubewright_core::{Quantity, Str, Value, tree};

/// The total requests or limits of the containers of a pod spec.
///
/// For each resource, this is the larger of two amounts. One is the sum over the containers and the
/// sidecars. The other is the largest amount while an init container runs: its own, plus that of
/// the sidecars that have started by then.
pub(crate) fn containers_totals(spec: &Value, kind: &str) -> BTreeMap<Str, Quantity> {
    let amounts_of = |container| amounts(tree::get(container, &["resources", kind]));
    let (mut sum, mut peak) = (BTreeMap::<Str, Quantity>::new(), BTreeMap::<Str, Quantity>::new());
    for container in tree::items(spec, &["initContainers"]) {
        let is_sidecar = tree::text(container, &["restartPolicy"]) == "Always";
        for (name, amount) in amounts_of(container) {
            let with_sidecars = sum.get(&name).cloned().unwrap_or_default() + &amount;
            if is_sidecar {
                sum.insert(name.clone(), with_sidecars.clone());
            }
            let largest = peak.entry(name).or_insert_with(|| with_sidecars.clone());
            if *largest < with_sidecars {
                *largest = with_sidecars;
            }
        }
    }
    for (name, amount) in tree::items(spec, &["containers"]).iter().flat_map(amounts_of) {
        *sum.entry(name).or_default() += &amount;
    }
    for (name, largest) in peak {
        let total = sum.entry(name).or_insert_with(|| largest.clone());
        if *total < largest {
            *total = largest;
        }
    }
    sum
}

/// The quantities of an object, by name.
pub fn amounts(object: Option<&Value>) -> impl Iterator<Item = (Str, Quantity)> {
    let entries = object.and_then(Value::as_object).into_iter().flat_map(|entries| entries.iter());
    entries.filter_map(|(name, value)| Some((name.clone(), quantity(value)?)))
}

/// A quantity in a tree, if there is one.
pub fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::Int(number) => Some(Quantity::from(*number)),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

/// The total requests or limits of a pod including its overhead. Pod-level resources replace the
/// sum over the containers.
pub fn pod_totals(pod: &Value, kind: &str) -> BTreeMap<Str, Quantity> {
    let Some(spec) = pod.get("spec") else { return BTreeMap::new() };
    let mut totals = containers_totals(spec, kind);
    let own = amounts(tree::get(spec, &["resources", kind]));
    totals.extend(own.filter(|(name, _)| is_pod_level_resource(name)));
    for (name, overhead) in amounts(spec.get("overhead")) {
        match totals.get_mut(&name) {
            Some(total) => *total += &overhead,
            // The overhead alone does not give a pod a limit.
            None if kind == "limits" => {}
            None => drop(totals.insert(name, overhead)),
        }
    }
    totals
}

/// Whether a resource is supported at pod level.
pub(crate) fn is_pod_level_resource(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || is_huge_pages(name)
}

/// Whether a resource is huge pages of some size.
pub(crate) fn is_huge_pages(name: &str) -> bool {
    name.starts_with("hugepages-")
}
