//! Whole objects within an object: they need a kind, and their metadata has to be metadata.

use kubewright_core::meta::v1::{ObjectMeta, StatusCause};
use kubewright_core::validation::{label_value, qualified_name};
use kubewright_core::{Decoder, Value};

use super::Schema;
use super::path::Path;
use super::validation::shown;
use crate::object::{text_map, to_json, tree};

/// Complains about objects that lack what every object has.
pub(super) fn check(schema: &Schema, path: &Path<'_>, value: &Value, causes: &mut Vec<StatusCause>) {
    match value {
        Value::Object(fields) => {
            if schema.embedded_resource {
                check_object(path, value, causes);
            }
            for (name, field) in fields.iter() {
                if let Some(schema) = schema.of_field(name) {
                    check(schema, &path.field(name), field, causes);
                }
            }
        }
        Value::Array(list) => {
            let Some(schema) = schema.items.as_deref() else { return };
            for (index, item) in list.iter().enumerate() {
                check(schema, &path.item(index), item, causes);
            }
        }
        _ => {}
    }
}

fn check_object(path: &Path<'_>, object: &Value, causes: &mut Vec<StatusCause>) {
    for name in ["apiVersion", "kind"] {
        let field = path.field(name).to_string();
        match object.get(name) {
            None => causes.push(StatusCause::required(field, "must not be empty")),
            Some(Value::String(text)) if text.is_empty() => {
                causes.push(StatusCause::invalid(field, "\"\"", "must not be empty"));
            }
            Some(Value::String(_)) => {}
            Some(other) => causes.push(StatusCause::invalid(field, shown(other), "must be a string")),
        }
    }
    let Some(metadata) = object.get("metadata") else { return };
    let here = path.field("metadata");
    let decoded: Result<ObjectMeta, _> = Decoder::new().json(&to_json(metadata));
    if let Err(error) = decoded {
        return causes.push(StatusCause::invalid(here.to_string(), shown(metadata), &error.to_string()));
    }
    let field = here.field("labels");
    for (key, value) in text_map(tree::get(metadata, &["labels"])).iter() {
        for (shown, complaints) in [(key, qualified_name(key)), (value, label_value(value))] {
            let shown = format!("{:?}", shown.as_str());
            causes.extend(complaints.iter().map(|why| StatusCause::invalid(field.to_string(), &shown, why)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_within_an_object_needs_a_kind_and_proper_metadata() {
        let schema: Value = r#"{"type":"object","properties":{"list":{"type":"array","items":{"type":"object",
            "x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}}}}"#
            .parse()
            .expect("valid JSON");
        let object: Value = r#"{"list":[{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"a":"b"}},"spec":1},
            {"apiVersion":"","metadata":{"labels":{"a":"-"}}},{"apiVersion":"v1","kind":1,"metadata":{"name":1}}]}"#
            .parse()
            .expect("valid JSON");
        let mut causes = Vec::new();
        check(&Schema::read(&schema), &Path::Root, &object, &mut causes);
        let fields: Vec<_> = causes.iter().map(|cause| cause.field.clone().unwrap_or_default()).collect();
        assert_eq!(
            fields,
            ["list[1].apiVersion", "list[1].kind", "list[1].metadata.labels", "list[2].kind", "list[2].metadata"]
        );
        assert_eq!(causes[1].message.as_deref(), Some("Required value: must not be empty"));
    }
}
