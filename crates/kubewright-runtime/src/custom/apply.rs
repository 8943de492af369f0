//! Setters of the builders that `#[derive(Apply)]` generates. Values are serialised by serde.

use kubewright_core::Value;
use kubewright_core::apply_configuration::ApplyPart;
use serde::Serialize;

/// Sets a field.
///
/// # Panics
/// If the value has no JSON representation, such as a map with keys that are not strings.
pub fn set_field<P: ApplyPart>(mut part: P, field: &'static str, value: &impl Serialize) -> P {
    part.fields_mut().set(field, to_value(value));
    part
}

/// Sets the fields of a flattened struct.
///
/// # Panics
/// As [`set_field`].
pub fn set_flattened<P: ApplyPart>(mut part: P, value: &impl Serialize) -> P {
    if let Value::Object(fields) = to_value(value) {
        part.fields_mut().extend(fields);
    }
    part
}

/// The value as a tree, without the `null` that serde writes for an unset `Option`.
fn to_value(value: &impl Serialize) -> Value {
    let mut tree = serde_json::to_value(value).expect("values of the API have JSON forms");
    remove_nulls(&mut tree);
    tree.into()
}

fn remove_nulls(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(remove_nulls);
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(remove_nulls),
        _ => {}
    }
}
