//! Validates StorageClasses, VolumeAttributesClasses and the kinds of CSI drivers.

use std::collections::HashSet;

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;
use kubewright_core::tree::{self, text_map};
use kubewright_core::validation::{dns1123_subdomain, qualified_name};

use super::metadata::quoted;
use super::{affinity, number, persistent_volume, projected, selector, text, volume_source};

/// Maximum total size of class parameters, in bytes.
const PARAMETERS_SIZE_MAX: usize = 256 << 10;
const PARAMETERS_MAX: usize = 512;
/// Maximum length of an attachment error message, in bytes.
const MESSAGE_MAX: usize = 1024;
/// Maximum length of a driver's node ID, in bytes.
const NODE_ID_MAX: usize = 256;

/// Validates a StorageClass. Most of its fields are immutable.
pub(super) fn class(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    if let Some(old) = old {
        let changed = ["parameters", "provisioner", "reclaimPolicy"].into_iter();
        let changed = changed.filter(|field| value.get(field) != old.get(field));
        let mut causes: Vec<_> = changed.map(forbidden_change).collect();
        causes.extend(number::immutable(value, old, &["volumeBindingMode"]));
        return causes;
    }
    let mut causes = provisioner("provisioner", tree::text(value, &["provisioner"]));
    causes.extend(parameters(value, true));
    let policy = tree::text(value, &["reclaimPolicy"]);
    if !policy.is_empty() {
        causes.extend(number::one_of("reclaimPolicy", policy, &["Delete", "Retain"]));
    }
    let modes = ["Immediate", "WaitForFirstConsumer"];
    causes.extend(number::one_of("volumeBindingMode", tree::text(value, &["volumeBindingMode"]), &modes));
    causes.extend(affinity::topologies("allowedTopologies", tree::items(value, &["allowedTopologies"])));
    causes
}

fn forbidden_change(field: &str) -> StatusCause {
    StatusCause::forbidden(field, &format!("updates to {field} are forbidden."))
}

fn provisioner(field: &str, name: &str) -> Vec<StatusCause> {
    text::required(field, &name.to_lowercase(), qualified_name)
}

fn parameters(value: &Value, may_be_empty: bool) -> Vec<StatusCause> {
    let parameters = text_map(value.get("parameters"));
    if parameters.len() > PARAMETERS_MAX {
        return vec![StatusCause::too_long("parameters", PARAMETERS_MAX)];
    }
    let mut causes = Vec::new();
    if parameters.contains_key("") {
        causes.push(StatusCause::invalid("parameters", quoted(""), "field can not be empty."));
    }
    if parameters.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>() > PARAMETERS_SIZE_MAX {
        causes.push(StatusCause::too_long("parameters", PARAMETERS_SIZE_MAX));
    }
    if !may_be_empty && parameters.is_empty() {
        causes.push(StatusCause::required("parameters", "must contain at least one key/value pair"));
    }
    causes
}

/// Validates a VolumeAttributesClass. Its driver and parameters are immutable.
pub(super) fn attributes_class(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let changed = old
        .into_iter()
        .flat_map(|old| ["driverName", "parameters"].into_iter().filter(|field| value.get(field) != old.get(field)));
    let mut causes: Vec<_> = changed.map(forbidden_change).collect();
    causes.extend(provisioner("driverName", tree::text(value, &["driverName"])));
    causes.extend(parameters(value, false));
    causes
}

