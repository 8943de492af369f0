//! Helpers for causes of invalid objects.

use kubewright_core::Value;

/// The field path of a cause that concerns no particular field, as Go prints a nil path.
pub(crate) const NO_FIELD: &str = "<nil>";

/// Formats a value for a message.
pub(crate) fn display(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{:?}", text.as_str()),
        // Go prints integral floats without decimals.
        Value::Float(number) => number.to_string(),
        other => other.to_string(),
    }
}
