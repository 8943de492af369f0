//! The checks of the Baseline pod security standard.

use kubewright_core::{Value, tree};

use super::Violation;
use super::pod::{Pod, containers, context, counted, offenders, plural, quoted};

/// Capabilities that Baseline allows to add.
const CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// Sysctls that are safe because they are namespaced.
const SYSCTLS: [&str; 12] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
];

const SELINUX_TYPES: [&str; 5] = ["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"];

/// Violations with their check IDs, by which they are sorted.
pub(super) type Violations = Vec<(&'static str, Violation)>;

/// Adds the violations of a pod. The Restricted standard replaces some of the checks.
pub(super) fn check(pod: &Pod<'_>, is_restricted: bool, found: &mut Violations) {
    app_armor(pod, found);
    if !is_restricted {
        capabilities(pod, found);
        if !pod.is_windows {
            seccomp(pod, found);
        }
    }
    host_namespaces(pod, found);
    volumes_and_ports(pod, found);
    flags(pod, is_restricted, found);
    hosts(pod, found);
    selinux(pod, found);
    let sysctls = pod.context(&["sysctls"]).and_then(Value::as_array).map_or(&[][..], |list| &list[..]);
    let names = sysctls.iter().map(|sysctl| tree::text(sysctl, &["name"]));
    let forbidden: Vec<&str> = names.filter(|name| !SYSCTLS.contains(name)).collect();
    if !forbidden.is_empty() {
        found.push(("sysctls", Violation::new("forbidden sysctls", quoted(&forbidden))));
    }
}

fn app_armor(pod: &Pod<'_>, found: &mut Violations) {
    let is_unconfined = |kind: Option<&Value>| kind.and_then(Value::as_str).is_some_and(|kind| kind == "Unconfined");
    let mut details = Vec::new();
    if is_unconfined(pod.context(&["appArmorProfile", "type"])) {
        details.push("pod must not set AppArmor profile type to \"Unconfined\"".to_owned());
    }
    let names = pod.names(|one| is_unconfined(context(one, &["appArmorProfile", "type"])));
    if !names.is_empty() {
        details.push(format!("{} must not set AppArmor profile type to \"Unconfined\"", containers(&names)));
    }
    let annotations = tree::text_map(tree::get(pod.pod, &["metadata", "annotations"]));
    let bad: Vec<String> = annotations
        .iter()
        .filter(|(key, _)| key.starts_with("container.apparmor.security.beta.kubernetes.io/"))
        .filter(|(_, value)| !matches!(value.as_str(), "" | "runtime/default") && !value.starts_with("localhost/"))
        .map(|(key, value)| format!("\"{key}\"=\"{value}\""))
        .collect();
    if !bad.is_empty() {
        details.push(format!("annotation{} {}", plural(bad.len()), bad.join(", ")));
    }
    if !details.is_empty() {
        let reason = format!("forbidden AppArmor profile{}", plural(details.len()));
        found.push(("appArmorProfile", Violation::new(&reason, details.join(" and "))));
    }
}

/// The added capabilities that are not in `allowed`, and the containers that add them.
pub(super) fn added<'a>(pod: &Pod<'a>, allowed: &[&str]) -> Option<String> {
    let extra = |container: &'a Value| -> Vec<&'a str> {
        let list =
            context(container, &["capabilities", "add"]).and_then(Value::as_array).map_or(&[][..], |list| &list[..]);
        list.iter().filter_map(Value::as_str).filter(|name| !allowed.contains(name)).collect()
    };
    let mut names: Vec<&str> = pod.containers.iter().flat_map(|one| extra(one)).collect();
    names.sort_unstable();
    names.dedup();
    let adders: Vec<&str> =
        pod.containers.iter().filter(|one| !extra(one).is_empty()).map(|one| tree::text(one, &["name"])).collect();
    (!adders.is_empty()).then(|| {
        format!("{} must not include {} in securityContext.capabilities.add", containers(&adders), quoted(&names))
    })
}

fn capabilities(pod: &Pod<'_>, found: &mut Violations) {
    if let Some(detail) = added(pod, &CAPABILITIES) {
        found.push(("capabilities_baseline", Violation::new("non-default capabilities", detail)));
    }
}

fn host_namespaces(pod: &Pod<'_>, found: &mut Violations) {
    let fields = ["hostNetwork", "hostPID", "hostIPC"].into_iter();
    let set: Vec<String> =
        fields.filter(|field| tree::is_true(pod.spec, &[field])).map(|field| format!("{field}=true")).collect();
    if !set.is_empty() {
        found.push(("hostNamespaces", Violation::new("host namespaces", set.join(", "))));
    }
}

