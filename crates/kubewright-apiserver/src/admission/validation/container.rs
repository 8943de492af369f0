//! Containers of pods.

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;
use kubewright_core::validation::qualified_name;

use super::metadata::quoted;
use super::{capacity, number, probe, selector};
use crate::object::tree;

/// What is wrong with a container that may mount these volumes.
pub(super) fn container(field: &str, container: &Value, volumes: &[String], is_init: bool) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    if tree::text(container, &["image"]).is_empty() {
        causes.push(StatusCause::required(format!("{field}.image"), ""));
    }
    let policy = tree::text(container, &["imagePullPolicy"]);
    causes.extend(number::one_of(format!("{field}.imagePullPolicy"), policy, &["Always", "IfNotPresent", "Never"]));
    let mut names: Vec<&str> = Vec::new();
    for (index, port) in tree::items(container, &["ports"]).iter().enumerate() {
        let field = format!("{field}.ports[{index}]");
        let name = tree::text(port, &["name"]);
        if !name.is_empty() {
            let complaints = selector::port_name(&format!("{field}.name"), name);
            if complaints.is_empty() && names.contains(&name) {
                causes.push(StatusCause::duplicate(format!("{field}.name"), quoted(name)));
            }
            causes.extend(complaints);
            names.push(name);
        }
        match tree::int(port, &["containerPort"]).unwrap_or_default() {
            0 => causes.push(StatusCause::required(format!("{field}.containerPort"), "")),
            number => causes.extend(number::port(format!("{field}.containerPort"), number)),
        }
        match tree::int(port, &["hostPort"]).unwrap_or_default() {
            0 => {}
            number => causes.extend(number::port(format!("{field}.hostPort"), number)),
        }
        let protocol = tree::text(port, &["protocol"]);
        causes.extend(number::one_of(format!("{field}.protocol"), protocol, &["SCTP", "TCP", "UDP"]));
    }
    for (index, variable) in tree::items(container, &["env"]).iter().enumerate() {
        causes.extend(environment(&format!("{field}.env[{index}]"), variable));
    }
    for (index, source) in tree::items(container, &["envFrom"]).iter().enumerate() {
        causes.extend(environment_source(&format!("{field}.envFrom[{index}]"), source));
    }
    let mut places: Vec<&str> = Vec::new();
    for (index, mount) in tree::items(container, &["volumeMounts"]).iter().enumerate() {
        let field = format!("{field}.volumeMounts[{index}]");
        let (volume, place) = (tree::text(mount, &["name"]), tree::text(mount, &["mountPath"]));
        if volume.is_empty() {
            causes.push(StatusCause::required(format!("{field}.name"), ""));
        } else if !volumes.iter().any(|have| have == volume) {
            causes.push(StatusCause::not_found(format!("{field}.name"), quoted(volume)));
        }
        if place.is_empty() {
            causes.push(StatusCause::required(format!("{field}.mountPath"), ""));
        } else if places.contains(&place) {
            causes.push(StatusCause::invalid(format!("{field}.mountPath"), quoted(place), "must be unique"));
        }
        let inside = tree::text(mount, &["subPath"]);
        if inside.starts_with('/') {
            causes.push(StatusCause::invalid(format!("{field}.subPath"), quoted(inside), "must be a relative path"));
        }
        if inside.split('/').any(|part| part == "..") {
            causes.push(StatusCause::invalid(format!("{field}.subPath"), quoted(inside), "must not contain '..'"));
        }
        places.push(place);
    }
    causes.extend(resources(&format!("{field}.resources"), container));
    causes.extend(probe::all(field, container, is_init));
    causes
}

/// Ports of nodes, each of which only one container of a pod can have.
pub(super) fn host_ports(field: &str, container: &Value, taken: &mut Vec<String>) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    for (index, port) in tree::items(container, &["ports"]).iter().enumerate() {
        let Some(number) = tree::int(port, &["hostPort"]).filter(|number| *number != 0) else { continue };
        let text = |part: &str| tree::text(port, &[part]);
        let shown = format!("{}/{}/{number}", text("protocol"), text("hostIP"));
        if taken.contains(&shown) {
            causes.push(StatusCause::duplicate(format!("{field}.ports[{index}].hostPort"), quoted(&shown)));
        }
        taken.push(shown);
    }
    causes
}

