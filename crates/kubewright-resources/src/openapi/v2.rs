//! Converts OpenAPI v3 documents to one v2 document, for older clients.

use std::collections::BTreeMap;

use kubewright_core::{Map, Str, Value, tree};
use kubewright_schema::openapi::{definition_to_v2, schema_to_v2};

/// The response to `/openapi/v2`, from the documents of all group versions.
pub fn v2<'d>(documents: impl IntoIterator<Item = &'d Value>) -> Value {
    let (mut paths, mut definitions) = (BTreeMap::new(), BTreeMap::new());
    for document in documents {
        for (path, item) in entries(document, &["paths"]) {
            paths.insert(path.clone(), path_item(item));
        }
        for (name, of_v3) in entries(document, &["components", "schemas"]) {
            definitions.insert(name.clone(), definition_to_v2(name, of_v3));
        }
    }
    let token = tree::map([
        ("type", Value::from("apiKey")),
        ("in", Value::from("header")),
        ("name", Value::from("authorization")),
    ]);
    tree::map([
        ("swagger", Value::from("2.0")),
        ("info", tree::map([("title", Value::from("Kubernetes")), ("version", Value::from("v1.36.0"))])),
        ("paths", Value::Object(paths.into_iter().collect())),
        ("definitions", Value::Object(definitions.into_iter().collect())),
        ("securityDefinitions", tree::map([("BearerToken", token)])),
        ("security", tree::array([tree::map([("BearerToken", tree::array([]))])])),
    ])
}

fn entries<'v>(value: &'v Value, path: &[&str]) -> impl Iterator<Item = (&'v Str, &'v Value)> {
    let found = path.iter().try_fold(value, |value, key| value.get(key)).and_then(Value::as_object);
    found.into_iter().flat_map(Map::iter)
}

fn path_item(item: &Value) -> Value {
    let converted = entries(item, &[]).map(|(key, value)| match key.as_str() {
        "parameters" => (key.clone(), tree::array(tree::items(item, &["parameters"]).iter().map(parameter))),
        _ => (key.clone(), operation(value)),
    });
    Value::Object(converted.collect())
}

fn parameter(parameter: &Value) -> Value {
    let mut converted =
        tree::map([("type", tree::text(parameter, &["schema", "type"]).into()), ("uniqueItems", true.into())]);
    for key in ["name", "in", "required", "description"] {
        if let Some(value) = parameter.get(key) {
            tree::set(&mut converted, &[key], value.clone());
        }
    }
    converted
}

fn operation(operation: &Value) -> Value {
    let mut converted = tree::map([("schemes", tree::list(["https"])), ("consumes", tree::list(["*/*"]))]);
    for (key, value) in entries(operation, &[]) {
        if matches!(key.as_str(), "tags" | "description" | "operationId") || key.starts_with("x-") {
            converted.as_object_mut().expect("made as an object").insert(key.clone(), value.clone());
        }
    }
    let mut parameters: Vec<Value> = tree::items(operation, &["parameters"]).iter().map(parameter).collect();
    let mut formats: Vec<&Str> = Vec::new();
    for (format, content) in entries(operation, &["requestBody", "content"]) {
        if formats.is_empty() {
            let required = operation.get("requestBody").and_then(|body| body.get("required")).is_some();
            let mut body = tree::map([("name", Value::from("body")), ("in", Value::from("body"))]);
            tree::set(&mut body, &["schema"], content.get("schema").map(schema_to_v2).unwrap_or_default());
            if required {
                tree::set(&mut body, &["required"], true);
            }
            parameters.insert(0, body);
        }
        formats.push(format);
    }
    if !formats.is_empty() {
        tree::set(&mut converted, &["consumes"], tree::list(formats));
    }
    if !parameters.is_empty() {
        tree::set(&mut converted, &["parameters"], parameters);
    }
    let produces = entries(operation, &["responses", "200", "content"]).map(|(format, _)| format);
    tree::set(&mut converted, &["produces"], tree::list(produces));
    let responses = entries(operation, &["responses"]).map(|(code, response)| {
        let mut converted = tree::map([("description", tree::text(response, &["description"]).into())]);
        if let Some((_, content)) = entries(response, &["content"]).next() {
            tree::set(&mut converted, &["schema"], content.get("schema").map(schema_to_v2).unwrap_or_default());
        }
        (code.clone(), converted)
    });
    let responses: Map<Value> = responses.collect();
    tree::set(&mut converted, &["responses"], responses);
    converted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_and_bodies_have_the_form_of_v2() {
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
