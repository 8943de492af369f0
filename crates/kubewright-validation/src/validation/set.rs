//! Validates StatefulSets, DaemonSets and ControllerRevisions.

use std::collections::HashSet;

use kubewright_core::meta::v1::StatusCause;
use kubewright_core::validation::dns1123_label;
use kubewright_core::{Value, tree};

use super::metadata::{annotations, labels, quoted};
use super::{claim, number, pod, selector, text, workload};

/// Mutable fields of a StatefulSet spec.
const CHANGEABLE: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

/// Validates a StatefulSet. A template or claim that was already invalid is accepted.
pub(super) fn stateful(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let nothing = Value::default();
    let spec = value.get("spec").unwrap_or(&nothing);
    let mut causes = Vec::new();
    match tree::text(spec, &["podManagementPolicy"]) {
        "" => causes.push(StatusCause::required("spec.podManagementPolicy", "")),
        "OrderedReady" | "Parallel" => {}
        other => {
            let why = "must be 'OrderedReady' or 'Parallel'";
            causes.push(StatusCause::invalid("spec.podManagementPolicy", quoted(other), why));
        }
    }
    causes.extend(stateful_update(spec.get("updateStrategy").unwrap_or(&nothing)));
    if let Some(policy) = spec.get("persistentVolumeClaimRetentionPolicy") {
        for part in ["whenDeleted", "whenScaled"] {
            let field = format!("spec.persistentVolumeClaimRetentionPolicy.{part}");
            causes.extend(number::one_of(field, tree::text(policy, &[part]), &["Retain", "Delete"]));
        }
    }
    let before = old.and_then(|old| old.get("spec"));
    if before.is_none_or(|before| claims(before).is_empty()) {
        causes.extend(claims(spec));
    }
    causes.extend(workload::not_negative(value, &["replicas", "minReadySeconds"]));
    causes.extend(number::not_negative(value, &["spec", "ordinals", "start"]));
    if old.is_none() {
        let service = tree::text(spec, &["serviceName"]);
        causes.extend(text::check_optional("spec.serviceName", service, dns1123_label));
    }
    causes.extend(workload::not_negative(value, &["revisionHistoryLimit"]));
    causes.extend(workload::selector(value, "statefulset"));
    let template = spec.get("template").unwrap_or(&nothing);
    match workload::chosen(value) {
        Some(chosen) => {
            causes.extend(workload::matched(&chosen, template));
            if before.is_none_or(|before| pod::template("", &with_claims(before)).is_empty()) {
                causes.extend(pod::template("spec.template", &with_claims(spec)));
            } else {
                let metadata = |part: &str| tree::get(template, &["metadata", part]);
                causes.extend(labels("spec.template.labels", metadata("labels")));
                causes.extend(annotations("spec.template.annotations", metadata("annotations")));
            }
        }
        None => {
            let shown = spec.get("selector").cloned().unwrap_or_default();
            causes.push(StatusCause::invalid("spec.selector", shown, ""));
        }
    }
    causes.extend(workload::long_running("spec.template.spec", template, "StatefulSet"));
    causes.extend(old.and_then(|old| stateful_changes(spec, old)));
    causes
}

/// Validates the volume claim templates.
fn claims(spec: &Value) -> Vec<StatusCause> {
    let nothing = Value::default();
    let claims = tree::items(spec, &["volumeClaimTemplates"]).iter().enumerate();
    let check = |(index, claim): (usize, &Value)| {
        let field = format!("spec.volumeClaimTemplates[{index}].spec");
        claim::spec_causes(&field, claim.get("spec").unwrap_or(&nothing))
    };
    claims.flat_map(check).collect()
}

/// The pod template with the claims as volumes. They come first, and replace volumes of the same
/// name.
fn with_claims(spec: &Value) -> Value {
    let mut template = spec.get("template").cloned().unwrap_or_default();
    let mut volumes: Vec<Value> = Vec::new();
    let mut claims = HashSet::new();
    for claim in tree::items(spec, &["volumeClaimTemplates"]) {
        let name = tree::text(claim, &["metadata", "name"]);
        if claims.insert(name) {
            let source = tree::map([("claimName", "claim".into())]);
            volumes.push(tree::map([("name", name.into()), ("persistentVolumeClaim", source)]));
        }
    }
    if volumes.is_empty() {
        return template;
    }
    for volume in tree::items(&template, &["spec", "volumes"]) {
        let is_claimed = volume.get("name").and_then(Value::as_str).is_some_and(|name| claims.contains(name));
        if !is_claimed {
            volumes.push(volume.clone());
        }
    }
    tree::set(&mut template, &["spec", "volumes"], volumes);
    template
}

fn stateful_update(strategy: &Value) -> Vec<StatusCause> {
    const FIELD: &str = "spec.updateStrategy";
    let update = strategy.get("rollingUpdate");
    match (tree::text(strategy, &["type"]), update) {
        ("", _) => vec![StatusCause::required(FIELD, "")],
        ("OnDelete", Some(update)) => {
            let fields = [("Partition", "partition", "0"), ("MaxUnavailable", "maxUnavailable", "null")];
            let why = "only allowed for updateStrategy 'RollingUpdate'";
            vec![StatusCause::invalid(format!("{FIELD}.rollingUpdate"), text::internal(update, &fields), why)]
        }
        ("RollingUpdate", Some(update)) => {
            let mut causes = Vec::new();
            if let Some(partition) = tree::int(update, &["partition"]).filter(|partition| *partition < 0) {
                let why = "must be greater than or equal to 0";
                causes.push(StatusCause::invalid(format!("{FIELD}.rollingUpdate.partition"), partition, why));
            }
            if let Some(amount) = update.get("maxUnavailable") {
                let field = format!("{FIELD}.rollingUpdate.maxUnavailable");
                causes.extend(selector::amount(&field, Some(amount), false));
                if is_zero(Some(amount)) {
                    causes.push(StatusCause::invalid(field.as_str(), amount, "cannot be 0"));
                }
                causes.extend(selector::above_100_percent(&field, Some(amount)));
            }
            causes
        }
        ("OnDelete" | "RollingUpdate", None) => Vec::new(),
        _ => {
            let why = "must be 'RollingUpdate' or 'OnDelete'";
            vec![StatusCause::invalid(FIELD, workload::shown_strategy(strategy), why)]
        }
    }
}

