//! What an object takes of a quota.

use kubewright_core::{Quantity, Str, Value};

use super::Amounts;
use crate::admission::limits::{containers, pod_total, quantity};
use crate::catalog::Resource;
use crate::object::tree;

/// Resources that quotas count under their own names.
const COUNTED: [&str; 7] =
    ["pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps", "persistentvolumeclaims"];

/// Whether a quota may be about objects of a resource.
pub(super) fn is_counted(resource: &Resource, hard: &Amounts) -> bool {
    let is_named = |name: &str| hard.contains_key(name);
    is_named(&count_name(resource))
        || (resource.group.is_empty() && COUNTED.contains(&&*resource.plural) && is_named(&resource.plural))
        || resource.is("", "pods")
        || resource.is("", "services")
        || resource.is("", "persistentvolumeclaims")
}

/// What an object takes.
pub(super) fn charge(resource: &Resource, object: &Value) -> Amounts {
    let mut amounts = Amounts::new();
    amounts.insert(count_name(resource), Quantity::from(1i64));
    if resource.is("", "pods") {
        let is_over = matches!(tree::text(object, &["status", "phase"]), "Succeeded" | "Failed");
        // What has ended is still counted as an object, and takes nothing else.
        if is_over {
            return amounts;
        }
        for (kind, prefix) in [("requests", "requests."), ("limits", "limits.")] {
            for key in keys(object, kind) {
                let Some(total) = pod_total(object, kind, &key) else { continue };
                if kind == "requests" && matches!(key.as_str(), "cpu" | "memory" | "ephemeral-storage") {
                    amounts.insert(key.clone(), total.clone());
                }
                amounts.insert(format!("{prefix}{key}").into(), total);
            }
        }
    }
    if resource.group.is_empty() && COUNTED.contains(&&*resource.plural) {
        amounts.insert(resource.plural.clone(), Quantity::from(1i64));
    }
    if resource.is("", "services") {
        let ports = tree::items(object, &["spec", "ports"]);
        let ty = tree::text(object, &["spec", "type"]);
        let has_node_ports = ty == "NodePort"
            || (ty == "LoadBalancer"
                && tree::get(object, &["spec", "allocateLoadBalancerNodePorts"]) != Some(&Value::Bool(false)));
        let node_ports = if has_node_ports { ports.len() as i64 } else { 0 };
        amounts.insert("services.nodeports".into(), node_ports.into());
        amounts.insert("services.loadbalancers".into(), i64::from(ty == "LoadBalancer").into());
    }
    if resource.is("", "persistentvolumeclaims") {
        let asked = tree::get(object, &["spec", "resources", "requests", "storage"]).and_then(quantity);
        let class = tree::text(object, &["spec", "storageClassName"]);
        if !class.is_empty() {
            let of_class = format!("{class}.storageclass.storage.k8s.io");
            amounts.insert(format!("{of_class}/persistentvolumeclaims").into(), Quantity::from(1i64));
            amounts.extend(asked.clone().map(|asked| (format!("{of_class}/requests.storage").into(), asked)));
        }
        amounts.extend(asked.map(|asked| ("requests.storage".into(), asked)));
    }
    amounts
}

/// What the containers of a pod have to say where a quota limits it, and do not.
pub(super) fn missing(resource: &Resource, pod: &Value, hard: &Amounts) -> Vec<String> {
    if !resource.is("", "pods") {
        return Vec::new();
    }
    let mut complaints = Vec::new();
    for name in hard.keys() {
        let (kind, key) = match name.as_str() {
            "cpu" | "memory" => ("requests", name.as_str()),
            "requests.cpu" | "requests.memory" => ("requests", &name["requests.".len()..]),
            "limits.cpu" | "limits.memory" => ("limits", &name["limits.".len()..]),
            _ => continue,
        };
        let silent = containers(pod).filter(|container| tree::get(container, &["resources", kind, key]).is_none());
        let names: Vec<&str> = silent.map(|container| tree::text(container, &["name"])).collect();
        if !names.is_empty() {
            complaints.push(format!("{name} for: {}", names.join(",")));
        }
    }
    complaints
}

/// Whether a quota is about an object; only pods differ in this.
pub(super) fn is_in_scope(quota: &Value, resource: &Resource, object: &Value) -> bool {
    let plain = tree::items(quota, &["spec", "scopes"]).iter().filter_map(Value::as_str);
    let mut plain = plain.map(|scope| (scope, "Exists", &[][..]));
    let selected = tree::items(quota, &["spec", "scopeSelector", "matchExpressions"]).iter().map(|expression| {
        let text = |field: &str| tree::text(expression, &[field]);
        (text("scopeName"), text("operator"), tree::items(expression, &["values"]))
    });
    let mut selected = selected.peekable();
    if !resource.is("", "pods") {
        return plain.next().is_none() && selected.peek().is_none();
    }
    plain.chain(selected).all(|(scope, operator, values)| {
        let is_endless = tree::int(object, &["spec", "activeDeadlineSeconds"]).is_none();
        let asks = |kind: &str| !keys(object, kind).is_empty();
        let is_best_effort = !asks("requests") && !asks("limits");
        match scope {
            "Terminating" => !is_endless,
            "NotTerminating" => is_endless,
            "BestEffort" => is_best_effort,
            "NotBestEffort" => !is_best_effort,
            "PriorityClass" => {
                let class = tree::text(object, &["spec", "priorityClassName"]);
                let is_listed = values.iter().any(|value| value.as_str() == Some(class));
                match operator {
                    "In" => is_listed,
                    "NotIn" => !is_listed,
                    "DoesNotExist" => class.is_empty(),
                    _ => !class.is_empty(),
                }
            }
            _ => false,
        }
    })
}

/// The name under which any resource can be counted.
fn count_name(resource: &Resource) -> Str {
    match resource.group.is_empty() {
        true => format!("count/{}", resource.plural).into(),
        false => format!("count/{}.{}", resource.plural, resource.group).into(),
    }
}

/// What the containers of a pod ask for or are limited in.
fn keys(pod: &Value, kind: &str) -> Vec<Str> {
    let asked = containers(pod).filter_map(|container| tree::get(container, &["resources", kind])?.as_object());
    let mut keys: Vec<Str> = asked.flat_map(|asked| asked.keys().cloned()).collect();
    keys.sort();
    keys.dedup();
    keys
}
