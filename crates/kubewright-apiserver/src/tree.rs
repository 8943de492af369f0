//! Builders for JSON trees.

pub(crate) use kubewright_core::tree::{get as at, items as items_at, text as text_at};
use kubewright_core::{Str, Value};

/// An object of these entries.
pub(crate) fn object<const N: usize>(entries: [(&'static str, Value); N]) -> Value {
    Value::Object(entries.into_iter().map(|(key, value)| (Str::from_static(key), value)).collect())
}

/// An array of these items.
pub(crate) fn array(items: impl IntoIterator<Item = Value>) -> Value {
    Value::Array(items.into_iter().collect())
}

/// An array of strings.
pub(crate) fn texts<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> Value {
    array(items.into_iter().map(|item| Value::from(item.as_ref())))
}

/// A static string.
pub(crate) fn word(text: &'static str) -> Value {
    Value::String(Str::from_static(text))
}

/// Sets a key of an object, unless the value is an empty list or string.
pub(crate) fn set_unless_empty(object: &mut Value, key: &'static str, value: Value) {
    let empty = match &value {
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    };
    if !empty {
        set(object, key, value);
    }
}

/// Sets a key of an object. Other values stay unchanged.
pub(crate) fn set(object: &mut Value, key: &'static str, value: Value) {
    if let Some(entries) = object.as_object_mut() {
        entries.insert(Str::from_static(key), value);
    }
}
/// The integer at a path, or 0.
pub(crate) fn number_at(value: &Value, path: &[&str]) -> i64 {
    match at(value, path) {
        Some(Value::Int(number)) => *number,
        Some(Value::Float(number)) => *number as i64,
        _ => 0,
    }
}
