//! Validates Deployments, ReplicaSets, ReplicationControllers and PodTemplates.

use kubewright_core::meta::v1::StatusCause;
use kubewright_core::tree::{self, text_map};
use kubewright_core::{Selector, Value};

use super::metadata::quoted;
use super::{number, pod, text};

/// Validates a Deployment.
pub(super) fn deployment(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let mut causes = not_negative(value, &["replicas"]);
    causes.extend(selected_template(value, old, "deployment"));
    let strategy = tree::get(value, &["spec", "strategy"]).cloned().unwrap_or_default();
    match tree::text(&strategy, &["type"]) {
        "Recreate" if strategy.get("rollingUpdate").is_some() => {
            let why = "may not be specified when strategy `type` is 'Recreate'";
            causes.push(StatusCause::forbidden("spec.strategy.rollingUpdate", why));
        }
        "Recreate" => {}
        "RollingUpdate" => causes.extend(rolling_update("spec.strategy.rollingUpdate", &strategy)),
        _ => {
            let known = ["Recreate", "RollingUpdate"];
            causes.push(StatusCause::not_supported("spec.strategy", shown_strategy(&strategy), &known));
        }
    }
    causes.extend(not_negative(value, &["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"]));
    let ready = tree::int(value, &["spec", "minReadySeconds"]).unwrap_or_default();
    if let Some(deadline) =
        tree::int(value, &["spec", "progressDeadlineSeconds"]).filter(|deadline| *deadline <= ready && *deadline >= 0)
    {
        let why = "must be greater than minReadySeconds";
        causes.push(StatusCause::invalid("spec.progressDeadlineSeconds", deadline, why));
    }
    causes.extend(old.and_then(|old| number::immutable(value, old, &["spec", "selector"])));
    causes
}

/// A strategy in the form of error messages.
pub(super) fn shown_strategy(strategy: &Value) -> String {
    text::internal(strategy, &[("Type", "type", "\"\""), ("RollingUpdate", "rollingUpdate", "null")])
}

/// Validates a ReplicaSet.
pub(super) fn replica_set(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let mut causes = not_negative(value, &["replicas", "minReadySeconds"]);
    causes.extend(selected_template(value, old, "deployment"));
    causes.extend(old.and_then(|old| number::immutable(value, old, &["spec", "selector"])));
    causes
}

/// Validates a ReplicationController, whose selector is a plain label map.
pub(super) fn replication_controller(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let mut causes = not_negative(value, &["minReadySeconds"]);
    let wanted = text_map(tree::get(value, &["spec", "selector"]));
    if wanted.is_empty() {
        causes.push(StatusCause::required("spec.selector", ""));
    }
    causes.extend(not_negative(value, &["replicas"]));
    let Some(template) = tree::get(value, &["spec", "template"]) else {
        causes.push(StatusCause::required("spec.template", ""));
        return causes;
    };
    let labels = tree::get(template, &["metadata", "labels"]);
    let given = text_map(labels);
    if wanted.iter().any(|(key, value)| given.get(key) != Some(value)) {
        causes.push(unmatched(labels));
    }
    causes.extend(changed_template(template, old));
    causes.extend(long_running("spec.template.spec", template, "ReplicationController"));
    causes
}

/// Validates a PodTemplate.
pub(super) fn pod_template(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let before = old.and_then(|old| old.get("template"));
    pod::changed_template("template", value.get("template").unwrap_or(&Value::Null), before)
}

/// Validates the pod template of a workload.
pub(super) fn changed_template(template: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    pod::changed_template("spec.template", template, old.and_then(|old| tree::get(old, &["spec", "template"])))
}

/// Validates the status of a Deployment.
pub(super) fn deployment_status(value: &Value, old: &Value) -> Vec<StatusCause> {
    const COUNTS: [&str; 8] = [
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ];
    let mut causes =
        counts(value, &COUNTS, &["updatedReplicas", "readyReplicas", "availableReplicas"], "readyReplicas");
    causes.extend(fewer_collisions(value, old));
    causes
}

