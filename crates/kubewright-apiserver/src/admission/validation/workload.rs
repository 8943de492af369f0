//! What makes pods: a selector that matches a template, and how many.

use kubewright_core::meta::v1::{LabelSelector, StatusCause};
use kubewright_core::{Decoder, Selector, Value};

use super::metadata::{self, quoted};
use super::{number, pod};
use crate::object::{text_map, to_json, tree};

/// What is wrong with a deployment.
pub(super) fn deployment(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let mut causes = selected_template(value, old, "deployment");
    causes.extend(not_negative(
        value,
        &["replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"],
    ));
    let strategy = tree::get(value, &["spec", "strategy"]).cloned().unwrap_or_default();
    match tree::text(&strategy, &["type"]) {
        "Recreate" if strategy.get("rollingUpdate").is_some() => {
            let why = "may not be specified when strategy `type` is 'Recreate'";
            causes.push(StatusCause::forbidden("spec.strategy.rollingUpdate", why));
        }
        "Recreate" => {}
        "RollingUpdate" => causes.extend(rolling_update("spec.strategy.rollingUpdate", &strategy)),
        other => causes.extend(number::one_of("spec.strategy.type", other, &["Recreate", "RollingUpdate"])),
    }
    let ready = tree::int(value, &["spec", "minReadySeconds"]).unwrap_or_default();
    if let Some(deadline) =
        tree::int(value, &["spec", "progressDeadlineSeconds"]).filter(|deadline| *deadline <= ready && *deadline >= 0)
    {
        causes.push(StatusCause::invalid(
            "spec.progressDeadlineSeconds",
            deadline,
            "must be greater than minReadySeconds",
        ));
    }
    causes
}

/// What is wrong with a replica set.
pub(super) fn replica_set(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let mut causes = selected_template(value, old, "deployment");
    causes.extend(not_negative(value, &["replicas", "minReadySeconds"]));
    causes
}

/// What is wrong with a stateful set.
pub(super) fn stateful_set(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let mut causes = selected_template(value, None, "statefulset");
    causes.extend(not_negative(value, &["replicas", "minReadySeconds", "revisionHistoryLimit"]));
    if let Some(old) = old {
        let mut allowed = value.get("spec").cloned().unwrap_or_default();
        let before = old.get("spec").cloned().unwrap_or_default();
        for field in [
            "replicas",
            "ordinals",
            "template",
            "updateStrategy",
            "revisionHistoryLimit",
            "persistentVolumeClaimRetentionPolicy",
            "minReadySeconds",
        ] {
            match before.get(field) {
                Some(value) => tree::set(&mut allowed, &[field], value.clone()),
                None => drop(tree::remove(&mut allowed, &[field])),
            }
        }
        if allowed != before {
            let why = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
                'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' \
                are forbidden";
            causes.push(StatusCause::forbidden("spec", why));
        }
    }
    causes
}

/// What is wrong with a daemon set.
pub(super) fn daemon_set(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let mut causes = selected_template(value, old, "daemonset");
    causes.extend(not_negative(value, &["minReadySeconds", "revisionHistoryLimit"]));
    causes
}

/// What is wrong with the status of a workload: no more pods can be in a state than there are.
pub(super) fn status(value: &Value) -> Vec<StatusCause> {
    let count = |field: &str| tree::int(value, &["status", field]).unwrap_or_default();
    const COUNTS: [&str; 5] =
        ["updatedReplicas", "readyReplicas", "availableReplicas", "fullyLabeledReplicas", "currentReplicas"];
    let mut causes = Vec::new();
    for field in ["replicas"].into_iter().chain(COUNTS) {
        causes.extend(number::not_negative(value, &["status", field]));
    }
    let why = "cannot be greater than status.replicas";
    let too_many = COUNTS.into_iter().filter(|field| count(field) > count("replicas"));
    causes.extend(too_many.map(|field| StatusCause::invalid(format!("status.{field}"), count(field), why)));
    if count("availableReplicas") > count("readyReplicas") {
        let why = "cannot be greater than readyReplicas";
        causes.push(StatusCause::invalid("status.availableReplicas", count("availableReplicas"), why));
    }
    causes
}

fn not_negative(value: &Value, fields: &[&str]) -> Vec<StatusCause> {
    fields.iter().filter_map(|field| number::not_negative(value, &["spec", field])).collect()
}

/// Not both numbers may be nothing, or no pod could ever be replaced.
fn rolling_update(field: &str, strategy: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    for (name, is_bounded) in [("maxUnavailable", true), ("maxSurge", false)] {
        let amount = tree::get(strategy, &["rollingUpdate", name]);
        causes.extend(super::selector::amount(&format!("{field}.{name}"), amount, is_bounded));
    }
    let is_zero = |name: &str| match tree::get(strategy, &["rollingUpdate", name]) {
        Some(Value::Int(0)) => true,
        Some(Value::String(text)) => text == "0%",
        _ => false,
    };
    if is_zero("maxUnavailable") && is_zero("maxSurge") {
        let shown = tree::get(strategy, &["rollingUpdate", "maxUnavailable"]).cloned().unwrap_or_default();
        let why = "may not be 0 when `maxSurge` is 0";
        causes.push(StatusCause::invalid(format!("{field}.maxUnavailable"), shown, why));
    }
    causes
}

/// The rules of a selector and of the template whose pods it must select.
fn selected_template(value: &Value, old: Option<&Value>, kind: &str) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let selector = tree::get(value, &["spec", "selector"]).filter(|selector| !selector.is_null());
    let mut is_valid = true;
    match selector {
        None => causes.push(StatusCause::required("spec.selector", "")),
        Some(selector) => {
            let complaints = super::selector::selector("spec.selector", selector);
            is_valid = complaints.is_empty();
            causes.extend(complaints);
            if selector.as_object().is_some_and(|fields| fields.is_empty()) {
                let why = format!("empty selector is invalid for {kind}");
                causes.push(StatusCause::invalid("spec.selector", selector, &why));
            }
        }
    }
    let decoded: Option<LabelSelector> = selector.and_then(|selector| Decoder::new().json(&to_json(selector)).ok());
    let template = tree::get(value, &["spec", "template"]).cloned().unwrap_or_default();
    let labels = tree::get(&template, &["metadata", "labels"]);
    match Selector::from_label_selector(decoded.as_ref()) {
        Ok(chosen) => {
            if !chosen.matches(&text_map(labels)) {
                let shown = labels.cloned().unwrap_or_else(|| tree::map([]));
                let why = "`selector` does not match template `labels`";
                causes.push(StatusCause::invalid("spec.template.metadata.labels", shown, why));
            }
        }
        Err(_) => {
            let shown = selector.cloned().unwrap_or_default();
            causes.push(StatusCause::invalid("spec.selector", shown, "invalid label selector"));
        }
    }
    if is_valid {
        causes.extend(metadata::labels("spec.template.metadata.labels", labels));
    }
    let spec = template.get("spec").cloned().unwrap_or_default();
    causes.extend(pod::spec_causes("spec.template.spec", &spec));
    match tree::text(&spec, &["restartPolicy"]) {
        "" | "Always" => {}
        other => {
            causes.retain(|cause| cause.field.as_deref() != Some("spec.template.spec.restartPolicy"));
            causes.push(StatusCause::not_supported("spec.template.spec.restartPolicy", quoted(other), &["Always"]));
        }
    }
    if let Some(old) = old {
        causes.extend(number::immutable(value, old, &["spec", "selector"]));
    }
    causes
}
