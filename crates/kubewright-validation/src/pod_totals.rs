//! The resources that the containers of a pod request together.

use std::collections::BTreeMap;

use kubewright_core::tree;
use kubewright_core::{Quantity, Str, Value};

use crate::defaulting::is_for_pods;

/// What the containers of a pod with this specification ask for: all of them and of the sidecars,
/// or the largest of those that run before them with the sidecars that run by then.
pub(crate) fn containers_totals(spec: &Value, kind: &str) -> BTreeMap<Str, Quantity> {
    let asked = |container| amounts(tree::get(container, &["resources", kind]));
    let (mut together, mut before) = (BTreeMap::<Str, Quantity>::new(), BTreeMap::<Str, Quantity>::new());
    for container in tree::items(spec, &["initContainers"]) {
        let is_sidecar = tree::text(container, &["restartPolicy"]) == "Always";
        for (name, amount) in asked(container) {
            let with_sidecars = together.get(&name).cloned().unwrap_or_default() + &amount;
            if is_sidecar {
                together.insert(name.clone(), with_sidecars.clone());
            }
            let most = before.entry(name).or_insert_with(|| with_sidecars.clone());
            if *most < with_sidecars {
                *most = with_sidecars;
            }
        }
    }
    for (name, amount) in tree::items(spec, &["containers"]).iter().flat_map(asked) {
        *together.entry(name).or_default() += &amount;
    }
    for (name, most) in before {
        let total = together.entry(name).or_insert_with(|| most.clone());
        if *total < most {
            *total = most;
        }
    }
    together
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
    totals.extend(own.filter(|(name, _)| is_for_pods(name)));
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
