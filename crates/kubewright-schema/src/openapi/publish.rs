//! Published schemas of custom resources and of their lists.

use kubewright_core::{GroupVersionKind, Map, Value, json};

use super::names::{META_PACKAGE, kind_extension, reference};

/// The extension that lists the fields which field selectors support.
pub const SELECTABLE_FIELDS: &str = "x-kubernetes-selectable-fields";

const KINDS: &str = "x-kubernetes-group-version-kind";

/// The published schema of a custom resource.
///
/// It is the schema of the definition, with the fields that every object has. Without a schema,
/// the published one preserves unknown fields.
pub fn object_schema(schema: Option<&Value>, kind: &GroupVersionKind) -> Value {
    let mut published = match schema {
        Some(Value::Object(fields)) => fields.clone(),
        _ => [("x-kubernetes-preserve-unknown-fields", Value::from(true))].into(),
    };
    published.insert("type", "object".into());
    let mut properties = published.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    properties.iter_mut().for_each(|(_, schema)| complete_embedded_resources(schema));
    add_object_fields(&mut properties, "ObjectMeta");
    published.insert("properties", properties.into());
    published.insert(KINDS, vec![kind_extension(kind)].into());
    published.into()
}

/// Adds the fields of all objects to the schemas of embedded resources.
fn complete_embedded_resources(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    if let Some(properties) = fields.get_mut("properties").and_then(Value::as_object_mut) {
        properties.iter_mut().for_each(|(_, schema)| complete_embedded_resources(schema));
    }
    for part in ["items", "additionalProperties"] {
        fields.get_mut(part).map(complete_embedded_resources);
    }
    if fields.get("x-kubernetes-embedded-resource").and_then(Value::as_bool) != Some(true) {
        return;
    }
    let mut properties = fields.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    add_object_fields(&mut properties, "ObjectMeta");
    fields.insert("properties", properties.into());
    let required = fields.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut required: Vec<Value> = required.into_iter().collect();
    for name in ["kind", "apiVersion"] {
        if !required.iter().any(|known| known.as_str() == Some(name)) {
            required.push(name.into());
        }
    }
    fields.insert("required", required.into());
}

/// The published schema of a list of custom resources, whose schema has the name `item`.
///
/// `schema` is that of the definition. Its [`SELECTABLE_FIELDS`] are those of the list.
pub fn list_schema(item: &str, list: &GroupVersionKind, schema: Option<&Value>) -> Value {
    let mut properties = Map::new();
    add_object_fields(&mut properties, "ListMeta");
    let description = format!("List of {item}.");
    properties.insert("items", json!({"description": description, "type": "array", "items": reference(item)}));
    let mut published: Map<Value> = [
        ("type", Value::from("object")),
        ("required", json!(["items"])),
        ("properties", properties.into()),
        (KINDS, vec![kind_extension(list)].into()),
    ]
    .into();
    if let Some(fields) = schema.and_then(|schema| schema.get(SELECTABLE_FIELDS)) {
        published.insert(SELECTABLE_FIELDS, fields.clone());
    }
    published.into()
}

fn add_object_fields(properties: &mut Map<Value>, metadata_type: &str) {
    let string = |description: &str| json!({"description": description, "type": "string"});
    properties.insert(
        "apiVersion",
        string("APIVersion defines the group and version of the object's schema, such as apps/v1."),
    );
    properties.insert("kind", string("Kind is the name of the object's type, such as Deployment."));
    let metadata = json!({
        "description": "Standard object's metadata: what all objects have in common.",
        "allOf": [reference(&format!("{META_PACKAGE}.{metadata_type}"))],
    });
    properties.insert("metadata", metadata);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_resources_and_selectable_fields_are_published() {
        let schema = json!({
            "type": "object",
            "properties": {"list": {"type": "array", "items": {
                "type": "object",
                "x-kubernetes-embedded-resource": true,
                "required": ["kind"],
                "properties": {"a": {"type": "string"}},
            }}},
            "x-kubernetes-selectable-fields": [{"fieldPath": "spec.a"}],
        });
        let kind = |kind: &str| GroupVersionKind::new("example.com", "v1", kind);
        let object = object_schema(Some(&schema), &kind("Foo"));
        let list = list_schema("com.example.v1.Foo", &kind("FooList"), Some(&schema));
        let embedded = kubewright_core::tree::get(&object, &["properties", "list", "items"]).unwrap();
        let names: Vec<_> = embedded.get("properties").and_then(Value::as_object).unwrap().keys().collect();
        assert_eq!(names, ["a", "apiVersion", "kind", "metadata"]);
        assert_eq!(embedded.get("required").unwrap().to_string(), r#"["kind","apiVersion"]"#);
        for schema in [object, list] {
            let fields = schema.get("x-kubernetes-selectable-fields").map(ToString::to_string);
            assert_eq!(fields.as_deref(), Some(r#"[{"fieldPath":"spec.a"}]"#));
        }
    }
}
