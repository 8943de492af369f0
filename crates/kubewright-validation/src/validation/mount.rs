//! Validates volume mounts and volume devices of containers.

use std::collections::HashSet;

use kubewright_core::meta::v1::StatusCause;
use kubewright_core::{Value, tree};

use super::container::PodContext;
use super::metadata::quoted;
use super::text;

/// Validates the volume mounts of a container.
pub(super) fn mounts(field: &str, container: &Value, pod: &PodContext<'_>) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let mounts = tree::items(container, &["volumeMounts"]);
    let mut places = HashSet::new();
    let devices = tree::items(container, &["volumeDevices"]);
    let device_names = texts_of(devices, "name");
    let device_paths = texts_of(devices, "devicePath");
    for (index, mount) in mounts.iter().enumerate() {
        let inner = format!("{field}[{index}]");
        let (name, place) = (tree::text(mount, &["name"]), tree::text(mount, &["mountPath"]));
        if name.is_empty() {
            causes.push(StatusCause::required(format!("{inner}.name"), ""));
        }
        if !pod.volumes.contains_key(name) {
            causes.push(StatusCause::not_found(format!("{inner}.name"), quoted(name)));
        }
        if place.is_empty() {
            causes.push(StatusCause::required(format!("{inner}.mountPath"), ""));
        }
        if !places.insert(place) {
            causes.push(StatusCause::invalid(format!("{inner}.mountPath"), quoted(place), "must be unique"));
        }
        if device_names.contains(name) {
            let why = "must not already exist in volumeDevices";
            causes.push(StatusCause::invalid(format!("{inner}.name"), quoted(name), why));
        }
        if device_paths.contains(place) {
            let why = "must not already exist as a path in volumeDevices";
            causes.push(StatusCause::invalid(format!("{inner}.mountPath"), quoted(place), why));
        }
        // The real server omits the index in the paths below.
        let (path, expression) = (tree::text(mount, &["subPath"]), tree::text(mount, &["subPathExpr"]));
        causes.extend(text::descending(&format!("{field}.subPath"), path));
        if !expression.is_empty() && !path.is_empty() {
            let why = "subPathExpr and subPath are mutually exclusive";
            causes.push(StatusCause::invalid(format!("{inner}.subPathExpr"), quoted(expression), why));
        }
        causes.extend(text::descending(&format!("{field}.subPathExpr"), expression));
        causes.extend(propagation(&format!("{field}.mountPropagation"), mount, container));
        causes.extend(read_only(&format!("{field}.recursiveReadOnly"), mount));
    }
    causes
}

/// The values of a string field of all items.
fn texts_of<'v>(items: &'v [Value], field: &str) -> HashSet<&'v str> {
    items.iter().map(|item| tree::text(item, &[field])).collect()
}

fn propagation(field: &str, mount: &Value, container: &Value) -> Vec<StatusCause> {
    let known = ["Bidirectional", "HostToContainer", "None"];
    let mut causes: Vec<_> = text::optional_choice(field, mount.get("mountPropagation"), &known).into_iter().collect();
    let is_privileged = tree::is_true(container, &["securityContext", "privileged"]);
    if tree::text(mount, &["mountPropagation"]) == "Bidirectional" && !is_privileged {
        let why = "Bidirectional mount propagation is available only to privileged containers";
        causes.push(StatusCause::forbidden(field, why));
    }
    causes
}

fn read_only(field: &str, mount: &Value) -> Vec<StatusCause> {
    let Some(mode) = mount.get("recursiveReadOnly").and_then(Value::as_str) else { return Vec::new() };
    let mut causes = Vec::new();
    match mode {
        "Disabled" => {}
        "Enabled" | "IfPossible" => {
            if !tree::is_true(mount, &["readOnly"]) {
                causes.push(StatusCause::forbidden(field, "may only be specified when readOnly is true"));
            }
            if !matches!(tree::text(mount, &["mountPropagation"]), "" | "None") {
                let why = "may only be specified when mountPropagation is None or not specified";
                causes.push(StatusCause::forbidden(field, why));
            }
        }
        other => causes.extend(super::number::one_of(field, other, &["Disabled", "Enabled", "IfPossible"])),
    }
    causes
}

/// Validates the volume devices of a container.
pub(super) fn devices(field: &str, container: &Value, pod: &PodContext<'_>) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let devices = tree::items(container, &["volumeDevices"]);
    let mounts = tree::items(container, &["volumeMounts"]);
    let mount_names = texts_of(mounts, "name");
    let mount_paths = texts_of(mounts, "mountPath");
    let mut names = HashSet::new();
    let mut paths = HashSet::new();
    for (index, device) in devices.iter().enumerate() {
        let inner = format!("{field}[{index}]");
        let (name, path) = (tree::text(device, &["name"]), tree::text(device, &["devicePath"]));
        let mut complain = |part: &str, shown: &str, why: &str| {
            causes.push(StatusCause::invalid(format!("{inner}.{part}"), quoted(shown), why));
        };
        if !names.insert(name) && !name.is_empty() {
            complain("name", name, "must be unique");
        }
        let volume = pod.volumes.get(name).copied();
        let is_claim = |volume: &Value| volume.get("persistentVolumeClaim").or(volume.get("ephemeral")).is_some();
        if volume.is_some_and(|volume| !is_claim(volume)) {
            let why = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
            complain("name", name, why);
        }
        if name.is_empty() {
            causes.push(StatusCause::required(format!("{inner}.name"), ""));
        }
        if volume.is_none() {
            causes.push(StatusCause::not_found(format!("{inner}.name"), quoted(name)));
        }
        if path.is_empty() {
            causes.push(StatusCause::required(format!("{inner}.devicePath"), ""));
        }
        let mut complain = |part: &str, shown: &str, why: &str| {
            causes.push(StatusCause::invalid(format!("{inner}.{part}"), quoted(shown), why));
        };
        if !paths.insert(path) {
            complain("devicePath", path, "must be unique");
        }
        if text::no_parent_segments("", path).is_some() {
            complain("devicePath", path, "can not contain backsteps ('..')");
        }
        if mount_names.contains(name) {
            complain("name", name, "must not already exist in volumeMounts");
        }
        if mount_paths.contains(path) {
            complain("devicePath", path, "must not already exist as a path in volumeMounts");
        }
    }
    causes
}
