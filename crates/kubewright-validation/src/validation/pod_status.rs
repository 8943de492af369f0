//! Validates the status of pods.

use kubewright_core::meta::v1::StatusCause;
use kubewright_core::validation::{dns1123_label, dns1123_subdomain, qualified_name};
use kubewright_core::{Value, tree};

use super::metadata::quoted;
use super::{address, annotation, number, security, text};

/// Validates the status of a Pod.
pub(super) fn status(value: &Value, old: &Value) -> Vec<StatusCause> {
    const CLASS: [&str; 2] = ["status", "qosClass"];
    let mut causes = annotation::changes(value, old);
    causes.extend(conditions(value));
    causes.extend(nominated_node(value, old));
    causes.extend(generation("status", value.get("status").unwrap_or(&Value::Null)));
    let class = |pod: &Value| tree::text(pod, &CLASS).to_owned();
    if class(value) != class(old) {
        causes.push(StatusCause::invalid("status.qosClass", quoted(&class(value)), "field is immutable"));
    }
    for (list, containers) in [("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")] {
        causes.extend(transitions(value, old, list, |name, code| {
            let mut known = tree::items(old, &["spec", containers]).iter();
            known.find(|one| tree::text(one, &["name"]) == name).is_some_and(|one| may_restart(one, old, code))
        }));
    }
    // Ephemeral containers never restart.
    causes.extend(transitions(value, old, "ephemeralContainerStatuses", |_, _| false));
    causes.extend(claims(value));
    causes.extend(extended_claim(value));
    causes.extend(addresses(value, old, "podIPs"));
    causes.extend(addresses(value, old, "hostIPs"));
    for list in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
        causes.extend(users(value, list));
    }
    for (list, containers) in [("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")] {
        causes.extend(allocated(value, list, containers));
    }
    for (index, status) in tree::items(value, &["status", "ephemeralContainerStatuses"]).iter().enumerate() {
        if !tree::items(status, &["allocatedResourcesStatus"]).is_empty() {
            let field = format!("status.ephemeralContainerStatuses[{index}].allocatedResourcesStatus");
            causes.push(StatusCause::forbidden(field, "must not be specified in container status"));
        }
    }
    causes
}

fn generation(field: &str, value: &Value) -> Option<StatusCause> {
    let number = tree::int(value, &["observedGeneration"]).filter(|number| *number < 0)?;
    Some(StatusCause::invalid(format!("{field}.observedGeneration"), number, "must be a non-negative integer"))
}

fn conditions(value: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    for (index, condition) in tree::items(value, &["status", "conditions"]).iter().enumerate() {
        let (field, kind) = (format!("status.conditions[{index}]"), tree::text(condition, &["type"]));
        causes.extend(generation(&field, condition));
        if !["PodScheduled", "Ready", "Initialized"].contains(&kind) {
            causes.extend(text::check(&format!("{field}.Type"), kind, qualified_name));
        }
    }
    causes
}

/// Rejects a new `nominatedNodeName` once the pod is bound.
fn nominated_node(value: &Value, old: &Value) -> Vec<StatusCause> {
    const FIELD: &str = "status.nominatedNodeName";
    let node = |pod: &Value| tree::text(pod, &["status", "nominatedNodeName"]).to_owned();
    let now = node(value);
    if now.is_empty() || now == node(old) {
        return Vec::new();
    }
    let mut causes = text::check(FIELD, &now, dns1123_subdomain);
    if !tree::text(old, &["spec", "nodeName"]).is_empty() {
        let why = "may not be set on pods that are already bound to a node";
        causes.push(StatusCause::forbidden(FIELD, why));
    }
    causes
}

/// Rejects leaving the terminated state, unless `may_restart` allows a restart after the exit
/// code.
fn transitions(value: &Value, old: &Value, list: &str, may_restart: impl Fn(&str, i64) -> bool) -> Vec<StatusCause> {
    let end = |status: &Value| {
        let ended = tree::get(status, &["state", "terminated"])?;
        Some(tree::int(ended, &["exitCode"]).unwrap_or_default())
    };
    let now = tree::items(value, &["status", list]);
    let mut causes = Vec::new();
    for (index, before) in tree::items(old, &["status", list]).iter().enumerate() {
        let Some(code) = end(before) else { continue };
        let name = tree::text(before, &["name"]);
        let is_running = now.iter().any(|status| tree::text(status, &["name"]) == name && end(status).is_none());
        if is_running && !may_restart(name, code) {
            let why = "may not be transitioned to non-terminated state";
            causes.push(StatusCause::forbidden(format!("status.{list}[{index}].state"), why));
        }
    }
    causes
}

