//! Cells of volumes, claims, storage classes and CSI objects.

use kubewright_core::{Value, tree};

use crate::object::{PrintedObject, amount, join, or_none};

/// Name, capacity, access modes, reclaim policy, status, claim, class, attributes class, reason,
/// age; mode.
pub(super) fn persistent_volume(volume: &PrintedObject<'_>) -> Vec<Value> {
    let claim = if volume.has(&["spec", "claimRef"]) {
        let part = |key| volume.text(&["spec", "claimRef", key]);
        format!("{}/{}", part("namespace"), part("name"))
    } else {
        String::new()
    };
    vec![
        volume.name(),
        amount(volume.at(&["spec", "capacity", "storage"])).into(),
        access_modes(volume.items(&["spec", "accessModes"])),
        volume.text(&["spec", "persistentVolumeReclaimPolicy"]).into(),
        phase(volume),
        claim.into(),
        class(volume),
        volume.text_or(&["spec", "volumeAttributesClassName"], "<unset>"),
        volume.text(&["status", "reason"]).into(),
        volume.age(),
        volume.text_or(&["spec", "volumeMode"], "<unset>"),
    ]
}

/// Name, status, volume, capacity, access modes, class, attributes class, age; mode.
pub(super) fn persistent_volume_claim(claim: &PrintedObject<'_>) -> Vec<Value> {
    let volume = claim.text(&["spec", "volumeName"]);
    // Capacity and access modes are known once the claim is bound.
    let (capacity, modes) = match volume {
        "" => (String::new(), Value::from("")),
        _ => {
            let modes = access_modes(claim.items(&["status", "accessModes"]));
            (amount(claim.at(&["status", "capacity", "storage"])), modes)
        }
    };
    vec![
        claim.name(),
        phase(claim),
        volume.into(),
        capacity.into(),
        modes,
        class(claim),
        // An empty name is shown as such.
        match claim.at(&["spec", "volumeAttributesClassName"]).and_then(Value::as_str) {
            Some(class) => class.into(),
            None => Value::from("<unset>"),
        },
        claim.age(),
        claim.text_or(&["spec", "volumeMode"], "<unset>"),
    ]
}

fn phase(object: &PrintedObject<'_>) -> Value {
    if object.is_terminating() { Value::from("Terminating") } else { object.text(&["status", "phase"]).into() }
}

fn access_modes(modes: &[Value]) -> Value {
    let has = |mode: &str| modes.iter().any(|have| have.as_str() == Some(mode));
    let short =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    join(short.into_iter().filter(|(mode, _)| has(mode)).map(|(_, short)| short)).into()
}

fn class(object: &PrintedObject<'_>) -> Value {
    match object.at(&["metadata", "annotations", "volume.beta.kubernetes.io/storage-class"]).and_then(Value::as_str) {
        Some(class) => class.into(),
        None => object.text(&["spec", "storageClassName"]).into(),
    }
}

/// Name, provisioner, reclaim policy, binding mode, whether expansion is allowed, age.
pub(super) fn storage_class(object: &PrintedObject<'_>) -> Vec<Value> {
    let annotations =
        ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
    vec![
        name_of_class(object, &annotations),
        object.text(&["provisioner"]).into(),
        object.text_or(&["reclaimPolicy"], "Delete"),
        object.text_or(&["volumeBindingMode"], "Immediate"),
        object.flag(&["allowVolumeExpansion"], false).into(),
        object.age(),
    ]
}

/// Name, driver, age.
pub(super) fn volume_attributes_class(object: &PrintedObject<'_>) -> Vec<Value> {
    let name = name_of_class(object, &["volumeattributesclass.alpha.kubernetes.io/is-default-class"]);
    vec![name, object.text(&["driverName"]).into(), object.age()]
}

fn name_of_class(object: &PrintedObject<'_>, annotations: &[&str]) -> Value {
    let is_default = |annotation: &&str| object.text(&["metadata", "annotations", annotation]) == "true";
    if annotations.iter().any(is_default) {
        format!("{} (default)", object.text(&["metadata", "name"])).into()
    } else {
        object.name()
    }
}

/// Name, attacher, volume, node, whether it is attached, age.
pub(super) fn volume_attachment(object: &PrintedObject<'_>) -> Vec<Value> {
    vec![
        object.name(),
        object.text(&["spec", "attacher"]).into(),
        object.text(&["spec", "source", "persistentVolumeName"]).into(),
        object.text(&["spec", "nodeName"]).into(),
        object.flag(&["status", "attached"], false).into(),
        object.age(),
    ]
}

/// Name, requirements and capabilities of the driver, modes, age.
pub(super) fn csi_driver(object: &PrintedObject<'_>) -> Vec<Value> {
    let flag = |key, default| Value::from(object.flag(&["spec", key], default));
    let tokens = if object.has(&["spec", "tokenRequests"]) {
        let requests = object.items(&["spec", "tokenRequests"]);
        join(requests.iter().map(|request| tree::text(request, &["audience"]))).into()
    } else {
        Value::from("<unset>")
    };
    let modes = object.items(&["spec", "volumeLifecycleModes"]);
    vec![
        object.name(),
        flag("attachRequired", true),
        flag("podInfoOnMount", false),
        flag("storageCapacity", false),
        tokens,
        flag("requiresRepublish", false),
        or_none(join(modes.iter().filter_map(Value::as_str))),
        object.age(),
    ]
}

/// Name, number of drivers, age.
pub(super) fn csi_node(object: &PrintedObject<'_>) -> Vec<Value> {
    vec![object.name(), object.count(&["spec", "drivers"]).into(), object.age()]
}
