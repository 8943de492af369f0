//! Building and changing trees.

use crate::{List, Map, Str, Value};

/// An object of these fields.
pub fn map<const N: usize>(fields: [(&'static str, Value); N]) -> Value {
    Value::Object(fields.into_iter().map(|(key, value)| (Str::from_static(key), value)).collect())
}

/// An array of these items.
pub fn array(items: impl IntoIterator<Item = Value>) -> Value {
    Value::Array(items.into_iter().collect())
}

/// An array of strings.
pub fn list<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Value {
    Value::Array(texts.into_iter().map(|text| Value::from(text.as_ref())).collect::<List<Value>>())
}

/// The value of a field, mutable.
pub fn field_mut<'a>(value: &'a mut Value, field: &str) -> Option<&'a mut Value> {
    value.as_object_mut()?.get_mut(field)
}

/// The items of a list field, mutable.
pub fn items_mut<'a>(value: &'a mut Value, field: &str) -> &'a mut [Value] {
    match field_mut(value, field) {
        Some(Value::Array(list)) => &mut list[..],
        _ => &mut [],
    }
}

/// The object at a path, mutable. Missing objects are created, and other values are replaced.
pub fn object_mut<'a>(value: &'a mut Value, path: &[&str]) -> &'a mut Map<Value> {
    let object = as_map(value);
    match path {
        [] => object,
        [key, rest @ ..] => object_mut(object.get_or_insert_with(*key, || Value::Object(Map::new())), rest),
    }
}

fn as_map(value: &mut Value) -> &mut Map<Value> {
    if value.as_object().is_none() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("an object, as of the line before")
}

/// Sets the value at a path. Missing objects are created.
pub fn set(value: &mut Value, path: &[&str], new: impl Into<Value>) {
    let [parents @ .., last] = path else { return };
    object_mut(value, parents).insert(*last, new.into());
}

/// Removes the value at a path.
pub fn remove(value: &mut Value, path: &[&str]) -> Option<Value> {
    match path {
        [] => None,
        [last] => value.as_object_mut()?.remove(last),
        [first, rest @ ..] => remove(field_mut(value, first)?, rest),
    }
}

/// Sets a field that is absent.
pub fn default(value: &mut Value, field: &str, new: impl Into<Value>) {
    if let Some(object) = value.as_object_mut() {
        object.get_or_insert_with(field, || new.into());
    }
}

/// Sets a field that is absent, `null`, zero or empty, which Go treats as unset.
pub fn default_zero(value: &mut Value, field: &str, new: impl Into<Value>) {
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
