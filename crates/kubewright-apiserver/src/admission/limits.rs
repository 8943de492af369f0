//! LimitRanges: default resources of containers, and limits for pods, containers and claims.

use std::cell::LazyCell;

use kubewright_core::meta::v1::Status;
use kubewright_core::{Quantity, Str, Value};

use crate::admission::plugins::AdmissionPlugin;
use crate::admission::state::ClusterState;
use kubewright_objects::object::{Meta, tree};
use kubewright_objects::rejection::Rejection;
use kubewright_resources::catalog::Resource;
use kubewright_storage::KeyRange;
use kubewright_validation::defaulting;
use kubewright_validation::pod_totals::{amounts, pod_totals, quantity};

/// The annotation that lists the defaults set by a LimitRange.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// Sets the default requests and limits of the containers of a new pod.
pub(crate) fn set_defaults(cluster: &dyn ClusterState, resource: &Resource, namespace: &str, pod: &mut Value) {
    if !cluster.has_plugin(AdmissionPlugin::LimitRanger) {
        return;
    }
    if !resource.is("", "pods") {
        return;
    }
    let mut notes = Vec::new();
    let ranges = all(cluster, namespace);
    if !ranges.is_empty() {
        // Limits become requests first, so that they win over the default requests of the range.
        defaulting::pod_requests(pod);
    }
    for range in ranges {
        let items = tree::items(&range, &["spec", "limits"]).iter();
        for item in items.filter(|item| tree::text(item, &["type"]) == "Container") {
            let Some(spec) = tree::field_mut(pod, "spec") else { return };
            for (field, what) in [("containers", "container"), ("initContainers", "init container")] {
                for container in tree::items_mut(spec, field) {
                    notes.extend(complete(item, what, container));
                }
            }
        }
    }
    if !notes.is_empty() {
        let note = format!("LimitRanger plugin set: {}", notes.join("; "));
        tree::object_mut(pod, &["metadata", "annotations"]).insert(ANNOTATION, note.into());
    }
}

