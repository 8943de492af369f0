//! Validates Namespaces.

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;
use kubewright_core::tree::{self, Meta};

use super::metadata::quoted;
use crate::pod_security;

/// Validates a namespace. Unchanged labels are not validated again.
pub(super) fn namespace(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    match old {
        Some(old) if old.meta("labels") == value.meta("labels") => Vec::new(),
        _ => pod_security::label_complaints(value),
    }
}

/// Validates the phase of a namespace: `Terminating` exactly when it is being deleted.
pub(super) fn status(value: &Value) -> Option<StatusCause> {
    let phase = tree::text(value, &["status", "phase"]);
    let (wanted, why) = if value.is_being_deleted() {
        ("Terminating", "may only be 'Terminating' if `deletionTimestamp` is not empty")
    } else {
        ("Active", "may only be 'Active' if `deletionTimestamp` is empty")
    };
    (phase != wanted).then(|| StatusCause::invalid("status.Phase", quoted(phase), why))
}