/// Validates the status of a ReplicaSet or a ReplicationController.
pub(super) fn replicas_status(value: &Value) -> Vec<StatusCause> {
    const COUNTS: [&str; 6] = [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "terminatingReplicas",
        "observedGeneration",
    ];
    counts(value, &COUNTS, &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"], "readyReplicas")
}

/// Validates the counters of a status: none may exceed the number of replicas.
pub(super) fn counts(value: &Value, all: &[&str], replicas: &[&str], ready: &str) -> Vec<StatusCause> {
    let count = |field: &str| tree::int(value, &["status", field]).unwrap_or_default();
    let mut causes: Vec<_> = all.iter().filter_map(|field| number::not_negative(value, &["status", field])).collect();
    let why = "cannot be greater than status.replicas";
    let too_many = replicas.iter().filter(|field| count(field) > count("replicas"));
    causes.extend(too_many.map(|field| StatusCause::invalid(format!("status.{field}"), count(field), why)));
    let available = count("availableReplicas");
    if available > count("readyReplicas") {
        let why = format!("cannot be greater than {ready}");
        causes.push(StatusCause::invalid("status.availableReplicas", available, &why));
    }
    causes
}

/// Rejects a decreasing `collisionCount`.
pub(super) fn fewer_collisions(value: &Value, old: &Value) -> Option<StatusCause> {
    let [now, before] = [value, old].map(|set| tree::int(set, &["status", "collisionCount"]).unwrap_or_default());
    (now < before).then(|| StatusCause::invalid("status.collisionCount", now, "cannot be decremented"))
}

/// Requires non-negative numbers in the spec.
pub(super) fn not_negative(value: &Value, fields: &[&str]) -> Vec<StatusCause> {
    fields.iter().filter_map(|field| number::not_negative(value, &["spec", field])).collect()
}

/// Rejects a rolling update with zero surge and zero unavailable, which could never proceed.
fn rolling_update(field: &str, strategy: &Value) -> Vec<StatusCause> {
    let amount = |name: &str| tree::get(strategy, &["rollingUpdate", name]);
    let mut causes = Vec::new();
    for name in ["maxUnavailable", "maxSurge"] {
        causes.extend(super::selector::amount(&format!("{field}.{name}"), amount(name), false));
    }
    let is_zero = |name: &str| match amount(name) {
        Some(Value::Int(0)) => true,
        Some(Value::String(text)) => text == "0%",
        _ => false,
    };
    let field = format!("{field}.maxUnavailable");
    if is_zero("maxUnavailable") && is_zero("maxSurge") {
        let shown = amount("maxUnavailable").cloned().unwrap_or_default();
        causes.push(StatusCause::invalid(field.as_str(), shown, "may not be 0 when `maxSurge` is 0"));
    }
    causes.extend(super::selector::above_100_percent(&field, amount("maxUnavailable")));
    causes
}

/// Validates the selector and the template, and that they match.
fn selected_template(value: &Value, old: Option<&Value>, kind: &str) -> Vec<StatusCause> {
    let mut causes = selector(value, kind);
    let nothing = Value::default();
    let template = tree::get(value, &["spec", "template"]).unwrap_or(&nothing);
    match chosen(value) {
        Some(chosen) => {
            causes.extend(matched(&chosen, template));
            causes.extend(changed_template(template, old));
            causes.extend(long_running("spec.template.spec", template, "ReplicaSet"));
        }
        None => {
            let shown = tree::get(value, &["spec", "selector"]).cloned().unwrap_or_default();
            causes.push(StatusCause::invalid("spec.selector", shown, "invalid label selector"));
        }
    }
    causes
}

/// Validates a selector, which must not be empty.
pub(super) fn selector(value: &Value, kind: &str) -> Vec<StatusCause> {
    let Some(selector) = tree::get(value, &["spec", "selector"]).filter(|selector| !selector.is_null()) else {
        return vec![StatusCause::required("spec.selector", "")];
    };
    let mut causes = super::selector::selector("spec.selector", selector);
    causes.extend(empty_selector(selector, kind));
    causes
}

/// Rejects an empty selector.
pub(super) fn empty_selector(selector: &Value, kind: &str) -> Option<StatusCause> {
    let is_empty = selector.as_object().is_some_and(|fields| fields.is_empty());
    let why = format!("empty selector is invalid for {kind}");
    is_empty.then(|| StatusCause::invalid("spec.selector", selector, &why))
}

/// The parsed selector of a workload, if it is valid.
pub(super) fn chosen(value: &Value) -> Option<Selector> {
    super::selector::usable(tree::get(value, &["spec", "selector"]))
}

/// Requires that the selector matches the labels of the template.
pub(super) fn matched(chosen: &Selector, template: &Value) -> Option<StatusCause> {
    let labels = tree::get(template, &["metadata", "labels"]);
    (!chosen.matches(&text_map(labels))).then(|| unmatched(labels))
}

fn unmatched(labels: Option<&Value>) -> StatusCause {
    let shown = labels.cloned().unwrap_or_default();
    let why = "`selector` does not match template `labels`";
    StatusCause::invalid("spec.template.metadata.labels", shown, why)
}

/// Requires a template whose pods run until they are deleted.
pub(super) fn long_running(field: &str, template: &Value, kind: &str) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    match tree::text(template, &["spec", "restartPolicy"]) {
        "Always" => {}
        other => {
            causes.push(StatusCause::not_supported(format!("{field}.restartPolicy"), quoted(other), &["Always"]));
        }
    }
    if tree::get(template, &["spec", "activeDeadlineSeconds"]).is_some() {
        let why = format!("activeDeadlineSeconds in {kind} is not Supported");
        causes.push(StatusCause::forbidden(format!("{field}.activeDeadlineSeconds"), &why));
    }
    causes
}
