//! Shorthand for building JSON trees, the form in which all answers of this crate are made.

use kubewright_core::{List, Str, Value};

/// An object of these entries.
pub(crate) fn object<const N: usize>(entries: [(&'static str, Value); N]) -> Value {
    Value::Object(entries.into_iter().map(|(key, value)| (Str::from_static(key), value)).collect())
}

/// An array of these items.
pub(crate) fn array(items: impl IntoIterator<Item = Value>) -> Value {
    Value::Array(items.into_iter().collect())
}

/// An array of texts.
pub(crate) fn texts<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> Value {
    array(items.into_iter().map(|item| Value::from(item.as_ref())))
}

/// Text that lives for ever.
pub(crate) fn word(text: &'static str) -> Value {
    Value::String(Str::from_static(text))
}

/// Sets a key of an object, unless the value is an empty list or text.
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

/// Sets a key of an object; what is no object stays as it is.
pub(crate) fn set(object: &mut Value, key: &'static str, value: Value) {
    if let Some(entries) = object.as_object_mut() {
        entries.insert(Str::from_static(key), value);
    }
}
/// The value at a path of keys.
pub(crate) fn at<'v>(value: &'v Value, path: &[&str]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, key| value.get(key))
}

/// The text at a path of keys, empty where there is none.
pub(crate) fn text_at<'v>(value: &'v Value, path: &[&str]) -> &'v str {
    at(value, path).and_then(Value::as_str).unwrap_or_default()
}

/// The whole number at a path of keys, 0 where there is none.
pub(crate) fn number_at(value: &Value, path: &[&str]) -> i64 {
    match at(value, path) {
        Some(Value::Int(number)) => *number,
        Some(Value::Float(number)) => *number as i64,
        _ => 0,
    }
}

/// The items of the array at a path of keys, none where there is no array.
pub(crate) fn items_at<'v>(value: &'v Value, path: &[&str]) -> &'v [Value] {
    at(value, path).and_then(Value::as_array).map(|items: &List<Value>| &items[..]).unwrap_or_default()
}

/// About how long a value is as JSON. Escapes in texts are not counted.
pub(crate) fn encoded_len(value: &Value) -> usize {
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
