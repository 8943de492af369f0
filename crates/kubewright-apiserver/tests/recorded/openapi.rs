//! Compares OpenAPI documents and schemas with those of the real server.

use kubewright_core::{GroupVersion, Value};
use kubewright_resources::discovery::Served;
use kubewright_resources::openapi::{OpenApiDocument, v2};

use crate::scenario::{assert_answer, find, shared, steps, text};

fn document(group: &str, version: &str) -> Value {
    let version = GroupVersion::new(group, version);
    let mut document = OpenApiDocument::new(version.clone());
    for served in kubewright_api::resources().into_iter().map(Served::from) {
        if (&served.group, &served.version) == (&version.group, &version.version) {
            document.add(&served);
        }
    }
    document.to_value()
}

/// The value without descriptions, which are our own, and with sorted lists of required fields.
fn bare(value: &Value) -> Value {
    match value {
        Value::Object(entries) => {
            let kept = entries.iter().filter(|(key, value)| *key != "description" || value.as_str().is_none());
            let entries = kept.map(|(key, value)| match (key.as_str(), value) {
                ("required", Value::Array(items)) => {
                    let mut items: Vec<Value> = items.to_vec();
                    items.sort_by_key(Value::to_string);
                    (key.clone(), items.into())
                }
                (_, value) => (key.clone(), bare(value)),
            });
            Value::Object(entries.collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(bare).collect()),
        scalar => scalar.clone(),
    }
}

/// The first difference between two values.
fn difference(path: &str, ours: &Value, theirs: &Value) -> Option<String> {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            let keys = ours.keys().chain(theirs.keys());
            keys.map(|key| (key, ours.get(key), theirs.get(key))).find_map(|(key, ours, theirs)| {
                let path = format!("{path}/{key}");
                match (ours, theirs) {
                    (Some(ours), Some(theirs)) => difference(&path, ours, theirs),
                    (ours, theirs) => Some(format!("{path}: {ours:?} is not {theirs:?}")),
                }
            })
        }
        (ours, theirs) if ours == theirs => None,
        (ours, theirs) => Some(format!("{path}: {ours} is not {theirs}")),
    }
}

#[test]
fn every_schema_is_that_of_the_server() {
    let Some(recorded) = shared("api/schemas.json") else { return };
    let mut ours = kubewright_core::Map::new();
    // The storage group comes last: two shared types were recorded from its document.
    let mut versions: Vec<(&str, &str)> =
        kubewright_api::resources().iter().map(|info| (info.kind.group, info.kind.version)).collect();
    versions.sort_by_key(|(group, _)| *group == "storage.k8s.io");
    versions.dedup();
    let documents = versions.iter().map(|(group, version)| document(group, version));
    for document in std::iter::once(OpenApiDocument::for_group("apps").to_value()).chain(documents) {
        let schemas = find(&document, "/components/schemas").and_then(Value::as_object).unwrap();
        ours.extend(schemas.iter().map(|(name, schema)| (name.clone(), schema.clone())));
    }
    let mut differences = Vec::new();
    for (name, theirs) in recorded.as_object().unwrap().iter() {
        match ours.get(name) {
            Some(ours) => differences.extend(difference(name, &bare(ours), &bare(theirs))),
            None => differences.push(format!("{name} is missing")),
        }
    }
    let count = recorded.as_object().unwrap().len();
    assert!(differences.is_empty(), "{} of {count} differ:\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn the_coordination_document_is_that_of_the_server() {
    let Some(recorded) = shared("api/openapi-v3-coordination.json") else { return };
    let ours = document("coordination.k8s.io", "v1");
    for part in ["/paths", "/components/schemas", "/openapi"] {
        let (ours, theirs) = (bare(find(&ours, part).unwrap()), bare(find(&recorded, part).unwrap()));
        assert_eq!(difference(part, &ours, &theirs), None);
    }
}

#[test]
fn documents_answer_as_recorded() {
    for step in steps("discovery-openapi-and-health") {
        let document = match text(&step, &["path"]) {
            "/openapi/v3/api/v1" => document("", "v1"),
            "/openapi/v3/apis/apps/v1" => document("apps", "v1"),
            "/openapi/v2" => v2([document("", "v1"), document("apps", "v1")].iter()),
            _ => continue,
        };
        // For some paths, only the type of the value was recorded.
        let mut step = step;
        let body =
            step.as_object_mut().unwrap().get_mut("expect").unwrap().as_object_mut().unwrap().get_mut("body").unwrap();
        body.as_object_mut().unwrap().retain(|pointer, want| match want.as_str() {
            Some(ty @ ("<string>" | "<object>")) => {
                assert_eq!(find(&document, pointer).map(Value::kind), Some(&ty[1..ty.len() - 1]), "{pointer}");
                false
            }
            _ => true,
        });
        assert_answer(&step, &document);
    }
}
