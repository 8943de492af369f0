//! OpenAPI v2, for clients that do not know v3: the same in other words, and all groups in one document.

use kubewright_core::{Map, Str, Value};

use super::names::referenced;
use crate::tree::{array, items_at, object, set, text_at, texts, word};

/// The answer to `/openapi/v2`, from the documents of all versions of all groups.
pub fn v2<'d>(documents: impl IntoIterator<Item = &'d Value>) -> Value {
    let (mut paths, mut definitions) = (Map::new(), Map::new());
    for document in documents {
        for (path, item) in entries(document, &["paths"]) {
            paths.insert(path.clone(), path_item(item));
        }
        for (name, of_v3) in entries(document, &["components", "schemas"]) {
            definitions.insert(name.clone(), definition(name, of_v3));
        }
    }
    let token = object([("type", word("apiKey")), ("in", word("header")), ("name", word("authorization"))]);
    object([
        ("swagger", word("2.0")),
        ("info", object([("title", word("Kubernetes")), ("version", word("v1.36.0"))])),
        ("paths", paths.into()),
        ("definitions", definitions.into()),
        ("securityDefinitions", object([("BearerToken", token)])),
        ("security", array([object([("BearerToken", array([]))])])),
    ])
}

fn entries<'v>(value: &'v Value, path: &[&str]) -> impl Iterator<Item = (&'v Str, &'v Value)> {
    let found = path.iter().try_fold(value, |value, key| value.get(key)).and_then(Value::as_object);
    found.into_iter().flat_map(Map::iter)
}

fn definition(name: &str, of_v3: &Value) -> Value {
    // Values of two kinds cannot be said in v2; both are written as text.
    match name.rsplit('.').next() {
        Some("Quantity") => object([("type", word("string"))]),
        Some("IntOrString") => object([("type", word("string")), ("format", word("int-or-string"))]),
        // Of what may have any fields, clients would take those that are named for all.
        _ if keeps_unknown(of_v3) => {
            let kinds = of_v3.get(KINDS).cloned().unwrap_or_default();
            object([("type", word("object")), (KINDS, kinds)])
        }
        _ => schema(of_v3),
    }
}

const KINDS: &str = "x-kubernetes-group-version-kind";

fn keeps_unknown(of_v3: &Value) -> bool {
    of_v3.get("x-kubernetes-preserve-unknown-fields").and_then(Value::as_bool) == Some(true)
}

fn is_nullable(of_v3: &Value) -> bool {
    of_v3.get("nullable").and_then(Value::as_bool) == Some(true)
}

/// A schema without defaults and other words that v2 does not have. What may be null, or have any fields, has no type
/// there: clients would refuse the one, and the fields that are not named.
fn schema(of_v3: &Value) -> Value {
    let Some(entries) = of_v3.as_object() else { return of_v3.clone() };
    let (is_nullable, is_open) = (is_nullable(of_v3), keeps_unknown(of_v3));
    let is_object = text_at(of_v3, &["type"]) == "object";
    let lost_items = text_at(of_v3, &["type"]) == "array" && (is_open || of_v3.get("items").is_none());
    let mut converted = Map::new();
    for (key, value) in entries.iter() {
        match (key.as_str(), value) {
            ("default" | "nullable" | "oneOf" | "anyOf" | "not", _) => {}
            ("properties" | "items", _) if is_nullable || is_open => {}
            ("type", _) if is_nullable || is_open && is_object || lost_items => {}
            ("required", Value::Array(names)) => {
                let properties = of_v3.get("properties").filter(|_| !is_nullable && !is_open);
                let may_be_null = |name: &str| properties.and_then(|all| all.get(name)).is_some_and(self::is_nullable);
                let names: Vec<&str> =
                    names.iter().filter_map(Value::as_str).filter(|name| !may_be_null(name)).collect();
                if !names.is_empty() {
                    converted.insert("required", texts(names));
                }
            }
            ("$ref", value) => {
                converted.insert("$ref", reference(value));
            }
            ("allOf", Value::Array(items)) => {
                if let [Value::Object(item)] = &items[..] {
                    converted.extend(item.get("$ref").map(|value| (Str::from_static("$ref"), reference(value))));
                }
            }
            ("properties", Value::Object(properties)) => {
                let properties: Map<Value> =
                    properties.iter().map(|(name, value)| (name.clone(), schema(value))).collect();
                converted.insert("properties", properties.into());
            }
            ("items" | "additionalProperties", value) => {
                converted.insert(key.clone(), schema(value));
            }
            (_, value) => {
                converted.insert(key.clone(), value.clone());
            }
        }
    }
    converted.into()
}

