//! Validates Pods and pod templates.

use std::collections::{HashMap, HashSet};

use kubewright_core::meta::v1::StatusCause;
use kubewright_core::validation::{dns1123_label, dns1123_subdomain, label_value, qualified_name};
use kubewright_core::{Value, tree};

use super::metadata::{annotations, quoted};
use super::{
    affinity, annotation, claim, container, dns, leniency, metadata, number, pod_resources, pod_update, security,
    system, text, volume,
};

/// Validates a Pod. A spec that was already invalid is accepted.
pub(super) fn pod(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let nothing = Value::default();
    let spec = value.get("spec").unwrap_or(&nothing);
    let mut causes = annotation::pod_annotations(value, old);
    causes.extend(leniency::new_causes(whole(value), || old.map(whole).unwrap_or_default()));
    match old {
        Some(old) => {
            causes.extend(annotation::changes(value, old));
            causes.extend(pod_update::changes(value, old));
        }
        None => {
            if !tree::items(spec, &["ephemeralContainers"]).is_empty() {
                causes.push(StatusCause::forbidden("spec.ephemeralContainers", "cannot be set on create"));
            }
            let is_gated = !tree::items(spec, &["schedulingGates"]).is_empty();
            if is_gated && !tree::text(spec, &["nodeName"]).is_empty() {
                let why = "cannot be set until all schedulingGates have been cleared";
                causes.push(StatusCause::forbidden("spec.nodeName", why));
            }
        }
    }
    causes
}

/// Validates the spec of a Pod, including the rules that do not apply to templates.
fn whole(pod: &Value) -> Vec<StatusCause> {
    let nothing = Value::default();
    let spec = pod.get("spec").unwrap_or(&nothing);
    let mut causes = spec_causes("spec", spec, Some(pod));
    if tree::text(spec, &["serviceAccountName"]).is_empty() {
        causes.extend(tokens_without_account(spec));
    }
    for list in ["containers", "initContainers"] {
        for (index, container) in tree::items(spec, &[list]).iter().enumerate() {
            causes.extend(container::padded_image(&format!("spec.{list}[{index}]"), container));
        }
    }
    causes
}

/// Validates a pod template at `field` that replaces `old`. Problems that `old` has are accepted.
pub(super) fn changed_template(field: &str, template: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let before = || old.map(|old| self::template(field, old)).unwrap_or_default();
    leniency::new_causes(self::template(field, template), before)
}

/// Validates a pod template at `field`.
pub(super) fn template(field: &str, template: &Value) -> Vec<StatusCause> {
    let nothing = Value::default();
    let spec = template.get("spec").unwrap_or(&nothing);
    // The real server omits `metadata` in these paths.
    let mut causes = metadata::labels(&format!("{field}.labels"), tree::get(template, &["metadata", "labels"]));
    causes.extend(annotations(&format!("{field}.annotations"), tree::get(template, &["metadata", "annotations"])));
    causes.extend(spec_causes(&format!("{field}.spec"), spec, None));
    if !tree::items(spec, &["ephemeralContainers"]).is_empty() {
        let why = "ephemeral containers not allowed in pod template";
        causes.push(StatusCause::forbidden(format!("{field}.spec.ephemeralContainers"), why));
    }
    causes
}

/// Rejects projected service account tokens in a pod without a service account.
fn tokens_without_account(spec: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    for (at, volume) in tree::items(spec, &["volumes"]).iter().enumerate() {
        for (index, source) in tree::items(volume, &["projected", "sources"]).iter().enumerate() {
            if source.get("serviceAccountToken").is_some() {
                let field = format!("spec.volumes[{at}].projected.sources[{index}].serviceAccountToken");
                causes.push(StatusCause::forbidden(field, "must not be specified when serviceAccountName is not set"));
            }
        }
    }
    causes
}

