//! Validates pod updates, which may change few fields.

use std::collections::{HashMap, HashSet};

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;
use kubewright_core::tree::{self, text_map};

use super::metadata::quoted;
use super::{container, leniency, pod};
use crate::defaulting::quality_of_service;

/// Resources that can be resized in place.
const RESIZABLE: [&str; 2] = ["cpu", "memory"];

/// Validates a pod update. Images, the deadline, tolerations and gates are nearly all that may
/// change.
pub(super) fn changes(new: &Value, old: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    for list in ["containers", "initContainers"] {
        let lists = [new, old].map(|pod| tree::items(pod, &["spec", list]));
        if lists[0].len() != lists[1].len() {
            let why = "pod updates may not add or remove containers";
            causes.push(StatusCause::forbidden(format!("spec.{list}"), why));
            return causes;
        }
        for (index, container) in lists[0].iter().enumerate() {
            let field = format!("spec.{list}[{index}]");
            if tree::text(container, &["image"]).is_empty() {
                causes.push(StatusCause::required(format!("{field}.image"), ""));
            }
            if lists[1][index].get("image") != container.get("image") {
                causes.extend(container::padded_image(&field, container));
            }
        }
    }
    match deadline(new, old) {
        Deadline::Refused(cause) => {
            causes.push(cause);
            return causes;
        }
        Deadline::Gone(cause) => causes.push(cause),
        Deadline::Fine => {}
    }
    causes.extend(tolerations(new, old));
    let names = |pod: &Value| -> Vec<String> {
        let gates = tree::items(pod, &["spec", "schedulingGates"]).iter();
        gates.map(|gate| tree::text(gate, &["name"]).to_owned()).collect()
    };
    let before = names(old);
    for (index, gate) in names(new).iter().enumerate().filter(|(_, gate)| !before.contains(gate)) {
        let why = format!("only deletion is allowed, but found new scheduling gate '{gate}'");
        causes.push(StatusCause::forbidden(format!("spec.schedulingGates[{index}].name"), &why));
    }
    if new.get("spec") != old.get("spec") {
        if quality_of_service(new) != quality_of_service(old) {
            let class = tree::get(new, &["status", "qosClass"]).cloned().unwrap_or_else(|| "".into());
            causes.push(StatusCause::invalid("metadata", class, "Pod QoS is immutable"));
        }
        causes.extend(other_changes(new, old));
    }
    causes
}

/// Validates an update of ephemeral containers: existing ones are immutable, new ones are allowed.
pub(super) fn ephemeral(new: &Value, old: &Value) -> Vec<StatusCause> {
    let containers = |pod| tree::items(pod, &["spec", "ephemeralContainers"]);
    let mut causes = content(new, old);
    let by_name: HashMap<_, _> = containers(new).iter().rev().map(|now| (tree::text(now, &["name"]), now)).collect();
    for before in containers(old) {
        let name = tree::text(before, &["name"]);
        let what = match by_name.get(name).copied() {
            Some(now) if now == before => continue,
            Some(_) => "changed",
            None => "removed",
        };
        let why = format!("existing ephemeral containers {} may not be {what}\n", quoted(name));
        causes.push(StatusCause::forbidden("spec.ephemeralContainers", &why));
    }
    causes
}

/// Validates an in-place resize.
pub(super) fn resize(new: &Value, old: &Value) -> Vec<StatusCause> {
    let mut causes = content(new, old);
    if quality_of_service(new) != quality_of_service(old) {
        let why = "Pod QOS Class may not change as a result of resizing";
        causes.push(StatusCause::invalid("spec", quoted(quality_of_service(new)), why));
    }
    for list in ["containers", "initContainers"] {
        let pairs = tree::items(new, &["spec", list]).iter().zip(tree::items(old, &["spec", list])).enumerate();
        for (index, (now, before)) in pairs {
            let field = format!("spec.{list}[{index}].resources");
            let is_fixed = list == "initContainers" && tree::text(before, &["restartPolicy"]) != "Always";
            if is_fixed && now.get("resources") != before.get("resources") {
                let why = "resources for non-sidecar init containers are immutable";
                causes.push(StatusCause::forbidden(field, why));
            } else if !is_fixed {
                causes.extend(removed(&field, now, before));
            }
        }
    }
    if let Some((now, before)) = new.get("spec").zip(old.get("spec")) {
        causes.extend(removed("spec.resources", now, before));
    }
    if other_amounts(new) != other_amounts(old) {
        causes.push(StatusCause::forbidden("spec", "only cpu and memory resources are mutable"));
    }
    causes
}