fn environment(field: &str, variable: &Value) -> Vec<StatusCause> {
    let name = tree::text(variable, &["name"]);
    let mut causes = Vec::new();
    if name.is_empty() {
        causes.push(StatusCause::required(format!("{field}.name"), ""));
    } else if !name.bytes().all(|c| (b' '..=b'~').contains(&c) && c != b'=') {
        let why = "a valid environment variable name must consist only of printable ASCII characters other than '='";
        causes.push(StatusCause::invalid(format!("{field}.name"), quoted(name), why));
    }
    if let Some(from) = variable.get("valueFrom") {
        let sources = from.as_object().map_or(0, |sources| sources.len());
        let has_value = !tree::text(variable, &["value"]).is_empty();
        let field = format!("{field}.valueFrom");
        match (sources, has_value) {
            (0, _) => causes.push(StatusCause::invalid(field, quoted(""), "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`")),
            (_, true) => causes.push(StatusCause::invalid(field, quoted(""), "may not be specified when `value` is not empty")),
            (1, _) => {}
            _ => causes.push(StatusCause::invalid(field, quoted(""), "may not have more than one field specified at a time")),
        }
    }
    causes
}

fn environment_source(field: &str, source: &Value) -> Vec<StatusCause> {
    let named = ["configMapRef", "secretRef"].map(|kind| (kind, source.get(kind)));
    let mut causes = Vec::new();
    for (kind, reference) in named {
        if reference.is_some_and(|reference| tree::text(reference, &["name"]).is_empty()) {
            causes.push(StatusCause::required(format!("{field}.{kind}.name"), ""));
        }
    }
    match named.iter().filter(|(_, reference)| reference.is_some()).count() {
        0 => causes.push(StatusCause::invalid(field, "\"\"", "must specify one of: `configMapRef` or `secretRef`")),
        1 => {}
        _ => causes.push(StatusCause::invalid(field, "\"\"", "may not have more than one field specified at a time")),
    }
    causes
}

fn resources(field: &str, container: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let amounts = |kind: &str| capacity::amounts(container, &["resources", kind]);
    let (limits, requests) = (amounts("limits"), amounts("requests"));
    for (kind, amounts) in [("limits", &limits), ("requests", &requests)] {
        for (name, amount) in amounts {
            let (field, shown) = (format!("{field}.{kind}[{name}]"), quoted(&amount.to_string()));
            causes.extend(resource_name(&field, name));
            if amount.signum() < 0 {
                let why = "must be greater than or equal to 0";
                causes.push(StatusCause::invalid(field.as_str(), shown.as_str(), why));
            }
            // What others have invented is counted in whole pieces.
            if name.contains('/') && amount.milli_value() % 1000 != 0 {
                causes.push(StatusCause::invalid(field.as_str(), shown.as_str(), "must be an integer"));
            }
        }
    }
    for (name, request) in &requests {
        let Some((_, limit)) = limits.iter().find(|(have, _)| have == name) else { continue };
        if request > limit {
            let why = format!("must be less than or equal to {name} limit of {limit}");
            causes.push(StatusCause::invalid(format!("{field}.requests"), quoted(&request.to_string()), &why));
        }
    }
    causes
}

/// Names without a domain are those that Kubernetes knows.
fn resource_name(field: &str, name: &str) -> Vec<StatusCause> {
    let mut complaints = qualified_name(name);
    if !name.contains('/') && !is_container_resource(name) {
        if !is_standard_resource(name) {
            complaints.push("must be a standard resource type or fully qualified".to_owned());
        }
        complaints.push("must be a standard resource for containers".to_owned());
    }
    complaints.iter().map(|why| StatusCause::invalid(field, quoted(name), why)).collect()
}

fn is_container_resource(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-")
}

/// What a quota or a volume may have, and a container may not.
fn is_standard_resource(name: &str) -> bool {
    const OTHERS: [&str; 15] = [
        "configmaps",
        "limits.cpu",
        "limits.ephemeral-storage",
        "limits.memory",
        "persistentvolumeclaims",
        "pods",
        "replicationcontrollers",
        "requests.cpu",
        "requests.ephemeral-storage",
        "requests.memory",
        "requests.storage",
        "resourcequotas",
        "secrets",
        "services",
        "storage",
    ];
    OTHERS.contains(&name)
}
