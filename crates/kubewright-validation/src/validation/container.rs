//! Validates the containers of pods.

use std::collections::{HashMap, HashSet};

use kubewright_core::meta::v1::StatusCause;
use kubewright_core::validation::{dns1123_label, qualified_name};
use kubewright_core::{Quantity, Str, Value, tree};

use super::metadata::quoted;
use super::{capacity, claim, environment, mount, number, probe, restart, security, selector, text};

/// The pod that contains the containers.
pub(super) struct PodContext<'a> {
    pub(super) spec: &'a Value,
    /// Valid volumes by name. Other volumes cannot be mounted.
    pub(super) volumes: HashMap<&'a str, &'a Value>,
}

/// Validates all containers of a pod.
pub(super) fn all(field: &str, pod: &PodContext<'_>) -> Vec<StatusCause> {
    let spec = pod.spec;
    let mut causes = Vec::new();
    let containers = tree::items(spec, &["containers"]);
    if containers.is_empty() {
        causes.push(StatusCause::required(format!("{field}.containers"), ""));
    }
    let mut names = HashSet::new();
    let mut host_ports = HashSet::new();
    let mut conflicts = Vec::new();
    for (index, container) in containers.iter().enumerate() {
        let field = format!("{field}.containers[{index}]");
        causes.extend(self::container(&field, container, pod));
        causes.extend(unique(&field, container, &mut names));
        causes.extend(probe::all(&field, container, false, spec));
        causes.extend(restart::policy(&field, container));
        conflicts.extend(self::host_ports(&field, container, &mut host_ports));
    }
    causes.extend(conflicts);
    for (index, container) in tree::items(spec, &["initContainers"]).iter().enumerate() {
        let field = format!("{field}.initContainers[{index}]");
        causes.extend(self::container(&field, container, pod));
        causes.extend(restart::policy(&field, container));
        causes.extend(unique(&field, container, &mut names));
        // Init containers run one after the other, so their host ports only conflict within one
        // container.
        causes.extend(self::host_ports(&field, container, &mut HashSet::new()));
        causes.extend(probe::all(&field, container, true, spec));
        let is_sidecar = tree::text(container, &["restartPolicy"]) == "Always";
        if container.get("resizePolicy").is_some() && !is_sidecar {
            let shown = container.get("resizePolicy").cloned().unwrap_or_default();
            let why = "must not be set for init containers";
            causes.push(StatusCause::invalid(format!("{field}.resizePolicy"), shown, why));
        }
    }
    for (index, container) in tree::items(spec, &["ephemeralContainers"]).iter().enumerate() {
        let field = format!("{field}.ephemeralContainers[{index}]");
        causes.extend(self::container(&field, container, pod));
        causes.extend(unique(&field, container, &mut names));
        causes.extend(ephemeral(&field, container, spec));
    }
    causes
}

fn unique(field: &str, container: &Value, seen: &mut HashSet<String>) -> Option<StatusCause> {
    let name = tree::text(container, &["name"]);
    let is_repeated = !seen.insert(name.to_owned()) && !name.is_empty();
    is_repeated.then(|| StatusCause::duplicate(format!("{field}.name"), quoted(name)))
}

/// Rejects an image name with surrounding whitespace. Templates are not checked.
pub(super) fn padded_image(field: &str, container: &Value) -> Option<StatusCause> {
    let image = tree::text(container, &["image"]);
    let why = "must not have leading or trailing whitespace";
    (image.trim() != image).then(|| StatusCause::invalid(format!("{field}.image"), quoted(image), why))
}

/// Validates an ephemeral container, which must not set ports, probes, lifecycle or resources.
fn ephemeral(field: &str, container: &Value, spec: &Value) -> Vec<StatusCause> {
    const WHY: &str = "cannot be set for an Ephemeral Container";
    let mut causes: Vec<_> = padded_image(field, container).into_iter().collect();
    let target = tree::text(container, &["targetContainerName"]);
    let mut others = ["containers", "initContainers"].into_iter().flat_map(|list| tree::items(spec, &[list]));
    if !target.is_empty() && !others.any(|other| tree::text(other, &["name"]) == target) {
        causes.push(StatusCause::not_found(format!("{field}.targetContainerName"), quoted(target)));
    }
    for part in [
        "ports",
        "resources",
        "resizePolicy",
        "restartPolicy",
        "restartPolicyRules",
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
        "lifecycle",
    ] {
        let is_set = container.get(part).is_some_and(|value| value.as_object().is_none_or(|fields| !fields.is_empty()));
        causes.extend(is_set.then(|| StatusCause::forbidden(format!("{field}.{part}"), WHY)));
    }
    for (index, mount) in tree::items(container, &["volumeMounts"]).iter().enumerate() {
        for part in ["subPath", "subPathExpr"] {
            let is_set = !tree::text(mount, &[part]).is_empty();
            let field = format!("{field}.volumeMounts[{index}].{part}");
            causes.extend(is_set.then(|| StatusCause::forbidden(field, WHY)));
        }
    }
    causes
}