/// Rejects the removal of a cpu or memory limit or request.
fn removed(field: &str, now: &Value, before: &Value) -> Vec<StatusCause> {
    let is_gone = |kind: &str, name: &str| {
        let get = |container| tree::get(container, &["resources", kind, name]);
        get(before).is_some() && get(now).is_none()
    };
    let gone = ["limits", "requests"].into_iter().filter(|kind| RESIZABLE.iter().any(|name| is_gone(kind, name)));
    let complain =
        |kind: &str| StatusCause::forbidden(format!("{field}.{kind}"), &format!("resource {kind} cannot be removed"));
    gone.map(complain).collect()
}

/// All resources except resizable ones, of the containers and of the pod.
fn other_amounts(pod: &Value) -> Vec<Value> {
    let containers = ["containers", "initContainers"].into_iter().flat_map(|list| tree::items(pod, &["spec", list]));
    let all = containers.chain(pod.get("spec"));
    let resources = all.map(|one| one.get("resources").cloned().unwrap_or_else(|| tree::map([])));
    let others = resources.map(|mut resources| {
        for kind in ["limits", "requests"] {
            RESIZABLE.iter().for_each(|name| drop(tree::remove(&mut resources, &[kind, name])));
            let is_empty = |amounts: &Value| amounts.as_object().is_some_and(|amounts| amounts.is_empty());
            if tree::get(&resources, &[kind]).is_some_and(is_empty) {
                tree::remove(&mut resources, &[kind]);
            }
        }
        resources
    });
    others.collect()
}

fn content(new: &Value, old: &Value) -> Vec<StatusCause> {
    let causes = |pod: &Value| pod::spec_causes("spec", pod.get("spec").unwrap_or(&Value::Null), Some(pod));
    leniency::new_causes(causes(new), || causes(old))
}

enum Deadline {
    Fine,
    /// Stops validation of the update.
    Refused(StatusCause),
    Gone(StatusCause),
}

/// Validates the deadline, which may only decrease.
fn deadline(new: &Value, old: &Value) -> Deadline {
    const FIELD: &str = "spec.activeDeadlineSeconds";
    let seconds = |pod: &Value| tree::int(pod, &["spec", "activeDeadlineSeconds"]);
    match (seconds(new), seconds(old)) {
        (Some(now), _) if !(0..=i64::from(i32::MAX)).contains(&now) => {
            Deadline::Refused(StatusCause::invalid(FIELD, now, "must be between 0 and 2147483647, inclusive"))
        }
        (Some(now), Some(before)) if before < now => {
            Deadline::Refused(StatusCause::invalid(FIELD, now, "must be less than or equal to previous value"))
        }
        (None, Some(_)) => {
            let why = "must not update from a positive integer to nil value";
            Deadline::Gone(StatusCause::invalid(FIELD, "null", why))
        }
        _ => Deadline::Fine,
    }
}

