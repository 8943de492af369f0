//! Schema features that structural schemas do not support.

use kubewright_core::meta::v1::StatusCause;
use kubewright_core::{Value, tree};

const UNSUPPORTED: [&str; 6] = ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"];

/// Reports unsupported fields of one schema.
pub(crate) fn check(path: &str, schema: &Value, causes: &mut Vec<StatusCause>) {
    for field in UNSUPPORTED {
        let is_set = match schema.get(field) {
            None | Some(Value::Null) => false,
            Some(Value::String(text)) => !text.is_empty() || field == "$ref",
            Some(Value::Object(parts)) => !parts.is_empty() || field == "additionalItems",
            Some(_) => true,
        };
        if is_set {
            causes.push(StatusCause::forbidden(format!("{path}.{field}"), &format!("{field} is not supported")));
        }
    }
}

/// Reports wrong types of the fields that every object has.
pub(crate) fn check_object(path: &str, schema: &Value, causes: &mut Vec<StatusCause>) {
    for (name, expected) in [("metadata", "object"), ("apiVersion", "string"), ("kind", "string")] {
        let Some(part) = tree::get(schema, &["properties", name]) else { continue };
        let found = tree::text(part, &["type"]);
        if !found.is_empty() && found != expected {
            let field = format!("{path}.properties[{name}].type");
            causes.push(StatusCause::invalid(field, format!("{found:?}"), &format!("must be {expected}")));
        }
    }
}
