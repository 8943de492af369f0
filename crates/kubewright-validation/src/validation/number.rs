//! Validation rules for numbers, enums and immutable fields.

use kubewright_core::meta::v1::StatusCause;
use kubewright_core::{Value, tree};

use super::metadata::quoted;

/// Requires a number of at least 0.
pub(super) fn not_negative(value: &Value, path: &[&str]) -> Option<StatusCause> {
    let number = tree::int(value, path).filter(|number| *number < 0)?;
    Some(StatusCause::invalid(path.join("."), number, "must be greater than or equal to 0"))
}

/// Requires a port number.
pub(super) fn port(field: String, number: i64) -> Option<StatusCause> {
    let is_port = (1..=65_535).contains(&number);
    (!is_port).then(|| StatusCause::invalid(field, number, "must be between 1 and 65535, inclusive"))
}

/// Requires one of `allowed`, given in the order of messages.
pub(super) fn one_of(field: impl Into<String>, text: &str, allowed: &[&str]) -> Option<StatusCause> {
    (!allowed.contains(&text)).then(|| StatusCause::not_supported(field.into(), quoted(text), allowed))
}

/// Requires an unchanged field.
pub(super) fn immutable(value: &Value, old: &Value, path: &[&str]) -> Option<StatusCause> {
    let (new, before) = (tree::get(value, path), tree::get(old, path));
    let shown = new.cloned().unwrap_or_default();
    (new != before).then(|| StatusCause::invalid(path.join("."), shown, "field is immutable"))
}