/// Validates a CSIDriver.
pub(super) fn driver(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    // The real server misspells the first of these in its messages.
    for (part, shown) in [
        ("attachRequired", "attachedRequired"),
        ("podInfoOnMount", "podInfoOnMount"),
        ("storageCapacity", "storageCapacity"),
    ] {
        if tree::get(value, &["spec", part]).is_none() {
            causes.push(StatusCause::required(format!("spec.{shown}"), ""));
        }
    }
    let policies = ["File", "None", "ReadWriteOnceWithFSType"];
    let policy = tree::get(value, &["spec", "fsGroupPolicy"]);
    causes.extend(text::optional_choice("spec.fsGroupPolicy", policy, &policies));
    let requests = tree::items(value, &["spec", "tokenRequests"]);
    let mut audiences = HashSet::new();
    for (index, request) in requests.iter().enumerate() {
        let (field, audience) = (format!("spec.tokenRequests[{index}]"), tree::text(request, &["audience"]));
        if !audiences.insert(audience) {
            causes.push(StatusCause::duplicate(format!("{field}.audience"), quoted(audience)));
        } else if let Some(seconds) = tree::int(request, &["expirationSeconds"]) {
            causes.extend(projected::token_life(&format!("{field}.expirationSeconds"), seconds));
        }
    }
    for mode in tree::items(value, &["spec", "volumeLifecycleModes"]).iter().filter_map(Value::as_str) {
        causes.extend(number::one_of("spec.volumeLifecycleModes", mode, &["Persistent", "Ephemeral"]));
    }
    if tree::get(value, &["spec", "seLinuxMount"]).is_none() {
        causes.push(StatusCause::required("spec.seLinuxMount", ""));
    }
    const PERIOD: [&str; 2] = ["spec", "nodeAllocatableUpdatePeriodSeconds"];
    if let Some(seconds) = tree::int(value, &PERIOD).filter(|seconds| *seconds < 10) {
        let why = "must be greater than or equal to 10 seconds";
        causes.push(StatusCause::invalid(PERIOD.join("."), seconds, why));
    }
    if let Some(old) = old {
        if let Some(mut cause) = number::immutable(value, old, &["spec", "attachRequired"]) {
            cause.field = Some("spec.attachedRequired".into());
            causes.push(cause);
        }
        causes.extend(number::immutable(value, old, &["spec", "volumeLifecycleModes"]));
    }
    causes
}

/// Validates a CSINode. Each listed driver is immutable.
pub(super) fn node(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let drivers = tree::items(value, &["spec", "drivers"]);
    let mut causes = Vec::new();
    let mut names = HashSet::new();
    for (index, driver) in drivers.iter().enumerate() {
        let (field, name) = (format!("spec.drivers[{index}]"), tree::text(driver, &["name"]));
        causes.extend(volume_source::driver(&format!("{field}.name"), name));
        let id = tree::text(driver, &["nodeID"]);
        if id.is_empty() {
            causes.push(StatusCause::required(format!("{field}.nodeID"), ""));
        }
        if id.len() > NODE_ID_MAX {
            let why = format!("must be {NODE_ID_MAX} characters or less");
            causes.push(StatusCause::invalid(format!("{field}.nodeID"), quoted(id), &why));
        }
        if let Some(count) = tree::int(driver, &["allocatable", "count"]).filter(|count| *count < 0) {
            let why = "must be greater than or equal to 0";
            causes.push(StatusCause::invalid(format!("{field}.allocatable.count"), count, why));
        }
        if !names.insert(name) {
            causes.push(StatusCause::duplicate(format!("{field}.name"), quoted(name)));
        }
        let keys = tree::items(driver, &["topologyKeys"]);
        for (index, key) in keys.iter().enumerate() {
            let text = key.as_str().unwrap_or_default();
            if text.is_empty() {
                causes.push(StatusCause::required(field.as_str(), ""));
            }
            if keys[..index].contains(key) {
                causes.push(StatusCause::duplicate(field.as_str(), quoted(text)));
            }
            causes.extend(text::check(&field, text, qualified_name));
        }
    }
    let fixed = |driver: &Value| {
        let mut driver = driver.clone();
        tree::remove(&mut driver, &["allocatable"]);
        driver
    };
    for before in old.map_or(&[][..], |old| tree::items(old, &["spec", "drivers"])) {
        let same = drivers.iter().filter(|driver| driver.get("name") == before.get("name"));
        let changed = same.filter(|driver| fixed(driver) != fixed(before));
        causes.extend(changed.map(|driver| {
            const FIELDS: [(&str, &str, &str); 4] = [
                ("Name", "name", "\"\""),
                ("NodeID", "nodeID", "\"\""),
                ("TopologyKeys", "topologyKeys", "null"),
                ("Allocatable", "allocatable", "null"),
            ];
            StatusCause::invalid("spec.drivers", text::internal(&fixed(driver), &FIELDS), "field is immutable")
        }));
    }
    causes
}