/// Validates the fields that all kinds of containers share.
fn container(field: &str, container: &Value, pod: &PodContext<'_>) -> Vec<StatusCause> {
    let spec = pod.spec;
    let name = tree::text(container, &["name"]);
    let mut causes = text::required(&format!("{field}.name"), name, dns1123_label);
    if tree::text(container, &["image"]).is_empty() {
        causes.push(StatusCause::required(format!("{field}.image"), ""));
    }
    let policy = tree::text(container, &["terminationMessagePolicy"]);
    let policies = ["File", "FallbackToLogsOnError"];
    causes.extend(text::choice(&format!("{field}.terminationMessagePolicy"), policy, &policies));
    causes.extend(ports(field, container));
    for (index, variable) in tree::items(container, &["env"]).iter().enumerate() {
        causes.extend(environment::variable(&format!("{field}.env[{index}]"), variable));
    }
    causes.extend(environment::sources(&format!("{field}.envFrom"), tree::items(container, &["envFrom"])));
    causes.extend(mount::mounts(&format!("{field}.volumeMounts"), container, pod));
    causes.extend(mount::devices(&format!("{field}.volumeDevices"), container, pod));
    let policy = tree::text(container, &["imagePullPolicy"]);
    causes.extend(text::choice(&format!("{field}.imagePullPolicy"), policy, &["Always", "IfNotPresent", "Never"]));
    causes.extend(resources(&format!("{field}.resources"), container, spec));
    causes.extend(resize(&format!("{field}.resizePolicy"), container, spec));
    let has_host_users = spec.get("hostUsers").and_then(Value::as_bool) != Some(false);
    causes.extend(security::container(&format!("{field}.securityContext"), container, has_host_users));
    causes
}

fn ports(field: &str, container: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let mut names: HashSet<&str> = HashSet::new();
    for (index, port) in tree::items(container, &["ports"]).iter().enumerate() {
        let field = format!("{field}.ports[{index}]");
        let name = tree::text(port, &["name"]);
        if !name.is_empty() {
            let complaints = selector::port_name(&format!("{field}.name"), name);
            if complaints.is_empty() && names.contains(&name) {
                causes.push(StatusCause::duplicate(format!("{field}.name"), quoted(name)));
            }
            causes.extend(complaints);
            names.insert(name);
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
        causes.extend(text::choice(&format!("{field}.protocol"), protocol, &["SCTP", "TCP", "UDP"]));
    }
    causes
}

/// Validates the resize policies of a container.
fn resize(field: &str, container: &Value, spec: &Value) -> Vec<StatusCause> {
    let policies = tree::items(container, &["resizePolicy"]);
    let mut seen = HashSet::new();
    let mut causes = Vec::new();
    for (index, policy) in policies.iter().enumerate() {
        let (name, restart) = (tree::text(policy, &["resourceName"]), tree::text(policy, &["restartPolicy"]));
        if !seen.insert(name) {
            causes.push(StatusCause::duplicate(format!("{field}[{index}]"), quoted(name)));
        }
        causes.extend(text::choice(field, name, &["cpu", "memory"]));
        causes.extend(text::choice(field, restart, &["NotRequired", "RestartContainer"]));
        if tree::text(spec, &["restartPolicy"]) == "Never" && restart != "NotRequired" {
            let why = "must be 'NotRequired' when `restartPolicy` is 'Never'";
            causes.push(StatusCause::invalid(field, quoted(restart), why));
        }
    }
    causes
}

/// Rejects host ports that another container has already claimed, and records them in `taken`.
pub(super) fn host_ports(field: &str, container: &Value, taken: &mut HashSet<String>) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    for (index, port) in tree::items(container, &["ports"]).iter().enumerate() {
        let Some(number) = tree::int(port, &["hostPort"]).filter(|number| *number != 0) else { continue };
        let text = |part: &str| tree::text(port, &[part]);
        let shown = format!("{}/{}/{number}", text("protocol"), text("hostIP"));
        if taken.contains(&shown) {
            causes.push(StatusCause::duplicate(format!("{field}.ports[{index}].hostPort"), quoted(&shown)));
        }
        taken.insert(shown);
    }
    causes
}

fn resources(field: &str, container: &Value, spec: &Value) -> Vec<StatusCause> {
    let nothing = Value::default();
    let resources = container.get("resources").unwrap_or(&nothing);
    let mut causes = requirements(field, resources, resource_name);
    causes.extend(claim::names(&format!("{field}.claims"), tree::items(resources, &["claims"]), spec));
    causes
}

