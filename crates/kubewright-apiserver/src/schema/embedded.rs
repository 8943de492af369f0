//! Whole objects within an object: they need a kind, and their metadata has to be metadata.

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;
use kubewright_core::validation::{label_value, qualified_name};

use super::Schema;
use super::path::Path;
use super::validation::shown;
use crate::admission::dns1035_label;
use crate::object::{text_map, tree};

impl Schema {
    /// The objects within an object, and the object itself if it is one by this schema, with their paths.
    pub(crate) fn embedded<'v>(&self, object: &'v Value) -> Vec<(String, &'v Value)> {
        let mut found = Vec::new();
        collect(self, "", &Path::Root, object, &mut found);
        found
    }
}

fn collect<'v>(schema: &Schema, prefix: &str, path: &Path<'_>, value: &'v Value, found: &mut Vec<(String, &'v Value)>) {
    match value {
        Value::Object(fields) => {
            if schema.embedded_resource {
                found.push((path.below(prefix), value));
            }
            for (name, field) in fields.iter() {
                if let Some(schema) = schema.of_field(name) {
                    collect(schema, prefix, &path.field(name), field, found);
                }
            }
        }
        Value::Array(list) => {
            let Some(schema) = schema.items.as_deref() else { return };
            for (index, item) in list.iter().enumerate() {
                collect(schema, prefix, &path.item(index), item, found);
            }
        }
        _ => {}
    }
}

/// Complains about objects that lack what every object has. The value itself is at `prefix`.
pub(super) fn check(schema: &Schema, prefix: &str, value: &Value, causes: &mut Vec<StatusCause>) {
    let mut found = Vec::new();
    collect(schema, prefix, &Path::Root, value, &mut found);
    for (path, object) in found {
        check_object(&path, object, causes);
    }
}

fn check_object(path: &str, object: &Value, causes: &mut Vec<StatusCause>) {
    for name in ["apiVersion", "kind"] {
        let field = format!("{path}.{name}");
        let Some(value) = object.get(name) else {
            causes.push(StatusCause::required(field, ""));
            continue;
        };
        let why = match value.as_str() {
            None => "must be a string".to_owned(),
            Some("") => "must not be empty".to_owned(),
            Some(text) if name == "apiVersion" && text.matches('/').count() > 1 => {
                format!("unexpected GroupVersion string: {text}")
            }
            Some(text) if name == "kind" => match &dns1035_label(&text.to_lowercase())[..] {
                [] => continue,
                why => format!("may have mixed case, but should otherwise match: {}", why.join(",")),
            },
            Some(_) => continue,
        };
        causes.push(StatusCause::invalid(field, shown(value), &why));
    }
    let field = format!("{path}.metadata.labels");
    for (key, value) in text_map(tree::get(object, &["metadata", "labels"])).iter() {
        for (shown, complaints) in [(key, qualified_name(key)), (value, label_value(value))] {
            let shown = format!("{:?}", shown.as_str());
            causes.extend(complaints.iter().map(|why| StatusCause::invalid(&*field, &shown, why)));
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
            {"apiVersion":"","metadata":{"labels":{"a":"-"}}},{"apiVersion":"a/b/c","kind":"Po d"}]}"#
            .parse()
            .expect("valid JSON");
        let mut causes = Vec::new();
        check(&Schema::read(&schema), "", &object, &mut causes);
        let fields: Vec<_> = causes.iter().map(|cause| cause.field.clone().unwrap_or_default()).collect();
        assert_eq!(
            fields,
            ["list[1].apiVersion", "list[1].kind", "list[1].metadata.labels", "list[2].apiVersion", "list[2].kind"]
        );
        assert_eq!(causes[1].message.as_deref(), Some("Required value"));
        let unexpected = "Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c";
        assert_eq!(causes[3].message.as_deref(), Some(unexpected));
    }
}
