//! Cells of namespaces, ConfigMaps, Secrets and quotas.

use kubewright_core::{Value, tree};

use crate::object::{PrintedObject, amount};

/// Name, status, age.
pub(super) fn namespace(object: &PrintedObject<'_>) -> Vec<Value> {
    vec![object.name(), object.text(&["status", "phase"]).into(), object.age()]
}

/// Name, number of entries, age.
pub(super) fn config_map(object: &PrintedObject<'_>) -> Vec<Value> {
    vec![object.name(), (object.count(&["data"]) + object.count(&["binaryData"])).into(), object.age()]
}

/// Name, type, number of entries, age.
pub(super) fn secret(object: &PrintedObject<'_>) -> Vec<Value> {
    vec![object.name(), object.text(&["type"]).into(), object.count(&["data"]).into(), object.age()]
}

/// Name, requests, limits, age.
pub(super) fn resource_quota(object: &PrintedObject<'_>) -> Vec<Value> {
    let mut columns: [Vec<String>; 2] = Default::default();
    let hard = object.at(&["status", "hard"]).and_then(Value::as_object);
    for (resource, hard) in hard.iter().flat_map(|hard| hard.iter()) {
        let used = amount(tree::get(object.value, &["status", "used", resource]));
        let is_limit = resource.starts_with("limits.");
        columns[usize::from(is_limit)].push(format!("{resource}: {used}/{}", amount(Some(hard))));
    }
    let [requests, limits] = columns.map(|column| Value::from(column.join(", ")));
    vec![object.name(), requests, limits, object.age()]
}
