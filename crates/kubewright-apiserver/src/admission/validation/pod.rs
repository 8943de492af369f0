//! Pods, and the templates of pods.

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;
use kubewright_core::validation::{dns1123_label, dns1123_subdomain, label_value, qualified_name};

use super::metadata::quoted;
use super::{container, metadata, number, volume};
use crate::object::tree;

/// What is wrong with a pod.
pub(super) fn pod(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let nothing = Value::default();
    let spec = value.get("spec").unwrap_or(&nothing);
    let mut causes = spec_causes("spec", spec);
    if old.is_none() && !tree::items(spec, &["ephemeralContainers"]).is_empty() {
        causes.push(StatusCause::forbidden("spec.ephemeralContainers", "cannot be set on create"));
    }
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
        let field = format!("{field}.volumes[{index}]");
        causes.extend(name(&format!("{field}.name"), tree::text(volume, &["name"]), &mut volumes));
        causes.extend(volume::source(&field, volume));
    }
    let (mut names, mut host_ports) = (Vec::new(), Vec::new());
    if tree::items(spec, &["containers"]).is_empty() {
        causes.push(StatusCause::required(format!("{field}.containers"), ""));
    }
    for list in ["containers", "initContainers"] {
        for (index, container) in tree::items(spec, &[list]).iter().enumerate() {
            let field = format!("{field}.{list}[{index}]");
            causes.extend(name(&format!("{field}.name"), tree::text(container, &["name"]), &mut names));
            causes.extend(container::container(&field, container, &volumes, list == "initContainers"));
            causes.extend(container::host_ports(&field, container, &mut host_ports));
        }
    }
    causes.extend(place(field, spec));
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

/// Where and for whom a pod runs, and for how long.
fn place(field: &str, spec: &Value) -> Vec<StatusCause> {
    let mut causes = metadata::labels(&format!("{field}.nodeSelector"), spec.get("nodeSelector"));
    let mut check = |part: &str, complaints: fn(&str) -> Vec<String>| {
        let text = tree::text(spec, &[part]);
        let complaints = if text.is_empty() { Vec::new() } else { complaints(text) };
        let complain = |why: &String| StatusCause::invalid(format!("{field}.{part}"), quoted(text), why);
        causes.extend(complaints.iter().map(complain));
    };
    check("serviceAccountName", dns1123_subdomain);
    check("nodeName", dns1123_subdomain);
    check("hostname", dns1123_label);
    check("subdomain", dns1123_label);
    if let Some(seconds) = tree::int(spec, &["activeDeadlineSeconds"])
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        let why = "must be between 1 and 2147483647, inclusive";
        causes.push(StatusCause::invalid(format!("{field}.activeDeadlineSeconds"), seconds, why));
    }
    for (index, toleration) in tree::items(spec, &["tolerations"]).iter().enumerate() {
        causes.extend(self::toleration(&format!("{field}.tolerations[{index}]"), toleration));
    }
    causes
}

fn toleration(field: &str, toleration: &Value) -> Vec<StatusCause> {
    let text = |part: &str| tree::text(toleration, &[part]);
    let (key, operator, value, effect) = (text("key"), text("operator"), text("value"), text("effect"));
    let mut causes = Vec::new();
    let complaints = if key.is_empty() { Vec::new() } else { qualified_name(key) };
    causes.extend(complaints.iter().map(|why| StatusCause::invalid(format!("{field}.key"), quoted(key), why)));
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
            causes.extend(complaints.iter().map(|why| StatusCause::invalid(field_of("operator"), quoted(value), why)));
        }
        "Exists" if !value.is_empty() => {
            let why = "value must be empty when `operator` is 'Exists'";
            causes.push(StatusCause::invalid(field_of("operator"), toleration, why));
        }
        other => causes.extend(number::one_of(field_of("operator"), other, &["Equal", "Exists"])),
    }
    if !effect.is_empty() {
        let known = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        causes.extend(number::one_of(field_of("effect"), effect, &known));
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
