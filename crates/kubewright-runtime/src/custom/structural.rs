//! Converts JSON schemas to structural schemas, as API servers require for custom resources.
//!
//! A structural schema states the type of each field outside of all alternatives; alternatives may
//! only restrict. See
//! <https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema>.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// The structural schema of a type.
pub fn schema_of<T: JsonSchema>() -> Value {
    let mut settings = SchemaSettings::openapi3();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    make_structural(&mut schema);
    schema
}

/// Keywords that structural schemas do not have.
const FORBIDDEN: [&str; 9] =
    ["$schema", "$id", "title", "definitions", "$defs", "components", "examples", "readOnly", "writeOnly"];

/// Formats that servers know; others are ignored.
const FORMATS: [&str; 12] =
    ["int32", "int64", "float", "double", "byte", "date", "date-time", "duration", "email", "ipv4", "uuid", "uri"];

fn make_structural(schema: &mut Value) {
    let Value::Object(fields) = schema else {
        // `true` accepts anything.
        *schema = json!({"x-kubernetes-preserve-unknown-fields": true});
        return;
    };
    FORBIDDEN.iter().for_each(|field| drop(fields.remove(*field)));
    fields.remove("deprecated");
    if fields.get("format").and_then(Value::as_str).is_some_and(|format| !FORMATS.contains(&format)) {
        fields.remove("format");
    }
    if let Some(constant) = fields.remove("const") {
        fields.insert("enum".to_owned(), json!([constant]));
    }
    for alternatives in ["oneOf", "anyOf", "allOf"] {
        fold_alternatives(fields, alternatives);
    }
    match fields.get_mut("additionalProperties") {
        // A server prunes or rejects unknown fields itself; a schema has either properties or
        // these.
        Some(Value::Bool(false)) => drop(fields.remove("additionalProperties")),
        Some(additional) => make_structural(additional),
        None => {}
    }
    if fields.contains_key("properties") {
        fields.remove("additionalProperties");
        fields.entry("type").or_insert_with(|| "object".into());
    }
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        properties.values_mut().for_each(make_structural);
    }
    if let Some(items) = fields.get_mut("items") {
        make_structural(items);
    }
    // Servers do not accept `null` in `enum`; it is expressed as `nullable`.
    if let Some(Value::Array(values)) = fields.get_mut("enum") {
        values.retain(|value| !value.is_null());
        if let Some(first) = values.first() {
            let ty = if first.is_string() { "string" } else { "integer" };
            fields.entry("type").or_insert_with(|| ty.into());
        }
    }
    let says_nothing = !["type", "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"]
        .iter()
        .any(|field| fields.contains_key(*field));
    if says_nothing {
        fields.insert("x-kubernetes-preserve-unknown-fields".to_owned(), true.into());
    }
}

/// Moves types and properties of the alternatives outside, and leaves restrictions inside.
fn fold_alternatives(fields: &mut Map<String, Value>, name: &str) {
    let Some(Value::Array(mut alternatives)) = fields.remove(name) else { return };
    let before = alternatives.len();
    alternatives.retain(|alternative| !is_null(alternative));
    if alternatives.len() < before {
        fields.insert("nullable".to_owned(), true.into());
    }
    if alternatives.len() == 1 || name == "allOf" {
        for alternative in alternatives {
            let Value::Object(alternative) = alternative else { continue };
            merge(fields, alternative);
        }
        return;
    }
    // Alternatives of names become one list.
    if let Some(values) = alternatives.iter().map(names).collect::<Option<Vec<Vec<Value>>>>() {
        fields.insert("type".to_owned(), "string".into());
        fields.insert("enum".to_owned(), values.concat().into());
        return;
    }
    let mut types: Vec<Value> = alternatives.iter().filter_map(|one| one.get("type").cloned()).collect();
    types.dedup();
    if types.len() > 1 {
        // Integer or string is a type of its own; other mixtures are unconstrained.
        let is_int_or_string =
            types.len() == 2 && types.contains(&"integer".into()) && types.contains(&"string".into());
        let says = if is_int_or_string { "x-kubernetes-int-or-string" } else { "x-kubernetes-preserve-unknown-fields" };
        fields.insert(says.to_owned(), true.into());
        return;
    }
    let mut narrowing = Vec::new();
    for alternative in alternatives {
        let Value::Object(mut alternative) = alternative else { continue };
        let required = alternative.remove("required");
        merge(fields, alternative);
        narrowing.extend(required.map(|required| json!({"required": required})));
    }
    if !narrowing.is_empty() {
        fields.insert(name.to_owned(), narrowing.into());
    }
}