/// Sets the defaults of one container. Returns what it set.
fn complete(item: &Value, what: &str, container: &mut Value) -> Vec<String> {
    let name = tree::text(container, &["name"]).to_owned();
    let mut notes = Vec::new();
    for (source, field, singular) in [("defaultRequest", "requests", "request"), ("default", "limits", "limit")] {
        let Some(defaults) = item.get(source).and_then(Value::as_object) else { continue };
        let have = tree::get(container, &["resources", field]).and_then(Value::as_object);
        let is_missing = |key: &Str| have.is_none_or(|have| !have.contains_key(key));
        let missing: Vec<(Str, Value)> = defaults
            .iter()
            .filter(|(key, _)| is_missing(key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        if missing.is_empty() {
            continue;
        }
        let keys: Vec<&str> = missing.iter().map(|(key, _)| key.as_str()).collect();
        notes.push(format!("{} {singular} for {what} {name}", keys.join(", ")));
        tree::object_mut(container, &["resources", field]).extend(missing);
    }
    notes
}

/// Rejects an object that violates the limits.
pub(crate) fn check(cluster: &dyn ClusterState, resource: &Resource, value: &Value) -> Result<(), Rejection> {
    if !cluster.has_plugin(AdmissionPlugin::LimitRanger) {
        return Ok(());
    }
    let (is_pod, is_claim) = (resource.is("", "pods"), resource.is("", "persistentvolumeclaims"));
    if !is_pod && !is_claim {
        return Ok(());
    }
    let mut complaints = Vec::new();
    let totals = LazyCell::new(|| ["requests", "limits"].map(|kind| pod_totals(value, kind)));
    for range in all(cluster, value.namespace()) {
        for item in tree::items(&range, &["spec", "limits"]) {
            match (tree::text(item, &["type"]), is_pod) {
                ("Container", true) => {
                    for container in containers(value) {
                        let asked = container.get("resources").unwrap_or(&Value::Null);
                        compare(
                            item,
                            "Container",
                            &|kind, key| quantity(tree::get(asked, &[kind, key])?),
                            &mut complaints,
                        );
                    }
                }
                ("Pod", true) => {
                    let total = |kind: &str, key: &str| totals[usize::from(kind == "limits")].get(key).cloned();
                    compare(item, "Pod", &total, &mut complaints);
                }
                ("PersistentVolumeClaim", false) => compare_claim(item, value, &mut complaints),
                _ => {}
            }
        }
    }
    let why = match &complaints[..] {
        [] => return Ok(()),
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    };
    Err(Status::forbidden(&resource.group_resource(), value.name(), why).into())
}

/// Compares requests and limits with one item of a LimitRange.
fn compare(item: &Value, of: &str, asked: &dyn Fn(&str, &str) -> Option<Quantity>, complaints: &mut Vec<String>) {
    for (key, bound) in bounds(item, "min") {
        let (request, limit) = (asked("requests", &key), asked("limits", &key));
        let head = format!("minimum {key} usage per {of} is {bound}");
        match (request, limit) {
            (None, _) => complaints.push(format!("{head}.  No request is specified")),
            (Some(request), _) if request < bound => complaints.push(format!("{head}, but request is {request}")),
            (_, Some(limit)) if limit < bound => complaints.push(format!("{head}, but limit is {limit}")),
            _ => {}
        }
    }
    for (key, bound) in bounds(item, "max") {
        let (request, limit) = (asked("requests", &key), asked("limits", &key));
        let head = format!("maximum {key} usage per {of} is {bound}");
        match (request, limit) {
            (_, None) => complaints.push(format!("{head}.  No limit is specified")),
            (_, Some(limit)) if limit > bound => complaints.push(format!("{head}, but limit is {limit}")),
            (Some(request), _) if request > bound => complaints.push(format!("{head}, but request is {request}")),
            _ => {}
        }
    }
    for (key, bound) in bounds(item, "maxLimitRequestRatio") {
        let head = format!("{key} max limit to request ratio per {of} is {bound}");
        let request = asked("requests", &key).filter(|request| !request.is_zero());
        match (request, asked("limits", &key)) {
            (Some(request), Some(limit)) => {
                let ratio = limit.to_f64() / request.to_f64();
                if ratio > bound.to_f64() {
                    complaints.push(format!("{head}, but provided ratio is {ratio:.6}"));
                }
            }
            (None, _) => complaints.push(format!("{head}, but no request is specified or request is 0")),
            (_, None) => complaints.push(format!("{head}, but no limit is specified or limit is 0")),
        }
    }
}

fn compare_claim(item: &Value, claim: &Value, complaints: &mut Vec<String>) {
    let asked = |key: &str| quantity(tree::get(claim, &["spec", "resources", "requests", key])?);
    for (kind, word) in [("min", "minimum"), ("max", "maximum")] {
        for (key, bound) in bounds(item, kind) {
            let head = format!("{word} {key} usage per PersistentVolumeClaim is {bound}");
            match asked(&key) {
                None => complaints.push(format!("{head}.  No request is specified")),
                Some(request) if (kind == "min" && request < bound) || (kind == "max" && request > bound) => {
                    complaints.push(format!("{head}, but request is {request}"));
                }
                Some(_) => {}
            }
        }
    }
}

/// All containers of a pod.
pub(super) fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    ["containers", "initContainers"].into_iter().flat_map(|field| tree::items(pod, &["spec", field]))
}

fn bounds(item: &Value, field: &str) -> Vec<(Str, Quantity)> {
    amounts(item.get(field)).collect()
}

fn all(cluster: &dyn ClusterState, namespace: &str) -> Vec<Value> {
    let entries = cluster.all(&KeyRange::namespace("limitranges", namespace));
    entries.into_iter().map(|entry| entry.object.value().clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubewright_testing::{assert_linear, processor_time};

    #[test]
    fn totals_of_many_containers_with_distinct_resources_are_linear() {
        assert_linear(400, |count| {
            let container =
                |number| format!(r#"{{"resources":{{"requests":{{"example.com/{number}":"1","cpu":"1m"}}}}}}"#);
            let containers: Vec<String> = (0..count).map(container).collect();
            let pod = format!(r#"{{"spec":{{"containers":[{}]}}}}"#, containers.join(","));
            let pod = pod.parse().expect("valid JSON");
            let start = processor_time();
            let totals = pod_totals(&pod, "requests");
            assert_eq!((totals.len(), totals["cpu"].milli_value()), (count + 1, count as i64));
            start
        });
    }
}
