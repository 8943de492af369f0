//! The fields that a configuration sets.

use super::field_set::{Element, FieldSet};
use super::schema::Schema;
use crate::Value;

/// The fields that an applied configuration sets, which are those that its manager will own.
///
/// Objects and lists that only hold others are not among them, unless they are empty.
#[doc(alias = "ToFieldSet")]
pub fn field_set(value: &Value, schema: Schema<'_>) -> FieldSet {
    let mut set = FieldSet::new();
    collect(value, schema, &mut Vec::new(), &mut set);
    set
}

fn collect(value: &Value, schema: Schema<'_>, path: &mut Vec<Element>, set: &mut FieldSet) {
    if value.is_null() {
        return;
    }
    if schema.is_leaf(value) {
        set.insert(path);
        return;
    }
    match value {
        Value::Object(entries) => {
            for (key, value) in entries.iter() {
                path.push(Element::field(key));
                collect(value, schema.field_or_any(key), path, set);
                let is_empty = value.is_null() || value.as_object().is_some_and(|entries| entries.is_empty());
                if is_empty || !schema.is_named(key) {
                    set.insert(path);
                }
                path.pop();
            }
        }
        Value::Array(items) => {
            for item in items.iter() {
                let Ok(element) = schema.element(item) else { continue };
                path.push(element);
                collect(item, schema.item(), path, set);
                set.insert(path);
                path.pop();
            }
        }
        _ => {}
    }
}
