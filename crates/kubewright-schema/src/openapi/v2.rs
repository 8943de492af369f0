//! Conversion of OpenAPI v3 schemas to OpenAPI v2.

use kubewright_core::{Map, Str, Value, json, tree};

use super::names::referenced_name;

const KINDS: &str = "x-kubernetes-group-version-kind";

/// Converts a named schema to a definition of an OpenAPI v2 document.
pub fn definition_to_v2(name: &str, schema: &Value) -> Value {
    // Values of several types cannot be expressed in v2. They are published as strings.
    match name.rsplit('.').next() {
        Some("Quantity") => json!({"type": "string"}),
        Some("IntOrString") => json!({"type": "string", "format": "int-or-string"}),
        // v2 clients would take the specified fields for all that are allowed.
        _ if preserves_unknown_fields(schema) => {
            let kinds = schema.get(KINDS).cloned().unwrap_or_default();
            Value::Object([("type", Value::from("object")), (KINDS, kinds)].into())
        }
        _ => schema_to_v2(schema),
    }
}

/// Converts a schema to OpenAPI v2, without the fields that v2 lacks.
///
/// Nullable values and objects with unknown fields get no type: v2 clients would reject `null` and
/// unspecified fields.
pub fn schema_to_v2(schema: &Value) -> Value {
    let Some(entries) = schema.as_object() else { return schema.clone() };
    let (is_nullable, is_open) = (is_nullable(schema), preserves_unknown_fields(schema));
    let ty = tree::text(schema, &["type"]);
    let lacks_items = ty == "array" && (is_open || schema.get("items").is_none());
    let mut converted = Map::new();
    for (key, value) in entries.iter() {
        match (key.as_str(), value) {
            ("default" | "nullable" | "oneOf" | "anyOf" | "not", _) => {}
            ("properties" | "items", _) if is_nullable || is_open => {}
            ("type", _) if is_nullable || is_open && ty == "object" || lacks_items => {}
            ("required", Value::Array(names)) => {
                let properties = schema.get("properties").filter(|_| !is_nullable && !is_open);
                let may_be_null = |name: &str| properties.and_then(|all| all.get(name)).is_some_and(self::is_nullable);
                let names = names.iter().filter(|name| name.as_str().is_some_and(|name| !may_be_null(name)));
                let names: Vec<Value> = names.cloned().collect();
                if !names.is_empty() {
                    converted.insert("required", names.into());
                }
            }
            ("$ref", value) => {
                converted.insert("$ref", reference_to_v2(value));
            }
            ("allOf", Value::Array(items)) => {
                if let [Value::Object(item)] = &items[..] {
                    converted.extend(item.get("$ref").map(|value| (Str::from_static("$ref"), reference_to_v2(value))));
                }
            }
            ("properties", Value::Object(properties)) => {
                let properties: Map<Value> =
                    properties.iter().map(|(name, value)| (name.clone(), schema_to_v2(value))).collect();
                converted.insert("properties", properties.into());
            }
            ("items" | "additionalProperties", value) => {
                converted.insert(key.clone(), schema_to_v2(value));
            }
            (_, value) => {
                converted.insert(key.clone(), value.clone());
            }
        }
    }
    converted.into()
}

fn preserves_unknown_fields(schema: &Value) -> bool {
    tree::is_true(schema, &["x-kubernetes-preserve-unknown-fields"])
}

fn is_nullable(schema: &Value) -> bool {
    tree::is_true(schema, &["nullable"])
}

fn reference_to_v2(value: &Value) -> Value {
    match value.as_str().and_then(referenced_name) {
        Some(name) => format!("#/definitions/{name}").into(),
        None => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nullable_and_open_values_have_no_type() {
        for (schema, want) in [
            (r#"{"type":"string","nullable":true}"#, "{}"),
            (r#"{"type":"object","nullable":true,"properties":{"a":{"type":"string"}}}"#, "{}"),
            (
                r#"{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"a":{"type":"string"}}}"#,
                r#"{"x-kubernetes-preserve-unknown-fields":true}"#,
            ),
            (r#"{"type":"array"}"#, "{}"),
            (
                r#"{"type":"object","required":["a","b"],"properties":{"a":{"type":"string","nullable":true},"b":{"type":"string"}},"anyOf":[{"required":["a"]}]}"#,
                r#"{"properties":{"a":{},"b":{"type":"string"}},"required":["b"],"type":"object"}"#,
            ),
        ] {
            assert_eq!(schema_to_v2(&schema.parse().unwrap()).to_string(), want, "{schema}");
        }
        let open = r#"{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"a":{}},"x-kubernetes-group-version-kind":[]}"#;
        let want = r#"{"type":"object","x-kubernetes-group-version-kind":[]}"#;
        assert_eq!(definition_to_v2("com.example.v1.Foo", &open.parse().unwrap()).to_string(), want);
    }
}
