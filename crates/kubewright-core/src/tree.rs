//! Reading JSON trees by paths of keys.
//!
//! Each function takes an absent value and one of another type for the empty one, as code that
//! reads optional fields of objects usually does.
//!
//! ```
//! use kubewright_core::{json, tree};
//!
//! let pod = json!({"spec": {"nodeName": "n1", "containers": [{"name": "web"}]}});
//! assert_eq!(tree::text(&pod, &["spec", "nodeName"]), "n1");
//! assert_eq!(tree::items(&pod, &["spec", "containers"]).len(), 1);
//! assert_eq!(tree::text(&pod, &["status", "phase"]), "");
//! ```

use crate::Value;

/// The value at a path of keys.
pub fn get<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, key| value.get(key))
}

/// The string at a path, empty if there is none.
pub fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    get(value, path).and_then(Value::as_str).unwrap_or_default()
}

/// The integer at a path.
pub fn int(value: &Value, path: &[&str]) -> Option<i64> {
    get(value, path).and_then(Value::as_i64)
}

/// Whether the value at a path is `true`.
pub fn is_true(value: &Value, path: &[&str]) -> bool {
    get(value, path).and_then(Value::as_bool).unwrap_or_default()
}

/// The items of the list at a path, empty if there is no list.
pub fn items<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    get(value, path).and_then(Value::as_array).map_or(&[], |list| &list[..])
}

/// The approximate length of a value as JSON. Escapes in strings are not counted.
pub fn encoded_len(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 4,
        Value::Int(_) | Value::Float(_) => value.to_string().len(),
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(|item| encoded_len(item) + 1).sum::<usize>(),
        Value::Object(entries) => {
            2 + entries.iter().map(|(key, value)| key.len() + encoded_len(value) + 4).sum::<usize>()
        }
    }
}
