//! Restores what decoding into a typed object loses: missing required objects, and an explicit
//! reset of managers.
//!
//! Go holds some required objects by pointer and encodes a missing one as `null`. Our types hold
//! them by value, so a missing object looks like an empty one. The original text still has the
//! difference.

use kubewright_core::Value;
use kubewright_core::scheme::{Flags, Type, TypeInfo};

use kubewright_core::tree::{self, Meta};

/// Sets required objects to `null` that are empty in the tree and missing in the text.
pub(super) fn restore(info: &TypeInfo, json: &[u8], value: &mut Value) {
    let mut empty = Vec::new();
    find(info, value, &mut Vec::new(), &mut empty);
    if empty.is_empty() {
        return;
    }
    // This case is rare, so the text is parsed a second time only here.
    let Ok(text) = Value::from_json(json) else { return };
    for path in empty {
        if tree::get(&text, &path).is_none_or(Value::is_null) {
            tree::set(value, &path, Value::Null);
        }
    }
}

/// Restores an empty `managedFields` list, which resets all managers. A missing list keeps them.
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

/// Collects the paths of empty required objects that Go holds by pointer. List items are skipped.
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
