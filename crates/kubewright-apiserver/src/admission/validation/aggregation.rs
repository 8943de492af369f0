//! Services that serve a part of the API themselves.

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;

use super::number;
use crate::object::tree;

/// What is wrong with the status of such a service.
pub(super) fn status(value: &Value) -> Vec<StatusCause> {
    let conditions = tree::items(value, &["status", "conditions"]).iter().enumerate();
    let checked = conditions.filter_map(|(index, condition)| {
        let field = format!("status.conditions[{index}].status");
        number::one_of(field, tree::text(condition, &["status"]), &["True", "False", "Unknown"])
    });
    checked.collect()
}
