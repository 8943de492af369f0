//! Helpers to read, build and change JSON trees by paths of keys.
//!
//! A reader takes an absent value, and one of another type, for the empty one. [`Meta`] reads and
//! changes the metadata of an object.
//!
//! ```
//! use kubewright_core::json;
//! use kubewright_core::tree::{self, Meta};
//!
//! let mut pod = json!({"spec": {"nodeName": "n1", "containers": [{"name": "web"}]}});
//! assert_eq!(tree::text(&pod, &["spec", "nodeName"]), "n1");
//! assert_eq!(tree::items(&pod, &["spec", "containers"]).len(), 1);
//! assert_eq!(tree::text(&pod, &["status", "phase"]), "");
//! tree::set(&mut pod, &["metadata", "name"], "web-0");
//! assert_eq!(pod.name(), "web-0");
//! ```

mod edit;
mod meta;

use crate::json::Writer;
use crate::{Map, Str, Value};

pub use edit::{array, default, default_zero, field_mut, items_mut, list, map, object_mut, remove, set};
pub use meta::Meta;

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

/// The strings of a list. Other items are skipped.
pub fn texts(list: Option<&Value>) -> Vec<Str> {
    let items = list.and_then(Value::as_array).map_or(&[][..], |list| &list[..]);
    items.iter().filter_map(Value::as_str).map(Str::from).collect()
}

/// The string values of an object. Other values are skipped.
pub fn text_map(map: Option<&Value>) -> Map<Str> {
    let Some(map) = map.and_then(Value::as_object) else { return Map::new() };
    map.iter().filter_map(|(key, value)| Some((key.clone(), Str::from(value.as_str()?)))).collect()
}

/// Whether the status has a condition of this type that is true.
pub fn has_condition(value: &Value, kind: &str) -> bool {
    let is_true = |condition: &Value| text(condition, &["type"]) == kind && text(condition, &["status"]) == "True";
    items(value, &["status", "conditions"]).iter().any(is_true)
}

/// Whether lists and objects are nested more deeply than `depth`.
pub fn is_deeper(value: &Value, depth: usize) -> bool {
    let Some(below) = depth.checked_sub(1) else { return matches!(value, Value::Array(_) | Value::Object(_)) };
    match value {
        Value::Array(items) => items.iter().any(|item| is_deeper(item, below)),
        Value::Object(fields) => fields.iter().any(|(_, field)| is_deeper(field, below)),
        _ => false,
    }
}

/// The JSON text of a tree.
pub fn to_json(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    value.encode_json(&mut Writer::new(&mut out));
    out
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