fn stateful_changes(spec: &Value, old: &Value) -> Option<StatusCause> {
    let mut allowed = spec.clone();
    let before = old.get("spec").cloned().unwrap_or_default();
    for field in CHANGEABLE {
        match before.get(field) {
            Some(value) => tree::set(&mut allowed, &[field], value.clone()),
            None => drop(tree::remove(&mut allowed, &[field])),
        }
    }
    let why = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
        'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' \
        are forbidden";
    (allowed != before).then(|| StatusCause::forbidden("spec", why))
}

/// Validates a DaemonSet.
pub(super) fn daemon(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let nothing = Value::default();
    let spec = value.get("spec").unwrap_or(&nothing);
    let template = spec.get("template").unwrap_or(&nothing);
    let chosen = spec.get("selector").filter(|selector| !selector.is_null());
    let mut causes: Vec<_> = chosen.into_iter().flat_map(|one| selector::selector("spec.selector", one)).collect();
    causes.extend(workload::chosen(value).and_then(|chosen| workload::matched(&chosen, template)));
    causes.extend(chosen.and_then(|selector| workload::empty_selector(selector, "daemonset")));
    causes.extend(workload::changed_template(template, old));
    causes.extend(workload::long_running("spec.template.spec", template, "DaemonSet"));
    causes.extend(workload::not_negative(value, &["minReadySeconds"]));
    causes.extend(daemon_update(spec.get("updateStrategy").unwrap_or(&nothing)));
    causes.extend(workload::not_negative(value, &["revisionHistoryLimit"]));
    causes.extend(old.and_then(|old| number::immutable(value, old, &["spec", "selector"])));
    causes
}

fn daemon_update(strategy: &Value) -> Vec<StatusCause> {
    const FIELD: &str = "spec.updateStrategy";
    const PARTS: [&str; 2] = ["maxUnavailable", "maxSurge"];
    let mut causes = Vec::new();
    match tree::text(strategy, &["type"]) {
        "OnDelete" => {}
        "RollingUpdate" => {
            let amount = |part: &str| tree::get(strategy, &["rollingUpdate", part]);
            let field = |part: &str| format!("{FIELD}.rollingUpdate.{part}");
            for part in PARTS {
                causes.extend(selector::amount(&field(part), amount(part), false));
            }
            for part in PARTS {
                causes.extend(selector::above_100_percent(&field(part), amount(part)));
            }
            match PARTS.map(|part| is_zero(amount(part))) {
                [false, false] => {
                    let shown = amount("maxSurge").cloned().unwrap_or_default();
                    let why = "may not be set when maxUnavailable is non-zero";
                    causes.push(StatusCause::invalid(field("maxSurge"), shown, why));
                }
                [true, true] => {
                    causes.push(StatusCause::required(field("maxUnavailable"), "cannot be 0 when maxSurge is 0"));
                }
                _ => {}
            }
        }
        _ => {
            let known = ["RollingUpdate", "OnDelete"];
            causes.push(StatusCause::not_supported(FIELD, workload::shown_strategy(strategy), &known));
        }
    }
    causes
}

/// Whether an amount is zero. Invalid amounts count as zero.
fn is_zero(amount: Option<&Value>) -> bool {
    match amount {
        Some(Value::Int(number)) => *number == 0,
        Some(Value::String(text)) => text.trim_end_matches('%').parse::<i64>().unwrap_or_default() == 0,
        _ => true,
    }
}

/// Validates the status of a DaemonSet.
pub(super) fn daemon_status(value: &Value, old: &Value) -> Vec<StatusCause> {
    const COUNTS: [&str; 9] = [
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ];
    let counts = COUNTS.into_iter();
    let mut causes: Vec<_> = counts.filter_map(|field| number::not_negative(value, &["status", field])).collect();
    causes.extend(workload::fewer_collisions(value, old));
    causes
}

/// Validates the status of a StatefulSet.
pub(super) fn stateful_status(value: &Value, old: &Value) -> Vec<StatusCause> {
    const COUNTS: [&str; 7] = [
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ];
    let replicas = ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
    let mut causes = workload::counts(value, &COUNTS, &replicas, "status.readyReplicas");
    causes.extend(workload::fewer_collisions(value, old));
    causes
}

/// Validates a ControllerRevision. Its data is immutable.
pub(super) fn revision(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    causes.extend(number::not_negative(value, &["revision"]));
    match value.get("data") {
        _ if old.is_some() => {}
        None | Some(Value::Null) => causes.push(StatusCause::required("data", "data is mandatory")),
        Some(Value::Object(_)) => {}
        Some(_) => causes.push(StatusCause::required("data", "data must be a valid JSON object")),
    }
    causes.extend(old.and_then(|old| number::immutable(value, old, &["data"])));
    causes
}