/// Merges another schema of the same value.
fn merge(fields: &mut Map<String, Value>, other: Map<String, Value>) {
    for (name, value) in other {
        match (fields.get_mut(&name), value) {
            (Some(Value::Object(have)), Value::Object(more)) => {
                for (name, value) in more {
                    match (have.get_mut(&name), value) {
                        // The tag of an enum: each variant has its own value.
                        (Some(Value::Object(have)), Value::Object(more)) => unite(have, &more),
                        (Some(_), _) => {}
                        (None, value) => drop(have.insert(name, value)),
                    }
                }
            }
            (Some(Value::Array(have)), Value::Array(more)) => {
                extend(have, more);
            }
            (Some(_), _) => {}
            (None, value) => drop(fields.insert(name, value)),
        }
    }
}

/// Allows a property the values of both schemas.
fn unite(have: &mut Map<String, Value>, more: &Map<String, Value>) {
    let values = |schema: &Map<String, Value>| match (schema.get("enum"), schema.get("const")) {
        (Some(Value::Array(values)), _) => Some(values.clone()),
        (_, Some(constant)) => Some(vec![constant.clone()]),
        _ => None,
    };
    if let (Some(mut all), Some(more)) = (values(have), values(more)) {
        extend(&mut all, more);
        have.remove("const");
        have.insert("enum".to_owned(), all.into());
    }
}

/// Appends missing values.
fn extend(have: &mut Vec<Value>, more: Vec<Value>) {
    for value in more {
        if !have.contains(&value) {
            have.push(value);
        }
    }
}

/// The strings of an alternative that is only a choice of names.
fn names(alternative: &Value) -> Option<Vec<Value>> {
    let values = match (alternative.get("enum"), alternative.get("const")) {
        (Some(Value::Array(values)), _) => values.clone(),
        (_, Some(constant)) => vec![constant.clone()],
        _ => return None,
    };
    values.iter().all(Value::is_string).then_some(values)
}

fn is_null(alternative: &Value) -> bool {
    alternative.get("type") == Some(&"null".into())
        || alternative.get("const") == Some(&Value::Null)
            && alternative.as_object().is_some_and(|one| one.contains_key("const"))
        || alternative.get("enum") == Some(&json!([null]))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// A size.
    #[derive(JsonSchema)]
    #[allow(dead_code)]
    enum Size {
        /// A small size.
        Small,
        Large,
    }

    #[derive(JsonSchema)]
    #[allow(dead_code)]
    #[serde(rename_all = "camelCase")]
    enum Source {
        Inline { text: String },
        Url(String),
    }

    #[derive(JsonSchema)]
    #[allow(dead_code)]
    struct Everything {
        size: Size,
        maybe: Option<Size>,
        source: Source,
        number: u32,
        labels: BTreeMap<String, String>,
        list: Vec<Option<i64>>,
        anything: serde_json::Value,
    }

    #[test]
    fn a_schema_states_types_outside_of_any_of() {
        let schema = schema_of::<Everything>();
        let property = |name: &str| schema["properties"][name].clone();
        assert_eq!(schema["type"], "object");
        assert_eq!(property("size")["enum"], json!(["Large", "Small"]));
        assert_eq!(property("size")["type"], "string");
        assert_eq!(property("maybe")["nullable"], true);
        assert_eq!(property("source")["type"], "object");
        assert_eq!(property("source")["properties"]["inline"]["properties"]["text"]["type"], "string");
        assert_eq!(property("source")["oneOf"], json!([{"required": ["inline"]}, {"required": ["url"]}]));
        assert_eq!(property("number").get("format"), None);
        assert_eq!(property("labels")["additionalProperties"], json!({"type": "string"}));
        assert_eq!(property("list")["items"]["nullable"], true);
        assert_eq!(property("anything")["x-kubernetes-preserve-unknown-fields"], true);
        assert!(schema.get("$schema").is_none() && schema.get("title").is_none());
    }
}
