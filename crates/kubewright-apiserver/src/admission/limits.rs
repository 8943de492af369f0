//! LimitRanges: what containers get that ask for nothing, and how much anybody may ask for.

use kubewright_core::meta::v1::Status;
use kubewright_core::{Quantity, Str, Value};

use super::defaulting;
use crate::catalog::Resource;
use crate::object::{Meta, tree};
use crate::registry::Registry;
use crate::rejection::Rejection;
use crate::storage::Scope;

/// The annotation that says what was filled in.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// Fills in what the containers of a new pod ask for.
pub(crate) fn set_defaults(registry: &Registry, resource: &Resource, namespace: &str, pod: &mut Value) {
    if !resource.is("", "pods") {
        return;
    }
    let mut notes = Vec::new();
    let ranges = all(registry, namespace);
    if !ranges.is_empty() {
        // What a container or a pod may use at the most is what it asks for, before anybody else says what it asks for.
        defaulting::pod::pod_requests(pod);
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
        tree::object(pod, &["metadata", "annotations"]).insert(ANNOTATION, note.into());
    }
}

/// Fills in one container; says what was missing.
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
        tree::object(container, &["resources", field]).extend(missing);
    }
    notes
}

/// Refuses what asks for too much or too little.
pub(crate) fn check(registry: &Registry, resource: &Resource, value: &Value) -> Result<(), Rejection> {
    let (is_pod, is_claim) = (resource.is("", "pods"), resource.is("", "persistentvolumeclaims"));
    if !is_pod && !is_claim {
        return Ok(());
    }
    let mut complaints = Vec::new();
    for range in all(registry, value.namespace()) {
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
                    compare(item, "Pod", &|kind, key| pod_total(value, kind, key), &mut complaints);
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

/// Compares what is asked for with the limits of one item.
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

/// What a pod asks for as a whole, and what it costs to run a pod at all. What the pod itself says counts more than what its
/// containers say.
pub(super) fn pod_total(pod: &Value, kind: &str, key: &str) -> Option<Quantity> {
    let spec = pod.get("spec")?;
    let own = tree::get(spec, &["resources", kind, key]).filter(|_| defaulting::pod_amounts::is_for_pods(key));
    let total = own.and_then(quantity).or_else(|| containers_total(spec, kind, key));
    let overhead = tree::get(spec, &["overhead", key]).and_then(quantity);
    // A pod without a limit does not get one by it.
    plus(total.clone(), overhead.filter(|_| kind != "limits" || total.is_some()))
}

/// What the containers of a pod with this specification ask for: all of them and of the sidecars, or the largest of those that run
/// before them with the sidecars that run by then.
pub(super) fn containers_total(spec: &Value, kind: &str, key: &str) -> Option<Quantity> {
    let asked = |container: &Value| quantity(tree::get(container, &["resources", kind, key])?);
    let (mut sidecars, mut before) = (None, None);
    for container in tree::items(spec, &["initContainers"]) {
        let with_sidecars = plus(sidecars.clone(), asked(container));
        if tree::text(container, &["restartPolicy"]) == "Always" {
            sidecars = with_sidecars.clone();
        }
        before = before.max(with_sidecars);
    }
    let together = tree::items(spec, &["containers"]).iter().map(asked).fold(sidecars, plus);
    together.max(before)
}

fn plus(one: Option<Quantity>, other: Option<Quantity>) -> Option<Quantity> {
    match (one, other) {
        (Some(one), Some(other)) => Some([one, other].iter().sum()),
        (one, other) => one.or(other),
    }
}

/// All containers of a pod.
pub(super) fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    ["containers", "initContainers"].into_iter().flat_map(|field| tree::items(pod, &["spec", field]))
}

/// A quantity in a tree, if there is one.
pub(super) fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::Int(number) => Some(Quantity::from(*number)),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

fn bounds(item: &Value, field: &str) -> Vec<(Str, Quantity)> {
    let entries = item.get(field).and_then(Value::as_object);
    let entries = entries.into_iter().flat_map(|entries| entries.iter());
    entries.filter_map(|(key, value)| Some((key.clone(), quantity(value)?))).collect()
}

fn all(registry: &Registry, namespace: &str) -> Vec<Value> {
    let entries = registry.all(&Scope::namespace("limitranges", namespace));
    entries.into_iter().map(|entry| entry.object.value().clone()).collect()
}
