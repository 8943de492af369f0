//! Helpers to read and change JSON trees.

pub(crate) use kubewright_core::tree::{get, int, is_true, items, text};
use kubewright_core::{List, Map, Value};

/// Whether lists and objects are nested more deeply than this.
pub(crate) fn is_deeper(value: &Value, depth: usize) -> bool {
    let Some(below) = depth.checked_sub(1) else { return matches!(value, Value::Array(_) | Value::Object(_)) };
    match value {
        Value::Array(items) => items.iter().any(|item| is_deeper(item, below)),
        Value::Object(fields) => fields.iter().any(|(_, field)| is_deeper(field, below)),
        _ => false,
    }
}

/// Whether a condition in the status is true.
pub(crate) fn has_condition(value: &Value, name: &str) -> bool {
    let is = |condition: &Value| text(condition, &["type"]) == name && text(condition, &["status"]) == "True";
    items(value, &["status", "conditions"]).iter().any(is)
}

/// The items of a list field, mutable.
pub(crate) fn items_mut<'a>(value: &'a mut Value, field: &str) -> &'a mut [Value] {
    match field_mut(value, field) {
        Some(Value::Array(list)) => &mut list[..],
        _ => &mut [],
    }
}

/// The value of a field, mutable.
pub(crate) fn field_mut<'a>(value: &'a mut Value, field: &str) -> Option<&'a mut Value> {
    value.as_object_mut()?.get_mut(field)
}

/// The object at a path, mutable. Missing objects are created, and other values are replaced.
pub(crate) fn object<'a>(value: &'a mut Value, path: &[&str]) -> &'a mut Map<Value> {
    let here = as_map(value);
    match path {
        [] => here,
        [key, rest @ ..] => object(here.get_or_insert_with(*key, || Value::Object(Map::new())), rest),
    }
}

fn as_map(value: &mut Value) -> &mut Map<Value> {
    if value.as_object().is_none() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("made the line before")
}

/// Sets the value at a path. Missing objects are created.
pub(crate) fn set(value: &mut Value, path: &[&str], new: impl Into<Value>) {
    let [way @ .., last] = path else { return };
    object(value, way).insert(*last, new.into());
}

/// Removes the value at a path.
pub(crate) fn remove(value: &mut Value, path: &[&str]) -> Option<Value> {
    match path {
        [] => None,
        [last] => value.as_object_mut()?.remove(last),
        [first, rest @ ..] => remove(field_mut(value, first)?, rest),
    }
}

/// Sets a field that is absent.
pub(crate) fn default(value: &mut Value, field: &str, new: impl Into<Value>) {
    if let Some(object) = value.as_object_mut() {
        object.get_or_insert_with(field, || new.into());
    }
}

/// Sets a field that is absent, `null`, zero or empty, which Go treats as unset.
pub(crate) fn default_zero(value: &mut Value, field: &str, new: impl Into<Value>) {
    let Some(object) = value.as_object_mut() else { return };
    let is_zero = match object.get(field) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Int(number)) => *number == 0,
        Some(Value::Array(list)) => list.is_empty(),
        Some(_) => false,
    };
    if is_zero {
        object.insert(field, new.into());
    }
}

/// An object of these fields.
pub(crate) fn map<const N: usize>(fields: [(&str, Value); N]) -> Value {
    Value::Object(fields.into_iter().collect())
}

/// A list of strings.
pub(crate) fn list<'a>(texts: impl IntoIterator<Item = &'a str>) -> Value {
    Value::Array(texts.into_iter().map(Value::from).collect::<List<Value>>())
}
