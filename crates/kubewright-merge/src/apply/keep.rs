//! Reduces an object to a set of fields.

use super::field_set::{Element, FieldSet};
use super::schema::MergeSchema;
use kubewright_core::{List, Map, Value};

/// The part of an object that consists of these fields; `None` if none of them has a value.
///
/// List items keep their keys, even if another manager owns them.
#[doc(alias = "ExtractItems")]
pub fn keep_fields(value: &Value, fields: &FieldSet, schema: MergeSchema<'_>) -> Option<Value> {
    match value {
        Value::Object(entries) => {
            let mut kept = Map::new();
            for (key, value) in entries.iter() {
                if let Some(value) = keep_part(value, fields, &Element::field(key), schema.field_or_any(key)) {
                    kept.insert(key.clone(), value);
                }
            }
            (!kept.is_empty()).then_some(Value::Object(kept))
        }
        Value::Array(items) => {
            let mut kept = List::new();
            for item in items.iter() {
                let element = schema.element(item).unwrap_or_else(|_| Element::value(item));
                let Some(mut part) = keep_part(item, fields, &element, schema.item()) else { continue };
                if let Some(part) = part.as_object_mut() {
                    for key in element.keys() {
                        if let Some(value) = item.get(&key) {
                            part.insert(key, value.clone());
                        }
                    }
                }
                kept.push(part);
            }
            (!kept.is_empty()).then_some(Value::Array(kept))
        }
        _ => None,
    }
}

fn keep_part(value: &Value, fields: &FieldSet, element: &Element, schema: MergeSchema<'_>) -> Option<Value> {
    let is_member = fields.has(element);
    // An owned composite value is kept without the parts that others added.
    let whole = || match value {
        Value::Object(_) if !schema.is_leaf(value) => Value::Object(Map::new()),
        Value::Array(_) if !schema.is_leaf(value) => Value::Array(List::new()),
        value => value.clone(),
    };
    match fields.below(element) {
        Some(below) if !schema.is_leaf(value) => keep_fields(value, below, schema).or_else(|| is_member.then(whole)),
        Some(_) => Some(value.clone()),
        None => is_member.then(whole),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubewright_core::message::Message;
    use kubewright_core::meta::v1::PartialObjectMetadata;

    #[test]
    fn extraction_keeps_owned_fields_and_item_keys() {
        let value: Value = r#"{"metadata":{"labels":{"a":"1","b":"2"},"finalizers":["x","y"],
            "ownerReferences":[{"uid":"7","name":"n","kind":"k"}]}}"#
            .parse()
            .unwrap();
        let owned: Value = r#"{"f:metadata":{"f:labels":{"f:a":{}},"f:finalizers":{"v:\"y\"":{}},
            "f:ownerReferences":{"k:{\"uid\":\"7\"}":{}}}}"#
            .parse()
            .unwrap();
        let fields = FieldSet::from_value(&owned).unwrap();
        let schema = MergeSchema::of(PartialObjectMetadata::default().scheme());
        let kept = keep_fields(&value, &fields, schema).unwrap();
        assert_eq!(
            kept.to_string(),
            r#"{"metadata":{"finalizers":["y"],"labels":{"a":"1"},"ownerReferences":[{"kind":"k","name":"n","uid":"7"}]}}"#
        );
        assert_eq!(keep_fields(&value, &FieldSet::new(), schema), None);
    }
}