fn volumes_and_ports(pod: &Pod<'_>, found: &mut Violations) {
    let volumes = tree::items(pod.spec, &["volumes"]).iter();
    let host_paths: Vec<&str> =
        volumes.filter(|one| one.get("hostPath").is_some()).map(|one| tree::text(one, &["name"])).collect();
    if !host_paths.is_empty() {
        found.push(("hostPathVolumes", Violation::new("hostPath volumes", counted("volume", &host_paths))));
    }
    let ports = |container: &Value| -> Vec<i64> {
        let ports = tree::items(container, &["ports"]).iter();
        ports.filter_map(|port| tree::int(port, &["hostPort"])).filter(|port| *port != 0).collect()
    };
    let mut all: Vec<i64> = pod.containers.iter().flat_map(|one| ports(one)).collect();
    all.sort_unstable();
    all.dedup();
    let users = pod.names(|one| !ports(one).is_empty());
    if !users.is_empty() {
        let verb = if users.len() == 1 { "uses" } else { "use" };
        let shown = all.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
        let detail = format!("{} {verb} hostPort{} {shown}", containers(&users), plural(all.len()));
        found.push(("hostPorts", Violation::new("hostPort", detail)));
    }
}

fn flags(pod: &Pod<'_>, is_restricted: bool, found: &mut Violations) {
    let is_true = |value: Option<&Value>| value == Some(&Value::Bool(true));
    let names = pod.names(|one| is_true(context(one, &["privileged"])));
    if !names.is_empty() {
        let detail = format!("{} must not set securityContext.privileged=true", containers(&names));
        found.push(("privileged", Violation::new("privileged", detail)));
    }
    let unmasked = |one: &Value| {
        context(one, &["procMount"])
            .and_then(Value::as_str)
            .is_some_and(|mount| mount != "Default" && !mount.is_empty())
    };
    let names = pod.names(unmasked);
    // In a separate user namespace, an unmasked `/proc` exposes nothing of the node.
    let has_user_namespace = !is_restricted && tree::get(pod.spec, &["hostUsers"]) == Some(&Value::Bool(false));
    if !names.is_empty() && !has_user_namespace {
        let detail = format!("{} must not set securityContext.procMount to \"Unmasked\"", containers(&names));
        found.push(("procMount", Violation::new("procMount", detail)));
    }
    const HOST_PROCESS: [&str; 2] = ["windowsOptions", "hostProcess"];
    let names = pod.names(|one| is_true(context(one, &HOST_PROCESS)));
    if let Some(offenders) = offenders(is_true(pod.context(&HOST_PROCESS)), &names) {
        let detail = format!("{offenders} must not set securityContext.windowsOptions.hostProcess=true");
        found.push(("windowsHostProcess", Violation::new("hostProcess", detail)));
    }
}

/// Host fields in probes and lifecycle hooks, which let the kubelet call any address.
fn hosts(pod: &Pod<'_>, found: &mut Violations) {
    let has_host = |action: Option<&Value>| {
        let kinds = ["httpGet", "tcpSocket"].into_iter();
        action.is_some_and(|action| kinds.into_iter().any(|kind| !tree::text(action, &[kind, "host"]).is_empty()))
    };
    let names = pod.names(|one| {
        let probes = ["livenessProbe", "readinessProbe", "startupProbe"].into_iter().map(|probe| one.get(probe));
        let hooks = ["postStart", "preStop"].into_iter().map(|hook| tree::get(one, &["lifecycle", hook]));
        probes.chain(hooks).any(has_host)
    });
    if !names.is_empty() {
        let detail = format!("{} must not set probe or lifecycle host", containers(&names));
        found.push(("hostProbesAndHostLifecycle", Violation::new("probe or lifecycle host", detail)));
    }
}

fn selinux(pod: &Pod<'_>, found: &mut Violations) {
    let is_forbidden = |options: Option<&Value>| {
        options.is_some_and(|options| {
            !SELINUX_TYPES.contains(&tree::text(options, &["type"]))
                || ["user", "role"].into_iter().any(|field| !tree::text(options, &[field]).is_empty())
        })
    };
    let names = pod.names(|one| is_forbidden(context(one, &["seLinuxOptions"])));
    if let Some(offenders) = offenders(is_forbidden(pod.context(&["seLinuxOptions"])), &names) {
        let detail = format!("{offenders} set forbidden securityContext.seLinuxOptions");
        found.push(("seLinuxOptions", Violation::new("seLinuxOptions", detail)));
    }
}

fn seccomp(pod: &Pod<'_>, found: &mut Violations) {
    let is_unconfined = |kind: Option<&Value>| kind.and_then(Value::as_str) == Some("Unconfined");
    let names = pod.names(|one| is_unconfined(context(one, &["seccompProfile", "type"])));
    if let Some(offenders) = offenders(is_unconfined(pod.context(&["seccompProfile", "type"])), &names) {
        let detail = format!("{offenders} must not set securityContext.seccompProfile.type to \"Unconfined\"");
        found.push(("seccompProfile_baseline", Violation::new("seccompProfile", detail)));
    }
}
