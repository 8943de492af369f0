//! `x-kubernetes-embedded-resource`: objects within an object, which need a kind and valid labels.

use kubewright_core::meta::v1::StatusCause;
use kubewright_core::validation::{dns1035_label, label_value, qualified_name};
use kubewright_core::{Value, tree};

use crate::cause::display;
use crate::field_path::FieldPath;
use crate::schema::Schema;

impl Schema {
    /// All embedded resources of an object with their paths.
    pub fn embedded_resources<'v>(&self, object: &'v Value) -> Vec<(String, &'v Value)> {
        let mut found = Vec::new();
        collect(self, "", &FieldPath::Root, object, &mut found);
        found
    }
}

fn collect<'v>(
    schema: &Schema,
    prefix: &str,
    path: &FieldPath<'_>,
    value: &'v Value,
    found: &mut Vec<(String, &'v Value)>,
) {
    match value {
        Value::Object(fields) => {
            if schema.embedded_resource {
                found.push((path.with_prefix(prefix), value));
            }
            for (name, field) in fields.iter() {
                if let Some(schema) = schema.field(name) {
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

/// Validates all embedded resources of a value, which itself is at `prefix`.
pub(crate) fn check(schema: &Schema, prefix: &str, value: &Value, causes: &mut Vec<StatusCause>) {
    let mut found = Vec::new();
    collect(schema, prefix, &FieldPath::Root, value, &mut found);
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
        causes.push(StatusCause::invalid(field, display(value), &why));
    }
    let field = format!("{path}.metadata.labels");
    let labels = tree::get(object, &["metadata", "labels"]).and_then(Value::as_object);
    for (key, value) in labels.into_iter().flat_map(|labels| labels.iter()) {
        let Some(value) = value.as_str() else { continue };
        for (text, errors) in [(key.as_str(), qualified_name(key)), (value, label_value(value))] {
            let shown = format!("{text:?}");
            causes.extend(errors.iter().map(|why| StatusCause::invalid(&*field, &shown, why)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_resources_need_a_kind_and_valid_labels() {
        let schema: Value = r#"{"type":"object","properties":{"list":{"type":"array","items":{"type":"object",
            "x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}}}}"#
            .parse()
            .expect("valid JSON");
        let object: Value = r#"{"list":[{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"a":"b"}},"spec":1},
            {"apiVersion":"","metadata":{"labels":{"a":"-"}}},{"apiVersion":"a/b/c","kind":"Po d"}]}"#
            .parse()
            .expect("valid JSON");
        let mut causes = Vec::new();
        check(&Schema::parse(&schema), "", &object, &mut causes);
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
