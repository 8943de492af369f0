//! Extracts the set of fields that a configuration sets.

use super::field_set::{Element, FieldSet, FieldSetBuilder};
use super::schema::MergeSchema;
use kubewright_core::Value;

/// The fields that an applied configuration sets, which its manager will own.
///
/// Objects and lists that only contain other fields are not included, unless they are empty.
#[doc(alias = "ToFieldSet")]
pub fn field_set(value: &Value, schema: MergeSchema<'_>) -> FieldSet {
    fields_of(value, schema).1
}

/// Whether a path is a leaf with an owner, and otherwise the fields below it.
fn fields_of(value: &Value, schema: MergeSchema<'_>) -> (bool, FieldSet) {
    let mut below = FieldSetBuilder::default();
    match value {
        Value::Null => {}
        value if schema.is_leaf(value) => return (true, FieldSet::new()),
        Value::Object(entries) => {
            for (key, value) in entries.iter() {
                let (is_owned, fields) = fields_of(value, schema.field_or_any(key));
                let is_empty = value.is_null() || value.as_object().is_some_and(|entries| entries.is_empty());
                below.put(&Element::field(key), is_owned || is_empty || !schema.is_named(key), fields);
            }
        }
        Value::Array(items) => {
            for item in items.iter() {
                if let Ok(element) = schema.element(item) {
                    below.put(&element, true, fields_of(item, schema.item()).1);
                }
            }
        }
        _ => {}
    }
    (false, below.finish())
}
