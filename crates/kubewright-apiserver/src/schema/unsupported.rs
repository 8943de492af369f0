//! What schemas can say elsewhere, but not here.

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;

use crate::object::tree;

/// Parts of schemas that the server does not understand.
const UNSUPPORTED: [&str; 6] = ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"];

/// Complains about what is not supported at a place.
pub(super) fn check(path: &str, schema: &Value, causes: &mut Vec<StatusCause>) {
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

/// Complains about fields that every object has and that are said to be something else.
pub(super) fn check_object(path: &str, schema: &Value, causes: &mut Vec<StatusCause>) {
    for (name, wanted) in [("metadata", "object"), ("apiVersion", "string"), ("kind", "string")] {
        let Some(part) = tree::get(schema, &["properties", name]) else { continue };
        let found = tree::text(part, &["type"]);
        if !found.is_empty() && found != wanted {
            let field = format!("{path}.properties[{name}].type");
            causes.push(StatusCause::invalid(field, format!("{found:?}"), &format!("must be {wanted}")));
        }
    }
}
