//! Namespaces.

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;

use super::super::security;
use super::metadata::quoted;
use crate::object::{Meta, tree};

/// What is wrong with a namespace. Labels that were there before are not looked at again.
pub(super) fn namespace(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    match old {
        Some(old) if old.meta("labels") == value.meta("labels") => Vec::new(),
        _ => security::label_complaints(value),
    }
}

/// What is wrong with the status of a namespace, whose phase says whether it is being deleted.
pub(super) fn status(value: &Value) -> Option<StatusCause> {
    let phase = tree::text(value, &["status", "phase"]);
    let (wanted, why) = match value.is_being_deleted() {
        false => ("Active", "may only be 'Active' if `deletionTimestamp` is empty"),
        true => ("Terminating", "may only be 'Terminating' if `deletionTimestamp` is not empty"),
    };
    (phase != wanted).then(|| StatusCause::invalid("status.Phase", quoted(phase), why))
}
