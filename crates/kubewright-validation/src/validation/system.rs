//! Validates pod fields that depend on the node: host namespaces and the operating system.

use kubewright_core::meta::v1::StatusCause;
use kubewright_core::{Value, tree};

use super::number;

/// The container lists of a pod, in the order of validation.
const LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// With `hostNetwork`, container ports must equal host ports. A template may omit host ports.
pub(super) fn host_network(field: &str, spec: &Value, is_pod: bool) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    if !tree::is_true(spec, &["hostNetwork"]) {
        return causes;
    }
    for (at, container) in tree::items(spec, &["containers"]).iter().enumerate() {
        for (index, port) in tree::items(container, &["ports"]).iter().enumerate() {
            let number = |part: &str| tree::int(port, &[part]).unwrap_or_default();
            let (host, inner) = (number("hostPort"), number("containerPort"));
            if (is_pod || host != 0) && host != inner {
                let field = format!("{field}.containers[{at}].ports[{index}].hostPort");
                let why = "must match `containerPort` when `hostNetwork` is true";
                causes.push(StatusCause::invalid(field, host, why));
            }
        }
    }
    causes
}

/// Validates Windows host processes: all containers of a pod use them, or none.
pub(super) fn host_processes(field: &str, spec: &Value) -> Vec<StatusCause> {
    let host_process = |value: &Value| {
        tree::get(value, &["securityContext", "windowsOptions", "hostProcess"]).and_then(Value::as_bool)
    };
    let pod_level = host_process(spec);
    let (mut causes, mut all, mut some) = (Vec::new(), 0, 0);
    for (list, index, container) in containers(spec) {
        all += 1;
        let container_level = host_process(container);
        if let (Some(pod), Some(container)) = (pod_level, container_level)
            && pod != container
        {
            let field = format!("{field}.{list}[{index}].securityContext.windowsOptions.hostProcess");
            let why = format!("pod hostProcess value must be identical if both are specified, was {pod}");
            causes.push(StatusCause::invalid(field, container, &why));
        }
        some += usize::from(container_level.or(pod_level) == Some(true));
    }
    if some > 0 && some != all {
        let why = "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        causes.push(StatusCause::invalid(field, "\"\"", why));
    }
    if some > 0 && !tree::is_true(spec, &["hostNetwork"]) {
        let why = "hostNetwork must be true if pod contains any hostProcess containers";
        causes.push(StatusCause::invalid(format!("{field}.hostNetwork"), false, why));
    }
    causes
}

/// Rejects host namespaces in a pod with its own user namespace.
pub(super) fn host_users(field: &str, spec: &Value) -> Vec<StatusCause> {
    if spec.get("hostUsers").and_then(Value::as_bool) != Some(false) {
        return Vec::new();
    }
    let parts = [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")];
    let set = parts.into_iter().filter(|(part, _)| tree::is_true(spec, &[part]));
    set.map(|(_, shown)| StatusCause::forbidden(format!("{field}.{shown}"), "when `pod.Spec.HostUsers` is false"))
        .collect()
}

/// Validates `spec.os` and rejects fields that this operating system does not support.
pub(super) fn operating_system(field: &str, spec: &Value) -> Vec<StatusCause> {
    if spec.get("os").is_none() {
        return Vec::new();
    }
    match tree::text(spec, &["os", "name"]) {
        "" => vec![StatusCause::required(format!("{field}.os.name"), "cannot be empty")],
        "linux" => linux(field, spec),
        "windows" => windows(field, spec),
        other => number::one_of(format!("{field}.os"), other, &["linux", "windows"]).into_iter().collect(),
    }
}

fn linux(field: &str, spec: &Value) -> Vec<StatusCause> {
    let whose = std::iter::once((field.to_owned(), spec));
    let whose = whose.chain(containers(spec).map(|(list, at, one)| (format!("{field}.{list}[{at}]"), one)));
    let set = whose.filter(|(_, one)| tree::get(one, &["securityContext", "windowsOptions"]).is_some());
    let why = "windows options cannot be set for a linux pod";
    set.map(|(field, _)| StatusCause::forbidden(format!("{field}.securityContext.windowsOptions"), why)).collect()
}

fn windows(field: &str, spec: &Value) -> Vec<StatusCause> {
    const POD_FIELDS: [&[&str]; 15] = [
        &["securityContext", "appArmorProfile"],
        &["securityContext", "seLinuxOptions"],
        &["hostUsers"],
        &["hostPID"],
        &["hostIPC"],
        &["securityContext", "seccompProfile"],
        &["securityContext", "fsGroup"],
        &["securityContext", "fsGroupChangePolicy"],
        &["securityContext", "sysctls"],
        &["shareProcessNamespace"],
        &["securityContext", "runAsUser"],
        &["securityContext", "runAsGroup"],
        &["securityContext", "supplementalGroups"],
        &["securityContext", "supplementalGroupsPolicy"],
        &["securityContext", "seLinuxChangePolicy"],
    ];
    const CONTAINER_FIELDS: [&str; 10] = [
        "appArmorProfile",
        "seLinuxOptions",
        "seccompProfile",
        "capabilities",
        "readOnlyRootFilesystem",
        "privileged",
        "allowPrivilegeEscalation",
        "procMount",
        "runAsUser",
        "runAsGroup",
    ];
    const WHY: &str = "cannot be set for a windows pod";
    // Go holds these as plain booleans, so `false` counts as unset.
    let is_set = |path: &[&str]| match path {
        ["hostPID" | "hostIPC"] => tree::is_true(spec, path),
        path => tree::get(spec, path).is_some(),
    };
    let pod_fields = POD_FIELDS.into_iter().filter(|path| is_set(path));
    let mut causes: Vec<_> =
        pod_fields.map(|path| StatusCause::forbidden(format!("{field}.{}", path.join(".")), WHY)).collect();
    for (list, index, container) in containers(spec) {
        let set = CONTAINER_FIELDS.iter().filter(|part| tree::get(container, &["securityContext", part]).is_some());
        let field = format!("{field}.{list}[{index}].securityContext");
        causes.extend(set.map(|part| StatusCause::forbidden(format!("{field}.{part}"), WHY)));
    }
    causes
}

fn containers(spec: &Value) -> impl Iterator<Item = (&'static str, usize, &Value)> {
    LISTS.into_iter().flat_map(|list| {
        let found = tree::items(spec, &[list]).iter().enumerate();
        found.map(move |(index, container)| (list, index, container))
    })
}
