//! Defaults of volumes, claims, CSIDrivers and LimitRanges.

use kubewright_core::{Map, Value, tree};

use super::amounts;

/// Sets the defaults of a claim spec.
pub(super) fn claim_spec(spec: &mut Value) {
    tree::default(spec, "volumeMode", "Filesystem");
    if let Some(resources) = tree::field_mut(spec, "resources") {
        amounts::requirements(resources);
    }
}

/// Sets the defaults of a PersistentVolumeClaim.
pub(super) fn claim(value: &mut Value) {
    if let Some(spec) = tree::field_mut(value, "spec") {
        claim_spec(spec);
    }
    tree::default(value, "status", tree::map([]));
    if let Some(status) = tree::field_mut(value, "status") {
        amounts::round_up(status, "capacity");
        amounts::round_up(status, "allocatedResources");
        tree::default_zero(status, "phase", "Pending");
    }
}

/// Sets the defaults of a PersistentVolume.
pub(super) fn volume(value: &mut Value) {
    if let Some(spec) = tree::field_mut(value, "spec") {
        tree::default_zero(spec, "persistentVolumeReclaimPolicy", "Retain");
        tree::default(spec, "volumeMode", "Filesystem");
        if let Some(path) = tree::field_mut(spec, "hostPath") {
            tree::default(path, "type", "");
        }
        amounts::round_up(spec, "capacity");
        source(spec);
    }
    tree::default(value, "status", tree::map([]));
    if let Some(status) = tree::field_mut(value, "status") {
        tree::default_zero(status, "phase", "Pending");
    }
}

/// Sets the defaults of a volume source, in a pod or a PersistentVolume.
pub(super) fn source(volume: &mut Value) {
    const TEXTS: [(&str, &[(&str, &str)]); 4] = [
        ("iscsi", &[("iscsiInterface", "default")]),
        ("rbd", &[("pool", "rbd"), ("user", "admin"), ("keyring", "/etc/ceph/keyring")]),
        ("scaleIO", &[("storageMode", "ThinProvisioned"), ("fsType", "xfs")]),
        ("azureDisk", &[("cachingMode", "ReadWrite"), ("kind", "Shared"), ("fsType", "ext4")]),
    ];
    for (kind, texts) in TEXTS {
        let Some(source) = tree::field_mut(volume, kind) else { continue };
        texts.iter().for_each(|(field, text)| tree::default_zero(source, field, *text));
        if kind == "azureDisk" {
            tree::default(source, "readOnly", false);
        }
    }
}

/// Sets the defaults of a LimitRange: the default limit is the maximum, the default request the
/// default limit or the minimum.
pub(super) fn limit_range(value: &mut Value) {
    let Some(spec) = tree::field_mut(value, "spec") else { return };
    for item in tree::items_mut(spec, "limits") {
        for field in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
            amounts::round_up(item, field);
        }
        if tree::text(item, &["type"]) != "Container" {
            continue;
        }
        for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
            let source: Map<Value> = item.get(from).and_then(Value::as_object).cloned().unwrap_or_default();
            for (name, amount) in source.iter() {
                tree::object_mut(item, &[to]).get_or_insert_with(name.clone(), || amount.clone());
            }
        }
    }
}

/// Sets the defaults of a CSIDriver.
pub(super) fn driver(value: &mut Value) {
    let Some(spec) = tree::field_mut(value, "spec") else { return };
    tree::default(spec, "attachRequired", true);
    tree::default(spec, "podInfoOnMount", false);
    tree::default(spec, "storageCapacity", false);
    tree::default(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    tree::default(spec, "requiresRepublish", false);
    tree::default(spec, "seLinuxMount", false);
    tree::default(spec, "volumeLifecycleModes", tree::list(["Persistent"]));
}
