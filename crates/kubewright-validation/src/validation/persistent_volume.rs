//! Validates PersistentVolumes.

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;
use kubewright_core::tree::{self, Meta};
use kubewright_core::validation::dns1123_subdomain;

use super::claim::ACCESS_MODES;
use super::metadata::quoted;
use super::{affinity, capacity, leniency, number, text, volume_source};

/// PersistentVolume sources, in the order of validation.
const SOURCES: [&str; 22] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

/// Validates a PersistentVolume. A spec that was already invalid is accepted.
pub(super) fn volume(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let nothing = Value::default();
    let spec = value.get("spec").unwrap_or(&nothing);
    let causes_of = |spec| spec_causes("spec", spec, value.name(), false);
    let before = || old.map(|old| causes_of(old.get("spec").unwrap_or(&nothing))).unwrap_or_default();
    let mut causes = leniency::new_causes(causes_of(spec), before);
    let Some(old) = old else { return causes };
    let before = old.get("spec").unwrap_or(&nothing);
    if sources(spec, before) != sources(before, before) {
        let why = "spec.persistentvolumesource is immutable after creation";
        causes.push(StatusCause::forbidden("spec.persistentvolumesource", why));
    }
    if spec.get("volumeMode") != before.get("volumeMode") {
        let shown = spec.get("volumeMode").cloned().unwrap_or_default();
        causes.push(StatusCause::invalid("volumeMode", shown, "field is immutable"));
    }
    if before.get("nodeAffinity").is_some_and(|before| spec.get("nodeAffinity") != Some(before)) {
        let shown = spec.get("nodeAffinity").cloned().unwrap_or_default();
        let why = "field is immutable, except for updating from beta label to GA";
        causes.push(StatusCause::invalid("nodeAffinity", shown, why));
    }
    const CLASS: &str = "volumeAttributesClassName";
    if before.get(CLASS).is_some() && spec.get(CLASS).is_none() {
        let why = "update from non-nil value to nil is forbidden";
        causes.push(StatusCause::forbidden(format!("spec.{CLASS}"), why));
    }
    causes
}

/// The volume sources for comparison, without a CSI expand secret that the update may still add.
fn sources(spec: &Value, before: &Value) -> Vec<Value> {
    let found = SOURCES.into_iter().filter_map(|name| spec.get(name));
    let mut found: Vec<Value> = found.cloned().collect();
    if tree::get(before, &["csi"]).is_some() && tree::get(before, &["csi", "controllerExpandSecretRef"]).is_none() {
        found.iter_mut().for_each(|source| drop(tree::remove(source, &["controllerExpandSecretRef"])));
    }
    found
}

/// Validates a PersistentVolume spec. An inline spec (of a VolumeAttachment) must be a CSI volume
/// and has no claim or capacity.
pub(super) fn spec_causes(field: &str, spec: &Value, name: &str, is_inline: bool) -> Vec<StatusCause> {
    const NOT_INLINE: &str = "may not be specified in the context of inline volumes";
    let forbidden = |part: &str, why: &str| StatusCause::forbidden(format!("{field}.{part}"), why);
    let mut causes = Vec::new();
    if is_inline {
        for part in ["claimRef", "capacity"] {
            causes.extend(spec.get(part).map(|_| forbidden(part, NOT_INLINE)));
        }
        if spec.get("csi").is_none() {
            let why = "has to be specified in the context of inline volumes";
            causes.push(StatusCause::required(format!("{field}.csi"), why));
        }
    }
    causes.extend(access_modes(&format!("{field}.accessModes"), spec, ""));
    if !is_inline {
        causes.extend(capacity_causes(&format!("{field}.capacity"), spec));
    }
    const POLICY: &str = "persistentVolumeReclaimPolicy";
    match tree::text(spec, &[POLICY]) {
        "" => {}
        "Retain" if is_inline => {}
        _ if is_inline => causes.push(forbidden(POLICY, "may only be Retain in the context of inline volumes")),
        policy => {
            causes.extend(number::one_of(format!("{field}.{POLICY}"), policy, &["Delete", "Recycle", "Retain"]));
        }
    }
    if let Some(nodes) = spec.get("nodeAffinity") {
        let field = format!("{field}.nodeAffinity");
        match nodes.get("required") {
            _ if is_inline => causes.push(StatusCause::forbidden(field, NOT_INLINE)),
            Some(required) => causes.extend(affinity::node_selector(&format!("{field}.required"), required)),
            None => {
                let why = "must specify required node constraints";
                causes.push(StatusCause::required(format!("{field}.required"), why));
            }
        }
    }
    causes.extend(source(field, spec, name, is_inline));
    let path = tree::text(spec, &["hostPath", "path"]);
    let is_root = spec.get("hostPath").is_some()
        && !path.is_empty()
        && path.split('/').all(|part| part.is_empty() || part == ".");
    if is_root && tree::text(spec, &[POLICY]) == "Recycle" {
        causes.push(forbidden(POLICY, "may not be 'recycle' for a hostPath mount of '/'"));
    }
    let class = tree::text(spec, &["storageClassName"]);
    if is_inline && !class.is_empty() {
        causes.push(forbidden("storageClassName", NOT_INLINE));
    } else {
        causes.extend(text::check_optional(&format!("{field}.storageClassName"), class, dns1123_subdomain));
    }
    match spec.get("volumeMode").and_then(Value::as_str) {
        Some(mode) if is_inline && mode != "Filesystem" => {
            let why = "may not specify volumeMode other than Filesystem in the context of inline volumes";
            causes.push(forbidden("volumeMode", why));
        }
        Some(mode) => causes.extend(number::one_of(format!("{field}.volumeMode"), mode, &["Block", "Filesystem"])),
        None => {}
    }
    if let Some(class) = spec.get("volumeAttributesClassName").and_then(Value::as_str).filter(|_| !is_inline) {
        let class_field = format!("{field}.volumeAttributesClassName");
        if class.is_empty() {
            causes.push(StatusCause::required(class_field, "an empty string is disallowed"));
        } else {
            causes.extend(text::check(&class_field, class, dns1123_subdomain));
        }
        if spec.get("csi").is_none() {
            let why = "has to be specified when using volumeAttributesClassName";
            causes.push(StatusCause::required(format!("{field}.csi"), why));
        }
    }
    causes
}

