//! Computes how much of a quota an object uses.

use kubewright_core::{Quantity, Str, Value};

use super::Amounts;
use crate::admission::limits::containers;
use kubewright_objects::object::tree;
use kubewright_validation::pod_totals::{pod_totals, quantity};

/// Resources that quotas count under their plural, besides `count/…`.
const COUNTED: [&str; 7] =
    ["pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps", "persistentvolumeclaims"];

/// The properties of an object that quota scopes select. Only pods differ.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ScopeClass {
    Pod { is_terminating: bool, is_best_effort: bool, priority_class: Str },
    Other,
}

/// The class of an object. `resource` is the storage name of its resource.
pub(super) fn class(resource: &str, object: &Value) -> ScopeClass {
    if resource != "pods" {
        return ScopeClass::Other;
    }
    let asks = |container: &Value, kind: &str| {
        tree::get(container, &["resources", kind]).and_then(Value::as_object).is_some_and(|asked| !asked.is_empty())
    };
    let parts = containers(object).chain(object.get("spec"));
    ScopeClass::Pod {
        is_terminating: tree::int(object, &["spec", "activeDeadlineSeconds"]).is_some(),
        is_best_effort: !{ parts }.any(|part| asks(part, "requests") || asks(part, "limits")),
        priority_class: tree::text(object, &["spec", "priorityClassName"]).into(),
    }
}

/// The usage of an object. `resource` is the storage name of its resource.
pub(super) fn charge(resource: &str, object: &Value) -> Amounts {
    let mut amounts = Amounts::new();
    amounts.insert(format!("count/{resource}").into(), Quantity::from(1i64));
    if resource == "pods" {
        let is_over = matches!(tree::text(object, &["status", "phase"]), "Succeeded" | "Failed");
        // A terminated pod counts as an object only.
        if is_over {
            return amounts;
        }
        for (kind, prefix) in [("requests", "requests."), ("limits", "limits.")] {
            for (key, total) in pod_totals(object, kind) {
                if kind == "requests" && matches!(key.as_str(), "cpu" | "memory" | "ephemeral-storage") {
                    amounts.insert(key.clone(), total.clone());
                }
                amounts.insert(format!("{prefix}{key}").into(), total);
            }
        }
    }
    if COUNTED.contains(&resource) {
        amounts.insert(resource.into(), Quantity::from(1i64));
    }
    if resource == "services" {
        let ports = tree::items(object, &["spec", "ports"]);
        let ty = tree::text(object, &["spec", "type"]);
        let has_node_ports = ty == "NodePort"
            || (ty == "LoadBalancer"
                && tree::get(object, &["spec", "allocateLoadBalancerNodePorts"]) != Some(&Value::Bool(false)));
        let node_ports = if has_node_ports { ports.len() as i64 } else { 0 };
        amounts.insert("services.nodeports".into(), node_ports.into());
        amounts.insert("services.loadbalancers".into(), i64::from(ty == "LoadBalancer").into());
    }
    if resource == "persistentvolumeclaims" {
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

/// The requests and limits that a quota requires and a pod does not set.
pub(super) fn missing(resource: &str, pod: &Value, hard: &Amounts) -> Vec<String> {
    if resource != "pods" {
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

/// Whether the scopes of a quota select a class.
pub(super) fn is_in_scope(quota: &Value, class: &ScopeClass) -> bool {
    let plain = tree::items(quota, &["spec", "scopes"]).iter().filter_map(Value::as_str);
    let mut plain = plain.map(|scope| (scope, "Exists", &[][..]));
    let selected = tree::items(quota, &["spec", "scopeSelector", "matchExpressions"]).iter().map(|expression| {
        let text = |field: &str| tree::text(expression, &[field]);
        (text("scopeName"), text("operator"), tree::items(expression, &["values"]))
    });
    let mut selected = selected.peekable();
    let ScopeClass::Pod { is_terminating, is_best_effort, priority_class } = class else {
        return plain.next().is_none() && selected.peek().is_none();
    };
    plain.chain(selected).all(|(scope, operator, values)| match scope {
        "Terminating" => *is_terminating,
        "NotTerminating" => !is_terminating,
        "BestEffort" => *is_best_effort,
        "NotBestEffort" => !is_best_effort,
        "PriorityClass" => {
            let is_listed = || values.iter().any(|value| value.as_str() == Some(priority_class));
            match operator {
                "In" => is_listed(),
                "NotIn" => !is_listed(),
                "DoesNotExist" => priority_class.is_empty(),
                _ => !priority_class.is_empty(),
            }
        }
        _ => false,
    })
}
