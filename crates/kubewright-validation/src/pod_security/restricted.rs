//! The checks of the Restricted pod security standard, beyond those of Baseline.

use kubewright_core::{Value, tree};

use super::Violation;
use super::baseline::{Violations, added};
use super::pod::{Pod, containers, context, counted, offenders, plural, quoted};

/// Volume types that Restricted allows.
const VOLUMES: [&str; 8] =
    ["configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected"];

/// Adds the violations of a pod.
pub(super) fn check(pod: &Pod<'_>, found: &mut Violations) {
    if !pod.is_windows {
        escalation(pod, found);
        capabilities(pod, found);
        seccomp(pod, found);
    }
    volumes(pod, found);
    users(pod, found);
}

fn escalation(pod: &Pod<'_>, found: &mut Violations) {
    let names = pod.names(|one| context(one, &["allowPrivilegeEscalation"]) != Some(&Value::Bool(false)));
    if !names.is_empty() {
        let detail = format!("{} must set securityContext.allowPrivilegeEscalation=false", containers(&names));
        found.push(("allowPrivilegeEscalation", Violation::new("allowPrivilegeEscalation != false", detail)));
    }
}

fn capabilities(pod: &Pod<'_>, found: &mut Violations) {
    let drops_all = |one: &Value| {
        let list = context(one, &["capabilities", "drop"]).and_then(Value::as_array).map_or(&[][..], |list| &list[..]);
        list.iter().any(|name| name.as_str() == Some("ALL"))
    };
    let keep = pod.names(|one| !drops_all(one));
    let mut details = Vec::new();
    if !keep.is_empty() {
        details.push(format!("{} must set securityContext.capabilities.drop=[\"ALL\"]", containers(&keep)));
    }
    details.extend(added(pod, &["NET_BIND_SERVICE"]));
    if !details.is_empty() {
        found.push(("capabilities_restricted", Violation::new("unrestricted capabilities", details.join("; "))));
    }
}

fn seccomp(pod: &Pod<'_>, found: &mut Violations) {
    let kind = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let is_confined = |kind: &str| matches!(kind, "RuntimeDefault" | "Localhost");
    let pod_level = kind(pod.context(&["seccompProfile", "type"]));
    let container_level = |one: &Value| kind(context(one, &["seccompProfile", "type"]));
    let mut details = Vec::new();
    if !pod_level.is_empty() && !is_confined(&pod_level) {
        details.push(format!("pod must not set securityContext.seccompProfile.type to {pod_level:?}"));
    }
    let bad = pod.names(|one| !container_level(one).is_empty() && !is_confined(&container_level(one)));
    if !bad.is_empty() {
        details
            .push(format!("{} must not set securityContext.seccompProfile.type to \"Unconfined\"", containers(&bad)));
    }
    let without = pod.names(|one| container_level(one).is_empty());
    if details.is_empty() && pod_level.is_empty() && !without.is_empty() {
        let must = "must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"";
        details.push(format!("pod or {} {must}", containers(&without)));
    }
    if !details.is_empty() {
        found.push(("seccompProfile_restricted", Violation::new("seccompProfile", details.join(" and "))));
    }
}

fn volumes(pod: &Pod<'_>, found: &mut Violations) {
    let kind = |volume: &Value| -> Option<String> {
        let kinds = volume.as_object()?.keys().map(|key| key.to_string());
        kinds.filter(|kind| kind != "name").find(|kind| !VOLUMES.contains(&kind.as_str()))
    };
    let mut names = Vec::new();
    let mut kinds = Vec::new();
    for volume in tree::items(pod.spec, &["volumes"]) {
        if let Some(kind) = kind(volume) {
            names.push(tree::text(volume, &["name"]));
            kinds.push(kind);
        }
    }
    kinds.sort_unstable();
    kinds.dedup();
    if !names.is_empty() {
        let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
        let verb = if names.len() == 1 { "uses" } else { "use" };
        let detail = format!(
            "{} {verb} restricted volume type{} {}",
            counted("volume", &names),
            plural(kinds.len()),
            quoted(&kinds)
        );
        found.push(("restrictedVolumes", Violation::new("restricted volume types", detail)));
    }
}

fn users(pod: &Pod<'_>, found: &mut Violations) {
    // In a separate user namespace, root has no privileges on the node.
    if tree::get(pod.spec, &["hostUsers"]) == Some(&Value::Bool(false)) {
        return;
    }
    let (yes, no) = (Some(&Value::Bool(true)), Some(&Value::Bool(false)));
    let pod_level = pod.context(&["runAsNonRoot"]);
    let mut details = Vec::new();
    if pod_level == no {
        details.push("pod must not set securityContext.runAsNonRoot=false".to_owned());
    }
    let explicit = pod.names(|one| context(one, &["runAsNonRoot"]) == no);
    if !explicit.is_empty() {
        details.push(format!("{} must not set securityContext.runAsNonRoot=false", containers(&explicit)));
    }
    let unset = pod.names(|one| context(one, &["runAsNonRoot"]).is_none());
    if details.is_empty() && pod_level != yes && !unset.is_empty() {
        details.push(format!("pod or {} must set securityContext.runAsNonRoot=true", containers(&unset)));
    }
    if !details.is_empty() {
        found.push(("runAsNonRoot", Violation::new("runAsNonRoot != true", details.join(" and "))));
    }
    let is_root = |value: Option<&Value>| value == Some(&Value::Int(0));
    let roots = pod.names(|one| is_root(context(one, &["runAsUser"])));
    if let Some(offenders) = offenders(is_root(pod.context(&["runAsUser"])), &roots) {
        found.push(("runAsUser", Violation::new("runAsUser=0", format!("{offenders} must not set runAsUser=0"))));
    }
}
