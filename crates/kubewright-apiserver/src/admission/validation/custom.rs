//! Objects of CustomResourceDefinitions: what their schemas ask for, and what a scale needs to find.

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;

use crate::catalog::Custom;
use crate::schema;

/// What is wrong with an object, after what is wrong with its metadata. What may stay because it was there is in `warnings`.
pub(super) fn object(
    custom: &Custom,
    mut causes: Vec<StatusCause>,
    value: &Value,
    old: Option<&Value>,
    warnings: &mut Vec<String>,
) -> Vec<StatusCause> {
    causes.extend(custom.schema.complaints(value, old));
    if let Some([spec, status, selector]) = &custom.scale {
        causes.extend(schema::scale_spec(value, spec));
        causes.extend(schema::scale_status(value, status, selector));
    }
    custom.schema.further_complaints(causes, value, old, warnings)
}

/// What is wrong with the status of an object, after what is wrong with its metadata.
pub(super) fn status(
    custom: &Custom,
    mut causes: Vec<StatusCause>,
    value: &Value,
    old: &Value,
    warnings: &mut Vec<String>,
) -> Vec<StatusCause> {
    causes.extend(custom.schema.status_complaints(value, old));
    if let Some([_, status, selector]) = &custom.scale {
        causes.extend(schema::scale_status(value, status, selector));
    }
    custom.schema.further_complaints(causes, value, Some(old), warnings)
}