/// Validates resource requests and limits. `name_rule` validates their names.
pub(super) fn requirements(field: &str, resources: &Value, name_rule: NameRule) -> Vec<StatusCause> {
    let amounts = |kind: &str| capacity::amounts(resources, &[kind]);
    let (limits, requested) = (amounts("limits"), amounts("requests"));
    let mut causes = self::amounts(&format!("{field}.limits"), &limits, name_rule);
    for (name, amount) in &requested {
        let amount_field = format!("{field}.requests[{name}]");
        causes.extend(amount_causes(&amount_field, name, amount, name_rule));
        // `limits` is sorted by name.
        let limit = limits.binary_search_by(|(have, _)| have.cmp(name)).ok().map(|at| &limits[at].1);
        let shown = quoted(&amount.to_string());
        let requests_field = format!("{field}.requests");
        match limit {
            Some(limit) if amount != limit && !is_shared(name) => {
                let why = format!("must be equal to {name} limit of {limit}");
                causes.push(StatusCause::invalid(requests_field, shown, &why));
            }
            Some(limit) if amount > limit => {
                let why = format!("must be less than or equal to {name} limit of {limit}");
                causes.push(StatusCause::invalid(requests_field, shown, &why));
            }
            None if !is_shared(name) => {
                let why = "Limit must be set for non overcommitable resources";
                causes.push(StatusCause::required(format!("{field}.limits"), why));
            }
            _ => {}
        }
        causes.extend(huge_pages(&amount_field, name, amount));
    }
    causes.extend(huge_pages_only(field, limits.iter().chain(&requested)));
    causes
}

/// Validates the overhead of a pod or a RuntimeClass.
pub(super) fn limits(field: &str, limits: &Value) -> Vec<StatusCause> {
    let limits = capacity::amounts(limits, &[]);
    let mut causes = amounts(&format!("{field}.limits"), &limits, resource_name);
    causes.extend(huge_pages_only(field, limits.iter()));
    causes
}

/// Validates a resource name at a field path.
pub(super) type NameRule = fn(&str, &str) -> Vec<StatusCause>;

fn amounts(field: &str, amounts: &[(Str, Quantity)], name_rule: NameRule) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    for (name, amount) in amounts {
        let field = format!("{field}[{name}]");
        causes.extend(amount_causes(&field, name, amount, name_rule));
        causes.extend(huge_pages(&field, name, amount));
    }
    causes
}

/// Rejects huge pages without cpu or memory.
fn huge_pages_only<'a>(
    field: &str,
    mut amounts: impl Iterator<Item = &'a (Str, Quantity)> + Clone,
) -> Option<StatusCause> {
    let has_pages = amounts.clone().any(|(name, _)| name.starts_with("hugepages-"));
    let lacks_cpu_and_memory = has_pages && !amounts.any(|(name, _)| matches!(name.as_str(), "cpu" | "memory"));
    lacks_cpu_and_memory.then(|| StatusCause::forbidden(field, "HugePages require cpu or memory"))
}

fn amount_causes(field: &str, name: &str, amount: &Quantity, name_rule: NameRule) -> Vec<StatusCause> {
    let mut causes = name_rule(field, name);
    let shown = quoted(&amount.to_string());
    if amount.signum() < 0 {
        causes.push(StatusCause::invalid(field, shown.as_str(), "must be greater than or equal to 0"));
    }
    // Extended resources are integers.
    if name.contains('/') && !name.contains("kubernetes.io/") && amount.milli_value() % 1000 != 0 {
        causes.push(StatusCause::invalid(field, shown.as_str(), "must be an integer"));
    }
    causes
}

/// Whether the resource can be overcommitted.
pub(super) fn is_shared(name: &str) -> bool {
    let is_native = !name.contains('/') || name.contains("kubernetes.io/");
    is_native && !name.starts_with("hugepages-")
}

/// Rejects an amount that is not a multiple of the huge page size.
fn huge_pages(field: &str, name: &str, amount: &Quantity) -> Option<StatusCause> {
    let size = name.strip_prefix("hugepages-")?.parse::<Quantity>().ok();
    let is_whole = size
        .is_some_and(|size| size.value() > 0 && size.milli_value() % 1000 == 0 && amount.value() % size.value() == 0);
    let why = format!("{amount} is not positive integer multiple of {name}");
    (!is_whole).then(|| StatusCause::invalid(field, quoted(&amount.to_string()), &why))
}

/// Validates a resource name of any object, such as a quota or a volume.
pub(super) fn any_resource_name(field: &str, name: &str) -> Vec<StatusCause> {
    let mut causes = text::check(field, name, qualified_name);
    if !name.contains('/') && !is_container_resource(name) && !is_standard_resource(name) {
        let why = "must be a standard resource type or fully qualified";
        causes.push(StatusCause::invalid(field, quoted(name), why));
    }
    causes
}

/// Validates a resource name of a container. An unqualified name must be a standard one.
pub(super) fn resource_name(field: &str, name: &str) -> Vec<StatusCause> {
    let mut complaints = qualified_name(name);
    if !name.contains('/') && !is_container_resource(name) {
        if !is_standard_resource(name) {
            complaints.push("must be a standard resource type or fully qualified".to_owned());
        }
        complaints.push("must be a standard resource for containers".to_owned());
    } else if name.starts_with("requests.") && name.contains('/') {
        complaints.push("doesn't follow extended resource name standard".to_owned());
    }
    complaints.iter().map(|why| StatusCause::invalid(field, quoted(name), why)).collect()
}

fn is_container_resource(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-")
}

/// Whether this is a standard resource of quotas and volumes that containers cannot have.
fn is_standard_resource(name: &str) -> bool {
    const OTHERS: [&str; 17] = [
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
        "services.loadbalancers",
        "services.nodeports",
        "storage",
    ];
    OTHERS.contains(&name)
}