/// Whether the kubelet restarts a container: by its rules, else its policy, else that of the pod.
fn may_restart(container: &Value, pod: &Value, code: i64) -> bool {
    let by = |policy: &str| match policy {
        "OnFailure" => code != 0,
        "Never" => false,
        _ => true,
    };
    let matches = |rule: &&Value| {
        let names = tree::items(rule, &["exitCodes", "values"]).iter().any(|one| one.as_i64() == Some(code));
        match tree::text(rule, &["exitCodes", "operator"]) {
            "In" => names,
            "NotIn" => !names,
            _ => false,
        }
    };
    match tree::text(container, &["restartPolicy"]) {
        "" => by(tree::text(pod, &["spec", "restartPolicy"])),
        policy => {
            let rule = tree::items(container, &["restartPolicyRules"]).iter().find(matches);
            rule.is_some_and(|rule| tree::text(rule, &["action"]).starts_with("Restart")) || by(policy)
        }
    }
}

/// Validates the status of resource claims: each must be one of the spec.
fn claims(value: &Value) -> Vec<StatusCause> {
    let asked = tree::items(value, &["spec", "resourceClaims"]);
    let statuses = tree::items(value, &["status", "resourceClaimStatuses"]);
    let mut causes = Vec::new();
    for (index, status) in statuses.iter().enumerate() {
        let field = format!("status.resourceClaimStatuses[{index}].name");
        let is_named = |other: &Value| tree::text(other, &["name"]) == tree::text(status, &["name"]);
        let shown = quoted(tree::text(status, &["name"]));
        if !asked.iter().any(is_named) {
            let why = "must match the name of an entry in `spec.resourceClaims`";
            causes.push(StatusCause::invalid(field.as_str(), &shown, why));
        }
        if statuses[..index].iter().any(is_named) {
            causes.push(StatusCause::duplicate(field.as_str(), &shown));
        }
        if let Some(claim) = status.get("resourceClaimName").and_then(Value::as_str) {
            causes.extend(text::check(&field, claim, dns1123_subdomain));
        }
    }
    causes
}

/// Validates the claim for extended resources backed by DRA.
fn extended_claim(value: &Value) -> Vec<StatusCause> {
    const FIELD: &str = "status.extendedResourceClaimStatus";
    let Some(status) = tree::get(value, &["status", "extendedResourceClaimStatus"]) else { return Vec::new() };
    let containers =
        || ["containers", "initContainers"].into_iter().flat_map(|list| tree::items(value, &["spec", list]));
    let mappings = tree::items(status, &["requestMappings"]);
    let mut causes = Vec::new();
    if mappings.is_empty() {
        let why = "at least one request mapping is required";
        causes.push(StatusCause::required(format!("{FIELD}.requestMappings"), why));
    }
    for (index, mapping) in mappings.iter().enumerate() {
        let (field, text_of) = (format!("{FIELD}.requestMappings[{index}]"), |part: &str| tree::text(mapping, &[part]));
        let (container, resource, request) =
            (text_of("containerName"), text_of("resourceName"), text_of("requestName"));
        match containers().find(|one| tree::text(one, &["name"]) == container) {
            None => {
                let why = "must match the name of an entry in spec.initContainers.name or spec.containers.name";
                causes.push(StatusCause::invalid(format!("{field}.containerName"), quoted(container), why));
            }
            Some(one) if tree::get(one, &["resources", "requests", resource]).is_none() => {
                let why = "must match the extended resource name of an entry in \
                           spec.initContainers.resources.requests or spec.containers.resources.requests";
                causes.push(StatusCause::invalid(format!("{field}.resourceName"), quoted(resource), why));
            }
            Some(_) => {}
        }
        // The real server omits the mapping in this path.
        causes.extend(text::check(&format!("{FIELD}.requestName"), request, dns1123_label));
        if mappings[..index].contains(mapping) {
            for part in ["containerName", "resourceName", "requestName"] {
                causes.push(StatusCause::duplicate(format!("{field}.{part}"), quoted(text_of(part))));
            }
        }
    }
    let claim = tree::text(status, &["resourceClaimName"]);
    causes.extend(text::required(&format!("{FIELD}.resourceClaimName"), claim, dns1123_subdomain));
    causes
}