/// Allows new tolerations, and changes of `tolerationSeconds`.
fn tolerations(new: &Value, old: &Value) -> Vec<StatusCause> {
    let now = tree::items(new, &["spec", "tolerations"]);
    let without_seconds = |toleration: &Value| {
        let mut toleration = toleration.clone();
        tree::remove(&mut toleration, &["tolerationSeconds"]);
        toleration
    };
    let kept: HashSet<String> = now.iter().map(|one| without_seconds(one).to_string()).collect();
    let is_kept = |before: &Value| kept.contains(&without_seconds(before).to_string());
    if !tree::items(old, &["spec", "tolerations"]).iter().all(is_kept) {
        let why = "existing toleration can not be modified except its tolerationSeconds";
        return vec![StatusCause::forbidden("spec.tolerations", why)];
    }
    pod::tolerations("spec.tolerations", now)
}

/// Resets the mutable fields to the old values, and rejects any difference that remains.
fn other_changes(new: &Value, old: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let mut allowed = new.get("spec").cloned().unwrap_or_default();
    let before = old.get("spec").cloned().unwrap_or_default();
    for list in ["containers", "initContainers"] {
        let images = tree::items(&before, &[list]).iter().map(|one| one.get("image").cloned());
        for (container, image) in tree::items_mut(&mut allowed, list).iter_mut().zip(images.collect::<Vec<_>>()) {
            if let Some(image) = image {
                tree::set(container, &["image"], image);
            }
        }
    }
    for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        restore_field(&mut allowed, &before, &[field]);
    }
    let grace = |spec: &Value| tree::int(spec, &["terminationGracePeriodSeconds"]);
    if grace(&before).is_some_and(|seconds| seconds < 0) && grace(&allowed) == Some(1) {
        restore_field(&mut allowed, &before, &["terminationGracePeriodSeconds"]);
    }
    // While a pod is gated, its scheduling directives may become stricter.
    if !tree::items(&before, &["schedulingGates"]).is_empty() {
        let [now, then] = [&allowed, &before].map(|spec| text_map(spec.get("nodeSelector")));
        if then.iter().any(|(key, value)| now.get(key) != Some(value)) {
            let why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
            let shown = allowed.get("nodeSelector").cloned().unwrap_or_default();
            causes.push(StatusCause::invalid("spec.nodeSelector", shown, why));
        }
        restore_field(&mut allowed, &before, &["nodeSelector"]);
        causes.extend(gated_affinity(&mut allowed, &before));
    }
    if allowed != before {
        let why = "pod updates may not change fields other than `spec.containers[*].image`,\
            `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing \
            tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
        causes.push(StatusCause::forbidden("spec", why));
    }
    causes
}

/// Allows stricter required terms: terms stay and get more requirements. Preferences may change
/// freely.
fn gated_affinity(allowed: &mut Value, before: &Value) -> Vec<StatusCause> {
    const NODE: [&str; 2] = ["affinity", "nodeAffinity"];
    const FIELD: &str = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    let terms = |spec: &Value| {
        let path = ["affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"];
        tree::items(spec, &path).to_vec()
    };
    let (now, then) = (terms(allowed), terms(before));
    let mut causes = Vec::new();
    if !then.is_empty() && now.len() != then.len() {
        let why = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        causes.push(StatusCause::invalid(FIELD, Value::from(now), why));
    } else {
        for (index, (now, then)) in now.iter().zip(&then).enumerate() {
            let list = |term: &Value, part: &str| tree::items(term, &[part]).to_vec();
            let is_kept =
                ["matchExpressions", "matchFields"].iter().all(|part| list(now, part).starts_with(&list(then, part)));
            if !is_kept {
                let why = "only additions are allowed (no mutations or deletions)";
                causes.push(StatusCause::invalid(format!("{FIELD}[{index}]"), now, why));
            }
        }
    }
    restore_field(allowed, before, &NODE);
    if before.get("affinity").is_none()
        && tree::get(allowed, &["affinity"]).is_some_and(|left| left.as_object().is_some_and(|left| left.is_empty()))
    {
        tree::remove(allowed, &["affinity"]);
    }
    causes
}

fn restore_field(value: &mut Value, before: &Value, path: &[&str]) {
    match tree::get(before, path) {
        Some(old) => tree::set(value, path, old.clone()),
        None => drop(tree::remove(value, path)),
    }
}