/// Validates a pod spec at `field`. `pod` is `None` for a template.
pub(super) fn spec_causes(field: &str, spec: &Value, pod: Option<&Value>) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let mut volumes: HashMap<&str, &Value> = HashMap::new();
    for (index, volume) in tree::items(spec, &["volumes"]).iter().enumerate() {
        let field = format!("{field}.volumes[{index}]");
        let name = tree::text(volume, &["name"]);
        let mut complaints = volume::source(&field, volume, pod);
        complaints.extend(text::required(&format!("{field}.name"), name, dns1123_label));
        if volumes.contains_key(name) {
            complaints.push(StatusCause::duplicate(format!("{field}.name"), quoted(name)));
        }
        if complaints.is_empty() {
            volumes.insert(name, volume);
        }
        causes.extend(complaints);
    }
    causes.extend(claim::pod_claims(&format!("{field}.resourceClaims"), tree::items(spec, &["resourceClaims"])));
    causes.extend(container::all(field, &container::PodContext { spec, volumes }));
    causes.extend(pod_resources::whole(&format!("{field}.resources"), spec));
    causes.extend(system::host_network(field, spec, pod.is_some()));
    let policy = tree::text(spec, &["restartPolicy"]);
    causes.extend(text::choice(&format!("{field}.restartPolicy"), policy, &["Always", "OnFailure", "Never"]));
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    causes.extend(text::choice(&format!("{field}.dnsPolicy"), tree::text(spec, &["dnsPolicy"]), &policies));
    causes.extend(metadata::labels(&format!("{field}.nodeSelector"), spec.get("nodeSelector")));
    causes.extend(security::pod(&format!("{field}.securityContext"), spec));
    let affinities = spec.get("affinity").into_iter();
    causes.extend(affinities.flat_map(|affinities| affinity::affinity(&format!("{field}.affinity"), affinities)));
    causes.extend(dns::config(&format!("{field}.dnsConfig"), spec));
    causes.extend(gates(field, spec));
    let constraints = tree::items(spec, &["topologySpreadConstraints"]);
    causes.extend(affinity::spread(&format!("{field}.topologySpreadConstraints"), constraints));
    causes.extend(system::host_processes(field, spec));
    causes.extend(system::host_users(field, spec));
    causes.extend(place(field, spec));
    causes.extend(system::operating_system(field, spec));
    causes
}

/// Validates readiness gates and scheduling gates.
fn gates(field: &str, spec: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    for (index, gate) in tree::items(spec, &["readinessGates"]).iter().enumerate() {
        let field = format!("{field}.readinessGates[{index}].conditionType");
        causes.extend(text::check(&field, tree::text(gate, &["conditionType"]), qualified_name));
    }
    let gates = tree::items(spec, &["schedulingGates"]);
    let mut seen = HashSet::new();
    for (index, gate) in gates.iter().enumerate() {
        let (field, name) = (format!("{field}.schedulingGates[{index}]"), tree::text(gate, &["name"]));
        causes.extend(text::check(&field, name, qualified_name));
        if !seen.insert(name) {
            causes.push(StatusCause::duplicate(field, quoted(name)));
        }
    }
    causes
}

/// Validates the scheduling and host name fields, the deadline and the overhead.
fn place(field: &str, spec: &Value) -> Vec<StatusCause> {
    let named = |part: &str, rule: fn(&str) -> Vec<String>| {
        text::check_optional(&format!("{field}.{part}"), tree::text(spec, &[part]), rule)
    };
    let mut causes = named("serviceAccountName", dns1123_subdomain);
    causes.extend(named("nodeName", dns1123_subdomain));
    if let Some(seconds) = tree::int(spec, &["activeDeadlineSeconds"])
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        let why = "must be between 1 and 2147483647, inclusive";
        causes.push(StatusCause::invalid(format!("{field}.activeDeadlineSeconds"), seconds, why));
    }
    causes.extend(named("hostname", dns1123_label));
    causes.extend(named("subdomain", dns1123_label));
    causes.extend(host_name(field, spec));
    causes.extend(tolerations(&format!("{field}.tolerations"), tree::items(spec, &["tolerations"])));
    causes.extend(dns::host_aliases(&format!("{field}.hostAliases"), tree::items(spec, &["hostAliases"])));
    causes.extend(named("priorityClassName", dns1123_subdomain));
    causes.extend(named("runtimeClassName", dns1123_subdomain));
    let policy = spec.get("preemptionPolicy");
    let policies = ["PreemptLowerPriority", "Never"];
    causes.extend(text::optional_choice(&format!("{field}.preemptionPolicy"), policy, &policies));
    if let Some(overhead) = spec.get("overhead") {
        causes.extend(container::limits(&format!("{field}.overhead"), overhead));
    }
    causes
}

