//! Pods, and the templates of pods.

use kubewright_core::meta::v1::StatusCause;
use kubewright_core::validation::dns1123_label;
use kubewright_core::{Quantity, Value};

use super::metadata::quoted;
use super::number;
use crate::object::tree;

/// What is wrong with a pod.
pub(super) fn pod(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let nothing = Value::default();
    let spec = value.get("spec").unwrap_or(&nothing);
    let mut causes = spec_causes("spec", spec);
    if let Some(old) = old
        && let Some(cause) = changed(value, old)
    {
        causes.push(cause);
    }
    causes
}

/// What is wrong with the specification of a pod at `field`.
pub(super) fn spec_causes(field: &str, spec: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let mut volumes = Vec::new();
    for (index, volume) in tree::items(spec, &["volumes"]).iter().enumerate() {
        causes.extend(name(&format!("{field}.volumes[{index}].name"), tree::text(volume, &["name"]), &mut volumes));
    }
    let mut names = Vec::new();
    if tree::items(spec, &["containers"]).is_empty() {
        causes.push(StatusCause::required(format!("{field}.containers"), ""));
    }
    for list in ["containers", "initContainers"] {
        for (index, container) in tree::items(spec, &[list]).iter().enumerate() {
            let field = format!("{field}.{list}[{index}]");
            causes.extend(name(&format!("{field}.name"), tree::text(container, &["name"]), &mut names));
            causes.extend(self::container(&field, container, &volumes));
        }
    }
    let policy = tree::text(spec, &["restartPolicy"]);
    if !policy.is_empty() {
        causes.extend(number::one_of(format!("{field}.restartPolicy"), policy, &["Always", "OnFailure", "Never"]));
    }
    match tree::text(spec, &["dnsPolicy"]) {
        "" => {}
        "None" if tree::items(spec, &["dnsConfig", "nameservers"]).is_empty() => {
            let (part, why) = match spec.get("dnsConfig") {
                None => ("dnsConfig", "must provide `dnsConfig` when `dnsPolicy` is None".to_owned()),
                Some(_) => (
                    "dnsConfig.nameservers",
                    "must provide at least one DNS nameserver when `dnsPolicy` is None".to_owned(),
                ),
            };
            causes.push(StatusCause::required(format!("{field}.{part}"), &why));
        }
        other => {
            let allowed = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
            causes.extend(number::one_of(format!("{field}.dnsPolicy"), other, &allowed));
        }
    }
    causes
}

fn name(field: &str, name: &str, seen: &mut Vec<String>) -> Vec<StatusCause> {
    if name.is_empty() {
        return vec![StatusCause::required(field, "")];
    }
    let complaints = dns1123_label(name);
    let mut causes: Vec<_> = complaints.iter().map(|why| StatusCause::invalid(field, quoted(name), why)).collect();
    if seen.iter().any(|have| have == name) {
        causes.push(StatusCause::duplicate(field, quoted(name)));
    }
    seen.push(name.to_owned());
    causes
}

fn container(field: &str, container: &Value, volumes: &[String]) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    if tree::text(container, &["image"]).is_empty() {
        causes.push(StatusCause::required(format!("{field}.image"), ""));
    }
    let policy = tree::text(container, &["imagePullPolicy"]);
    causes.extend(number::one_of(format!("{field}.imagePullPolicy"), policy, &["Always", "IfNotPresent", "Never"]));
    for (index, port) in tree::items(container, &["ports"]).iter().enumerate() {
        let field = format!("{field}.ports[{index}]");
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
        places.push(place);
    }
    causes.extend(resources(&format!("{field}.resources"), container));
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(value) = container.get(probe) {
            causes.extend(self::probe(&format!("{field}.{probe}"), value));
        }
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

fn resources(field: &str, container: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let amounts = |kind: &str| {
        let map = tree::get(container, &["resources", kind]).and_then(Value::as_object).cloned().unwrap_or_default();
        let amounts =
            map.iter().filter_map(|(name, text)| Some((name.clone(), text.as_str()?.parse::<Quantity>().ok()?)));
        amounts.collect::<Vec<_>>()
    };
    let (limits, requests) = (amounts("limits"), amounts("requests"));
    for (kind, amounts) in [("limits", &limits), ("requests", &requests)] {
        for (name, amount) in amounts.iter().filter(|(_, amount)| amount.signum() < 0) {
            let why = "must be greater than or equal to 0";
            causes.push(StatusCause::invalid(format!("{field}.{kind}[{name}]"), quoted(&amount.to_string()), why));
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

fn probe(field: &str, probe: &Value) -> Vec<StatusCause> {
    const HANDLERS: [&str; 4] = ["exec", "httpGet", "tcpSocket", "grpc"];
    let handlers: Vec<&str> = HANDLERS.into_iter().filter(|handler| probe.get(handler).is_some()).collect();
    let mut causes = Vec::new();
    match &handlers[..] {
        [] => causes.push(StatusCause::required(field, "must specify a handler type")),
        [_, more @ ..] => {
            let why = "may not specify more than 1 handler type";
            causes.extend(more.iter().map(|handler| StatusCause::forbidden(format!("{field}.{handler}"), why)));
        }
    }
    for number in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"] {
        if let Some(value) = tree::int(probe, &[number]).filter(|value| *value < 0) {
            causes.push(StatusCause::invalid(format!("{field}.{number}"), value, "must be greater than or equal to 0"));
        }
    }
    causes
}

/// A pod that runs can hardly be changed: its images, its deadline, and more tolerations.
fn changed(new: &Value, old: &Value) -> Option<StatusCause> {
    let mut allowed = new.get("spec").cloned().unwrap_or_default();
    let before = old.get("spec").cloned().unwrap_or_default();
    for list in ["containers", "initContainers"] {
        let images: Vec<Option<Value>> =
            tree::items(&before, &[list]).iter().map(|one| one.get("image").cloned()).collect();
        for (container, image) in tree::items_mut(&mut allowed, list).iter_mut().zip(images) {
            if let Some(image) = image {
                tree::set(container, &["image"], image);
            }
        }
    }
    for field in ["activeDeadlineSeconds", "tolerations"] {
        match before.get(field) {
            Some(value) => tree::set(&mut allowed, &[field], value.clone()),
            None => drop(tree::remove(&mut allowed, &[field])),
        }
    }
    let why = "pod updates may not change fields other than `spec.containers[*].image`,\
        `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing \
        tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
    (allowed != before).then(|| StatusCause::forbidden("spec", why))
}
