//! The resources that the containers of a pod request together.

use std::collections::BTreeMap;

use kubewright_core::{Quantity, Str, Value};

use crate::object::tree;

/// The effective requests or limits of a pod's containers. This is the larger of two sums: all
/// containers with all sidecars, and the largest init container with the sidecars started before it.
pub(super) fn containers_totals(spec: &Value, kind: &str) -> BTreeMap<Str, Quantity> {
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
pub(super) fn amounts(object: Option<&Value>) -> impl Iterator<Item = (Str, Quantity)> {
    let entries = object.and_then(Value::as_object).into_iter().flat_map(|entries| entries.iter());
    entries.filter_map(|(name, value)| Some((name.clone(), quantity(value)?)))
}

/// A quantity in a tree, if there is one.
pub(super) fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::Int(number) => Some(Quantity::from(*number)),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}
