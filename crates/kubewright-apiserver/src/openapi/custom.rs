//! The schemas of custom resources, as they are published.

use kubewright_core::{GroupVersionKind, Map, Str, Value};

use super::names::{META, extension, reference};
use crate::tree::{array, object, set, texts, word};

/// The schema of an object: what its definition says, and what all objects have.
pub(super) fn of_object(schema: Option<&Value>, kind: &GroupVersionKind) -> Value {
    let mut published = match schema {
        Some(schema @ Value::Object(_)) => schema.clone(),
        // Whatever is allowed is not described.
        _ => object([("x-kubernetes-preserve-unknown-fields", true.into())]),
    };
    set(&mut published, "type", word("object"));
    let mut properties = published.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    add_metadata(&mut properties, "ObjectMeta");
    set(&mut published, "properties", properties.into());
    set(&mut published, "x-kubernetes-group-version-kind", array([extension(kind)]));
    published
}

/// The schema of a list of them.
pub(super) fn of_list(item: &str, list: &GroupVersionKind) -> Value {
    let mut properties = Map::new();
    add_metadata(&mut properties, "ListMeta");
    let description = format!("List of {item}.");
    properties.insert(
        "items",
        object([("description", description.into()), ("type", word("array")), ("items", reference(item))]),
    );
    object([
        ("type", word("object")),
        ("required", texts(["items"])),
        ("properties", properties.into()),
        ("x-kubernetes-group-version-kind", array([extension(list)])),
    ])
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