/// Validates `hostnameOverride`, which excludes `setHostnameAsFQDN` and the host network.
fn host_name(field: &str, spec: &Value) -> Vec<StatusCause> {
    const HOST_NAME_MAX: usize = 64;
    let name = tree::text(spec, &["hostnameOverride"]);
    if name.is_empty() {
        return Vec::new();
    }
    let own = format!("{field}.hostnameOverride");
    let mut causes = text::check(&own, name, dns1123_subdomain);
    if name.len() > HOST_NAME_MAX {
        causes.push(StatusCause::too_long(own.as_str(), HOST_NAME_MAX));
    }
    if tree::is_true(spec, &["hostNetwork"]) {
        causes.push(StatusCause::forbidden(own, "may not be specified when hostNetwork is true"));
    }
    if tree::is_true(spec, &["setHostnameAsFQDN"]) {
        let why = "may not be true when hostnameOverride is specified";
        causes.push(StatusCause::forbidden(format!("{field}.setHostnameAsFQDN"), why));
    }
    causes
}

/// Validates tolerations.
pub(super) fn tolerations(field: &str, tolerations: &[Value]) -> Vec<StatusCause> {
    let tolerations = tolerations.iter().enumerate();
    tolerations.flat_map(|(index, one)| toleration(&format!("{field}[{index}]"), one)).collect()
}

fn toleration(field: &str, toleration: &Value) -> Vec<StatusCause> {
    let text = |part: &str| tree::text(toleration, &[part]);
    let (key, operator, value, effect) = (text("key"), text("operator"), text("value"), text("effect"));
    let mut causes = text::check_optional(&format!("{field}.key"), key, qualified_name);
    if key.is_empty() && operator != "Exists" {
        let why = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        causes.push(StatusCause::invalid(format!("{field}.operator"), quoted(operator), why));
    }
    if tree::int(toleration, &["tolerationSeconds"]).is_some() && effect != "NoExecute" {
        let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        causes.push(StatusCause::invalid(format!("{field}.effect"), quoted(effect), why));
    }
    let field_of = |part: &str| format!("{field}.{part}");
    match operator {
        "Equal" | "" => {
            let complaints = label_value(value);
            if !complaints.is_empty() {
                causes.push(StatusCause::invalid(field_of("operator"), quoted(value), &complaints.join(";")));
            }
        }
        "Exists" if !value.is_empty() => {
            let why = "value must be empty when `operator` is 'Exists'";
            causes.push(StatusCause::invalid(field_of("operator"), quoted(value), why));
        }
        other => causes.extend(number::one_of(field_of("operator"), other, &["Equal", "Exists"])),
    }
    if !effect.is_empty() {
        causes.extend(number::one_of(field_of("effect"), effect, &EFFECTS));
    }
    causes
}

/// Taint effects.
pub(super) const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// A toleration in the form of error messages.
pub(super) fn shown_toleration(toleration: &Value) -> String {
    const FIELDS: [(&str, &str, &str); 5] = [
        ("Key", "key", "\"\""),
        ("Operator", "operator", "\"\""),
        ("Value", "value", "\"\""),
        ("Effect", "effect", "\"\""),
        ("TolerationSeconds", "tolerationSeconds", "null"),
    ];
    text::internal(toleration, &FIELDS)
}
