//! What a type forgets of a body: required objects that it leaves out, and managers that it resets.
//!
//! Go holds some required objects by pointer and writes `null` where there is none; our types hold them by value, so that
//! one left out looks like an empty one. The text still knows the difference.

use kubewright_core::Value;
use kubewright_core::scheme::{Flags, Type, TypeInfo};

use crate::object::{Meta, tree};

/// Sets to `null` what the text does not have, among required objects that are empty in the tree.
pub(super) fn restore(info: &TypeInfo, json: &[u8], value: &mut Value) {
    let mut empty = Vec::new();
    find(info, value, &mut Vec::new(), &mut empty);
    if empty.is_empty() {
        return;
    }
    // Rarely needed, so the text is read a second time only here.
    let Ok(text) = Value::from_json(json) else { return };
    for path in empty {
        if tree::get(&text, &path).is_none_or(Value::is_null) {
            tree::set(value, &path, Value::Null);
        }
    }
}

/// Puts back an empty list of managers, which asks to forget them all; one left out leaves them as they are.
pub(super) fn restore_reset(json: &[u8], value: &mut Value) {
    const NAME: &[u8] = b"\"managedFields\"";
    if value.meta("managedFields").is_some() || !json.windows(NAME.len()).any(|text| text == NAME) {
        return;
    }
    let Ok(text) = Value::from_json(json) else { return };
    if text.meta("managedFields").is_some_and(|list| list.as_array().is_some()) {
        value.set_meta("managedFields", Vec::<Value>::new());
    }
}

/// Collects the paths of required objects held by pointer that are empty. Items of lists are left alone.
fn find(info: &TypeInfo, value: &Value, path: &mut Vec<&'static str>, empty: &mut Vec<Vec<&'static str>>) {
    for field in info.fields {
        let (Type::Message(inner), Some(held)) = (field.ty, value.get(field.name)) else { continue };
        let Some(entries) = held.as_object() else { continue };
        path.push(field.name);
        if field.flags.has(Flags::REQUIRED) && field.flags.has(Flags::POINTER) && entries.is_empty() {
            empty.push(path.clone());
        } else if field.name != "metadata" {
            find(inner, held, path, empty);
        }
        path.pop();
    }
}
