//! Cells of ResourceClaims and ResourceSlices.

use kubewright_core::Value;

use crate::object::{PrintedObject, join};

/// Name, state, age.
pub(super) fn resource_claim(object: &PrintedObject<'_>) -> Vec<Value> {
    let mut states = Vec::new();
    let deleted = object.is_terminating();
    if deleted {
        states.push("deleted");
    }
    if object.has(&["status", "allocation"]) {
        states.push("allocated");
        if object.count(&["status", "reservedFor"]) > 0 {
            states.push("reserved");
        }
    } else if !deleted {
        states.push("pending");
    }
    vec![object.name(), join(states).into(), object.age()]
}

/// Name, node, driver, pool, age.
pub(super) fn resource_slice(object: &PrintedObject<'_>) -> Vec<Value> {
    vec![
        object.name(),
        object.text(&["spec", "nodeName"]).into(),
        object.text(&["spec", "driver"]).into(),
        object.text(&["spec", "pool", "name"]).into(),
        object.age(),
    ]
}