fn reference(value: &Value) -> Value {
    match value.as_str().and_then(referenced) {
        Some(name) => format!("#/definitions/{name}").into(),
        None => value.clone(),
    }
}

fn path_item(item: &Value) -> Value {
    let converted = entries(item, &[]).map(|(key, value)| match key.as_str() {
        "parameters" => (key.clone(), array(items_at(item, &["parameters"]).iter().map(parameter))),
        _ => (key.clone(), operation(value)),
    });
    Value::Object(converted.collect())
}

fn parameter(parameter: &Value) -> Value {
    let mut converted =
        object([("type", text_at(parameter, &["schema", "type"]).into()), ("uniqueItems", true.into())]);
    for key in ["name", "in", "required"] {
        if let Some(value) = parameter.get(key) {
            set(&mut converted, key, value.clone());
        }
    }
    converted
}

fn operation(operation: &Value) -> Value {
    let mut converted = object([("schemes", texts(["https"])), ("consumes", texts(["*/*"]))]);
    for (key, value) in entries(operation, &[]) {
        if matches!(key.as_str(), "tags" | "operationId") || key.starts_with("x-") {
            converted.as_object_mut().expect("made as an object").insert(key.clone(), value.clone());
        }
    }
    let mut parameters: Vec<Value> = items_at(operation, &["parameters"]).iter().map(parameter).collect();
    let mut formats: Vec<&Str> = Vec::new();
    for (format, content) in entries(operation, &["requestBody", "content"]) {
        if formats.is_empty() {
            let required = operation.get("requestBody").and_then(|body| body.get("required")).is_some();
            let mut body = object([("name", word("body")), ("in", word("body"))]);
            set(&mut body, "schema", content.get("schema").map(schema).unwrap_or_default());
            if required {
                set(&mut body, "required", true.into());
            }
            parameters.insert(0, body);
        }
        formats.push(format);
    }
    if !formats.is_empty() {
        set(&mut converted, "consumes", texts(formats));
    }
    if !parameters.is_empty() {
        set(&mut converted, "parameters", parameters.into());
    }
    let produces = entries(operation, &["responses", "200", "content"]).map(|(format, _)| format);
    set(&mut converted, "produces", texts(produces));
    let responses = entries(operation, &["responses"]).map(|(code, response)| {
        let mut converted = object([("description", text_at(response, &["description"]).into())]);
        if let Some((_, content)) = entries(response, &["content"]).next() {
            set(&mut converted, "schema", content.get("schema").map(schema).unwrap_or_default());
        }
        (code.clone(), converted)
    });
    let responses: Map<Value> = responses.collect();
    set(&mut converted, "responses", responses.into());
    converted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_null_or_anything_has_no_type() {
        for (of_v3, want) in [
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
            assert_eq!(schema(&of_v3.parse().unwrap()).to_string(), want, "{of_v3}");
        }
        let open = r#"{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"a":{}},"x-kubernetes-group-version-kind":[]}"#;
        let want = r#"{"type":"object","x-kubernetes-group-version-kind":[]}"#;
        assert_eq!(definition("com.example.v1.Foo", &open.parse().unwrap()).to_string(), want);
    }

    #[test]
    fn references_and_bodies_are_said_in_the_words_of_v2() {
        let document = r##"{"paths": {"/a": {"post": {
            "tags": ["t"], "operationId": "i", "parameters": [{"name": "dryRun", "in": "query", "schema": {"type": "string"}}],
            "requestBody": {"required": true, "content": {"*/*": {"schema": {"$ref": "#/components/schemas/A"}}}},
            "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/A"}}}}}
        }}}, "components": {"schemas": {"A": {"type": "object", "properties": {
            "default": {"default": {}, "allOf": [{"$ref": "#/components/schemas/B"}]}, "n": {"type": "integer", "default": 0}
        }}}}}"##;
        let converted = v2([&document.parse().unwrap()]);
        assert_eq!(
            converted.get("definitions").unwrap().to_string(),
            r##"{"A":{"properties":{"default":{"$ref":"#/definitions/B"},"n":{"type":"integer"}},"type":"object"}}"##
        );
        let post = converted.get("paths").unwrap().get("/a").unwrap().get("post").unwrap();
        assert_eq!(
            post.get("parameters").unwrap().to_string(),
            r##"[{"in":"body","name":"body","required":true,"schema":{"$ref":"#/definitions/A"}},{"in":"query","name":"dryRun","type":"string","uniqueItems":true}]"##
        );
        assert_eq!(post.get("produces").unwrap().to_string(), r#"["application/json"]"#);
    }
}
