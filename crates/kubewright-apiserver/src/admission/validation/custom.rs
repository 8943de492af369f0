//! Objects of CustomResourceDefinitions: what their schemas ask for, and what a scale needs to find.

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;

use crate::catalog::Custom;
use crate::schema;

/// What is wrong with an object.
pub(super) fn object(custom: &Custom, old: Option<&Value>, value: &Value) -> Vec<StatusCause> {
    let mut causes = custom.schema.complaints(value, old);
    if let Some([spec, status, selector]) = &custom.scale {
        causes.extend(schema::scale_spec(value, spec));
        causes.extend(schema::scale_status(value, status, selector));
    }
    causes
}

/// What is wrong with the status of an object.
pub(super) fn status(custom: &Custom, old: &Value, value: &Value) -> Vec<StatusCause> {
    let mut causes = custom.schema.status_complaints(value, old);
    if let Some([_, status, selector]) = &custom.scale {
        causes.extend(schema::scale_status(value, status, selector));
    }
    causes
}
