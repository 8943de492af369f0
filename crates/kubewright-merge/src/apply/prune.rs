//! Removes fields from an object.

use super::field_set::{Element, FieldSet};
use super::schema::MergeSchema;
use kubewright_core::{List, Map, Value};

/// The object without these fields. A value that loses all its parts becomes `null`.
#[doc(alias = "RemoveItems")]
pub fn remove_fields(value: &Value, fields: &FieldSet, schema: MergeSchema<'_>) -> Value {
    if schema.is_leaf(value) {
        // Parts of a leaf cannot be removed alone.
        return match value {
            Value::Object(_) | Value::Array(_) => Value::Null,
            scalar => scalar.clone(),
        };
    }
    let rest = |element: &Element, value: &Value, schema: MergeSchema<'_>| match fields.below(element) {
        Some(below) => remove_fields(value, below, schema),
        None => value.clone(),
    };
    match value {
        Value::Object(entries) => {
            let mut left = Map::new();
            for (key, value) in entries.iter() {
                let element = Element::field(key);
                if !fields.has(&element) {
                    left.insert(key.clone(), rest(&element, value, schema.field_or_any(key)));
                }
            }
            if left.is_empty() { Value::Null } else { Value::Object(left) }
        }
        Value::Array(items) => {
            let mut left = List::new();
            for item in items.iter() {
                let element = schema.element(item).unwrap_or_else(|_| Element::value(item));
                if !fields.has(&element) {
                    left.push(rest(&element, item, schema.item()));
                }
            }
            if left.is_empty() { Value::Null } else { Value::Array(left) }
        }
        scalar => scalar.clone(),
    }
}
