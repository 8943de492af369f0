//! Cells of nodes, leases and classes.

use std::collections::BTreeSet;

use kubewright_core::{Value, tree};

use crate::object::{PrintedObject, join, or_none};

/// Name, status, roles, age, version; addresses, OS image, kernel, container runtime.
pub(super) fn node(node: &PrintedObject<'_>) -> Vec<Value> {
    let mut status = vec![match node.condition("Ready") {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }];
    if node.flag(&["spec", "unschedulable"], false) {
        status.push("SchedulingDisabled");
    }
    let info = |key: &str| node.text_or(&["status", "nodeInfo", key], "<unknown>");
    vec![
        node.name(),
        join(status).into(),
        roles(node),
        node.age(),
        node.text(&["status", "nodeInfo", "kubeletVersion"]).into(),
        address(node, "InternalIP"),
        address(node, "ExternalIP"),
        info("osImage"),
        kernel(node),
        info("containerRuntimeVersion"),
    ]
}

/// The kernel version and architecture.
fn kernel(node: &PrintedObject<'_>) -> Value {
    let info = |key: &str| node.text(&["status", "nodeInfo", key]);
    match (info("kernelVersion"), info("architecture")) {
        ("", _) => Value::from("<unknown>"),
        (version, "") => version.into(),
        (version, architecture) => format!("{version} ({architecture})").into(),
    }
}

fn roles(node: &PrintedObject<'_>) -> Value {
    let labels = node.at(&["metadata", "labels"]).and_then(Value::as_object);
    let roles: BTreeSet<&str> = labels
        .iter()
        .flat_map(|labels| labels.iter())
        .filter_map(|(key, value)| match key.as_str() {
            "kubernetes.io/role" => value.as_str(),
            key => key.strip_prefix("node-role.kubernetes.io/"),
        })
        .filter(|role| !role.is_empty())
        .collect();
    or_none(join(roles))
}

fn address(node: &PrintedObject<'_>, ty: &str) -> Value {
    let addresses = node.items(&["status", "addresses"]);
    let address = addresses.iter().find(|address| tree::text(address, &["type"]) == ty);
    address.map_or(Value::from("<none>"), |address| tree::text(address, &["address"]).into())
}

/// Name, status, message, error.
pub(super) fn component_status(object: &PrintedObject<'_>) -> Vec<Value> {
    let healthy = object.items(&["conditions"]).iter().find(|condition| tree::text(condition, &["type"]) == "Healthy");
    let status = match healthy.map(|condition| tree::text(condition, &["status"])) {
        Some("True") => "Healthy",
        Some(_) => "Unhealthy",
        None => "Unknown",
    };
    let part = |key| healthy.map_or("", |condition| tree::text(condition, &[key])).into();
    vec![object.name(), Value::from(status), part("message"), part("error")]
}

/// Name, holder, age.
pub(super) fn lease(object: &PrintedObject<'_>) -> Vec<Value> {
    vec![object.name(), object.text(&["spec", "holderIdentity"]).into(), object.age()]
}

/// Name, handler, age.
pub(super) fn runtime_class(object: &PrintedObject<'_>) -> Vec<Value> {
    vec![object.name(), object.text(&["handler"]).into(), object.age()]
}

/// Name, value, whether it is the default, age, preemption policy.
pub(super) fn priority_class(object: &PrintedObject<'_>) -> Vec<Value> {
    vec![
        object.name(),
        object.number(&["value"]).into(),
        object.flag(&["globalDefault"], false).into(),
        object.age(),
        object.text(&["preemptionPolicy"]).into(),
    ]
}