/// Validates a CSIStorageCapacity.
pub(super) fn capacity(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    if let Some(old) = old {
        let fields = ["nodeTopology", "storageClassName"].into_iter();
        return fields.filter_map(|field| number::immutable(value, old, &[field])).collect();
    }
    let chosen = value.get("nodeTopology").into_iter();
    let mut causes: Vec<_> = chosen.flat_map(|chosen| selector::selector("nodeTopology", chosen)).collect();
    causes.extend(text::check("storageClassName", tree::text(value, &["storageClassName"]), dns1123_subdomain));
    let amount = value.get("capacity").and_then(Value::as_str).and_then(|text| text.parse().ok());
    if let Some(amount) = amount.filter(|amount: &kubewright_core::Quantity| amount.signum() < 0) {
        let why = "must be greater than or equal to 0";
        causes.push(StatusCause::invalid("capacity", quoted(&amount.to_string()), why));
    }
    causes
}

/// Validates a VolumeAttachment.
pub(super) fn attachment(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    const BOTH: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    let (name, inline) = (
        tree::get(value, &["spec", "source", "persistentVolumeName"]).and_then(Value::as_str),
        tree::get(value, &["spec", "source", "inlineVolumeSpec"]),
    );
    let attacher = tree::text(value, &["spec", "attacher"]);
    let mut causes = Vec::new();
    if attacher.is_empty() {
        causes.push(StatusCause::required("spec.attacher", ""));
    }
    match (name, inline) {
        (None, None) => causes.push(StatusCause::required("spec.source", BOTH)),
        (Some(_), Some(_)) => causes.push(StatusCause::forbidden("spec.source", BOTH)),
        (Some(""), None) => {
            let why = "must specify non empty persistentVolumeName";
            causes.push(StatusCause::required("spec.source.persistentVolumeName", why));
        }
        (Some(_), None) => {}
        (None, Some(spec)) => {
            causes.extend(persistent_volume::spec_causes("spec.source.inlineVolumeSpec", spec, "", true));
        }
    }
    causes.extend(text::check("spec.nodeName", tree::text(value, &["spec", "nodeName"]), dns1123_subdomain));
    causes.extend(attachment_status(value));
    match old {
        Some(old) => causes.extend(number::immutable(value, old, &["spec"])),
        None => {
            causes.extend(volume_source::driver("spec.attacher", attacher));
            let name = name.into_iter();
            causes
                .extend(name.flat_map(|name| text::check("spec.source.persistentVolumeName", name, dns1123_subdomain)));
        }
    }
    causes
}

/// Validates the status of a VolumeAttachment.
pub(super) fn attachment_status(value: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let metadata = text_map(tree::get(value, &["status", "attachmentMetadata"]));
    if metadata.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>() > PARAMETERS_SIZE_MAX {
        causes.push(StatusCause::too_long("status.attachmentMetadata", PARAMETERS_SIZE_MAX));
    }
    for part in ["attachError", "detachError"] {
        let Some(error) = tree::get(value, &["status", part]) else { continue };
        // The real server reports the limit of the parameters here.
        if tree::text(error, &["message"]).len() > MESSAGE_MAX {
            causes.push(StatusCause::too_long(format!("status.{part}.message"), PARAMETERS_SIZE_MAX));
        }
        if let Some(code) = tree::int(error, &["errorCode"]).filter(|code| *code < 0) {
            let why = "must be between 0 and 2147483647, inclusive";
            causes.push(StatusCause::invalid(format!("status.{part}.errorCode"), code, why));
        }
    }
    causes
}