/// Allows one address per IP family. Addresses that `old` has are accepted.
fn addresses(value: &Value, old: &Value, list: &str) -> Vec<StatusCause> {
    let field = format!("status.{list}");
    let of = |pod: &Value| -> Vec<Value> {
        let entries = tree::items(pod, &["status", list]).iter();
        entries.map(|entry| entry.get("ip").cloned().unwrap_or_else(|| "".into())).collect()
    };
    let (now, before) = (of(value), of(old));
    let mut causes = Vec::new();
    if let Some(first) = now.first().and_then(Value::as_str)
        && list == "hostIPs"
        && tree::text(value, &["status", "hostIP"]) != first
    {
        causes.push(StatusCause::invalid(format!("{field}[0].ip"), quoted(first), "must be equal to `hostIP`"));
    }
    for (index, ip) in now.iter().enumerate().filter(|(_, ip)| !before.contains(ip)) {
        causes.extend(address::ip(&format!("{field}[{index}]"), ip.as_str().unwrap_or_default()));
    }
    if now.len() > 1 && !address::is_dual(&now) {
        let shown: Vec<String> = now.iter().map(|ip| format!("{{\"IP\":{ip}}}")).collect();
        let why = "may specify no more than one IP for each IP family";
        causes.push(StatusCause::invalid(field, format!("[{}]", shown.join(",")), why));
    }
    causes
}

/// Validates the user of the first process of each container.
fn users(value: &Value, list: &str) -> Vec<StatusCause> {
    let system = tree::text(value, &["spec", "os", "name"]);
    let mut causes = Vec::new();
    for (index, status) in tree::items(value, &["status", list]).iter().enumerate() {
        let Some(user) = tree::get(status, &["user", "linux"]) else { continue };
        let field = format!("status.{list}[{index}].user.linux");
        if system == "windows" {
            causes.push(StatusCause::forbidden(field, "cannot be set for a windows pod"));
            continue;
        }
        causes.extend(security::ids(&field, user, &["uid", "gid"]));
        for (index, group) in tree::items(user, &["supplementalGroups"]).iter().enumerate() {
            let field = format!("{field}.supplementalGroups[{index}]");
            causes.extend(group.as_i64().and_then(|group| security::id(field, group)));
        }
    }
    causes
}

/// Validates the health of allocated resources, which the container must request.
fn allocated(value: &Value, list: &str, containers: &str) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    for (index, status) in tree::items(value, &["status", list]).iter().enumerate() {
        let mut known = tree::items(value, &["spec", containers]).iter();
        let container = known.find(|one| one.get("name") == status.get("name"));
        for (at, resource) in tree::items(status, &["allocatedResourcesStatus"]).iter().enumerate() {
            let field = format!("status.{list}[{index}].allocatedResourcesStatus[{at}]");
            causes.extend(container.and_then(|one| unrequested_resource(&field, resource, one)));
            let items = tree::items(resource, &["resources"]);
            for (at, item) in items.iter().enumerate() {
                let field = format!("{field}.resources[{at}]");
                let health = tree::text(item, &["health"]);
                causes.extend(number::one_of(format!("{field}.health"), health, &["Healthy", "Unhealthy", "Unknown"]));
                if items[..at].iter().any(|other| other.get("resourceID") == item.get("resourceID")) {
                    let shown = quoted(tree::text(item, &["resourceID"]));
                    causes.push(StatusCause::duplicate(format!("{field}.resourceID"), shown));
                }
            }
        }
    }
    causes
}

fn unrequested_resource(field: &str, resource: &Value, container: &Value) -> Option<StatusCause> {
    let name = tree::text(resource, &["name"]);
    let why = match name.strip_prefix("claim:") {
        Some(claim) => {
            let is_same = |one: &Value| match (tree::text(one, &["name"]), tree::text(one, &["request"])) {
                (name, "") => name == claim,
                (name, request) => claim.split_once('/') == Some((name, request)),
            };
            if tree::items(container, &["resources", "claims"]).iter().any(is_same) {
                return None;
            }
            "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or \
             'claim:<claimName>' if request is empty"
        }
        None if tree::get(container, &["resources", "requests", name]).is_some() => return None,
        None => "must match one of the container's resource requests",
    };
    Some(StatusCause::invalid(format!("{field}.name"), quoted(name), why))
}
