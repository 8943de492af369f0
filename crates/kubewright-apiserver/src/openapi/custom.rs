//! The schemas of custom resources, as they are published.

use kubewright_core::{GroupVersionKind, Map, Str, Value};

use super::names::{META, extension, reference};
use crate::tree::{array, object, set, texts, word};

/// Fields by which objects can be selected.
pub(super) const SELECTABLE: &str = "x-kubernetes-selectable-fields";

/// The schema of an object: what its definition says, and what all objects have.
pub(super) fn of_object(schema: Option<&Value>, kind: &GroupVersionKind) -> Value {
    let mut published = match schema {
        Some(schema @ Value::Object(_)) => schema.clone(),
        // Whatever is allowed is not described.
        _ => object([("x-kubernetes-preserve-unknown-fields", true.into())]),
    };
    set(&mut published, "type", word("object"));
    let mut properties = published.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    properties.iter_mut().for_each(|(_, schema)| embed(schema));
    add_metadata(&mut properties, "ObjectMeta");
    set(&mut published, "properties", properties.into());
    set(&mut published, "x-kubernetes-group-version-kind", array([extension(kind)]));
    published
}

/// Adds what all objects have to those that are embedded in a schema.
fn embed(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    if let Some(properties) = fields.get_mut("properties").and_then(Value::as_object_mut) {
        properties.iter_mut().for_each(|(_, schema)| embed(schema));
    }
    for part in ["items", "additionalProperties"] {
        fields.get_mut(part).map(embed);
    }
    if fields.get("x-kubernetes-embedded-resource").and_then(Value::as_bool) != Some(true) {
        return;
    }
    let mut properties = fields.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    add_metadata(&mut properties, "ObjectMeta");
    fields.insert("properties", properties.into());
    let required = fields.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut required: Vec<Value> = required.into_iter().collect();
    for name in ["kind", "apiVersion"] {
        if !required.iter().any(|known| known.as_str() == Some(name)) {
            required.push(word(name));
        }
    }
    fields.insert("required", required.into());
}

/// The schema of a list of them, which can be selected by the fields that the schema of an object names.
pub(super) fn of_list(item: &str, list: &GroupVersionKind, schema: Option<&Value>) -> Value {
    let mut properties = Map::new();
    add_metadata(&mut properties, "ListMeta");
    let description = format!("List of {item}.");
    properties.insert(
        "items",
        object([("description", description.into()), ("type", word("array")), ("items", reference(item))]),
    );
    let mut published = object([
        ("type", word("object")),
        ("required", texts(["items"])),
        ("properties", properties.into()),
        ("x-kubernetes-group-version-kind", array([extension(list)])),
    ]);
    if let Some(fields) = schema.and_then(|schema| schema.get(SELECTABLE)) {
        set(&mut published, SELECTABLE, fields.clone());
    }
    published
}

fn add_metadata(properties: &mut Map<Value>, ty: &str) {
    let described = |description: &'static str| object([("description", word(description)), ("type", word("string"))]);
    properties.insert("apiVersion", described("The version of the schema of this object."));
    properties.insert("kind", described("The kind of this object."));
    let metadata = object([
        ("description", word("The metadata that all objects have.")),
        ("allOf", array([reference(&format!("{META}.{ty}"))])),
    ]);
    properties.insert(Str::from_static("metadata"), metadata);
}
