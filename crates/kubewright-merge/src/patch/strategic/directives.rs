//! The directives of a strategic merge patch.

use kubewright_core::{Map, Value};

use crate::patch::error::PatchError;

pub(super) const DIRECTIVE: &str = "$patch";
pub(super) const RETAIN_KEYS: &str = "$retainKeys";
pub(super) const SET_ORDER: &str = "$setElementOrder/";
pub(super) const DELETE_FROM: &str = "$deleteFromPrimitiveList/";

/// The value without objects that carry a `$patch` directive: there is nothing to patch.
#[inline]
pub(super) fn without_directives(value: &Value) -> Option<Value> {
    match value {
        Value::Object(entries) if entries.contains_key(DIRECTIVE) => None,
        Value::Object(entries) => Some(Value::Object(
            entries.iter().filter_map(|(key, value)| Some((key.clone(), without_directives(value)?))).collect(),
        )),
        Value::Array(items) => Some(Value::Array(items.iter().filter_map(without_directives).collect())),
        scalar => Some(scalar.clone()),
    }
}

#[inline]
pub(super) fn unknown_directive(directive: &Value, patch: &Map<Value>) -> PatchError {
    PatchError::unmergeable(format_args!("unknown patch type: {directive} in map: {patch:?}"))
}