/// Validates access modes.
pub(super) fn access_modes(field: &str, spec: &Value, why: &str) -> Vec<StatusCause> {
    let modes: Vec<&str> = tree::items(spec, &["accessModes"]).iter().filter_map(Value::as_str).collect();
    let mut causes = Vec::new();
    if modes.is_empty() {
        causes.push(StatusCause::required(field, why));
    }
    causes.extend(modes.iter().filter_map(|mode| number::one_of(field, mode, &ACCESS_MODES)));
    let is_other = |mode: &&str| *mode != "ReadWriteOncePod" && ACCESS_MODES.contains(mode);
    if modes.contains(&"ReadWriteOncePod") && modes.iter().any(is_other) {
        causes.push(StatusCause::forbidden(field, "may not use ReadWriteOncePod with other access modes"));
    }
    causes
}

fn capacity_causes(field: &str, spec: &Value) -> Vec<StatusCause> {
    let amounts = capacity::amounts(spec, &["capacity"]);
    let mut causes = Vec::new();
    if amounts.is_empty() {
        causes.push(StatusCause::required(field, ""));
    }
    if amounts.len() != 1 || amounts[0].0 != "storage" {
        let shown = spec.get("capacity").cloned().unwrap_or_default();
        causes.push(StatusCause::not_supported(field, shown, &["storage"]));
    }
    for (name, amount) in amounts {
        let field = format!("{field}[{name}]");
        if amount.value() < 0 {
            causes.push(StatusCause::invalid(field.as_str(), amount.value(), "must be a valid resource quantity"));
        }
        if amount.signum() <= 0 {
            causes.push(StatusCause::invalid(field, quoted(&amount.to_string()), "must be greater than zero"));
        }
    }
    causes
}

/// Validates that there is exactly one source. Some names in messages differ from the API's.
fn source(field: &str, spec: &Value, name: &str, is_inline: bool) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let mut has_one = false;
    for kind in SOURCES {
        let Some(source) = spec.get(kind) else { continue };
        if has_one && kind != "flexVolume" {
            let shown = if kind == "cephfs" { "cephFS" } else { kind };
            causes.push(StatusCause::forbidden(format!("{field}.{shown}"), "may not specify more than 1 volume type"));
            continue;
        }
        has_one = true;
        let shown = if kind == "gcePersistentDisk" { "persistentDisk" } else { kind };
        causes.extend(volume_source::persistent_volume_source(&format!("{field}.{shown}"), kind, source, name));
        if kind == "local" && (is_inline || spec.get("nodeAffinity").is_none()) {
            let why = "Local volume requires node affinity";
            causes.push(StatusCause::required(format!("{field}.nodeAffinity"), why));
        }
    }
    if !has_one {
        causes.push(StatusCause::required(field, "must specify a volume type"));
    }
    causes
}
