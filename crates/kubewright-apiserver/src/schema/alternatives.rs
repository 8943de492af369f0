//! What `allOf`, `anyOf`, `oneOf` and `not` may say: more about values whose structure is given outside of them.

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;

use crate::object::tree;

/// Fields that say what a value is, and so have no place where only more is said about it; and what they would have to be.
const STRUCTURE: [(&str, &str); 13] = [
    ("additionalProperties", "undefined"),
    ("default", "undefined"),
    ("description", "empty"),
    ("nullable", "false"),
    ("title", "empty"),
    ("type", "empty"),
    ("x-kubernetes-embedded-resource", "false"),
    ("x-kubernetes-int-or-string", "false"),
    ("x-kubernetes-list-map-keys", "empty"),
    ("x-kubernetes-list-type", "undefined"),
    ("x-kubernetes-map-type", "undefined"),
    ("x-kubernetes-preserve-unknown-fields", "false"),
    ("x-kubernetes-validations", "empty"),
];

/// Checks what a schema says beyond the structure.
pub(super) fn check(path: &str, schema: &Value, causes: &mut Vec<StatusCause>) {
    for kind in ["allOf", "anyOf", "oneOf"] {
        for (index, part) in tree::items(schema, &[kind]).iter().enumerate() {
            // Both of the customary ways to say that a value is a number or a text are allowed.
            let is_customary = match kind {
                "anyOf" if is_int_or_string(schema) => continue,
                "allOf" => index == 0 && is_int_or_string(part),
                _ => false,
            };
            check_part(&format!("{path}.{kind}[{index}]"), part, is_customary, causes);
        }
    }
    if let Some(part) = schema.get("not") {
        check_part(&format!("{path}.not"), part, false, causes);
    }
}

/// Whether one of the alternatives is a number and the other a text, in this order, and nothing more is said.
fn is_int_or_string(schema: &Value) -> bool {
    let says = |part: &Value, ty: &str| {
        part.as_object().is_some_and(|fields| fields.len() == 1) && tree::text(part, &["type"]) == ty
    };
    matches!(tree::items(schema, &["anyOf"]), [first, second] if says(first, "integer") && says(second, "string"))
}

/// Checks what is said beyond the structure. `is_customary` says that the `anyOf` in it is one that is allowed.
fn check_part(path: &str, part: &Value, is_customary: bool, causes: &mut Vec<StatusCause>) {
    for (field, wanted) in STRUCTURE {
        let is_set = match part.get(field) {
            None | Some(Value::Null) => false,
            Some(Value::Bool(is_true)) => *is_true && wanted == "false",
            Some(Value::String(text)) => !text.is_empty() || wanted == "undefined",
            Some(Value::Array(list)) => !list.is_empty() || wanted == "undefined",
            Some(_) => true,
        };
        if is_set {
            let why = format!("must be {wanted} to be structural");
            causes.push(StatusCause::forbidden(format!("{path}.{field}"), &why));
        }
    }
    let properties = part.get("properties").and_then(Value::as_object);
    for (name, inner) in properties.into_iter().flat_map(|properties| properties.iter()) {
        let here = format!("{path}.properties[{name}]");
        // What is said of metadata would bind fields that are the server's.
        if name == "metadata" {
            causes.push(StatusCause::forbidden(&*here, "must not be specified in a nested context"));
        }
        check_part(&here, inner, false, causes);
    }
    if let Some(inner) = part.get("items") {
        check_part(&format!("{path}.items"), inner, false, causes);
    }
    for kind in ["allOf", "anyOf", "oneOf"] {
        let inner = tree::items(part, &[kind]).iter().enumerate();
        for (index, inner) in inner.filter(|_| !(is_customary && kind == "anyOf")) {
            check_part(&format!("{path}.{kind}[{index}]"), inner, false, causes);
        }
    }
    if let Some(inner) = part.get("not") {
        check_part(&format!("{path}.not"), inner, false, causes);
    }
}

/// What alternatives at the root say more about has to be known outside of them. Further down the real server does not
/// look.
pub(super) fn check_known(
    path: &str,
    part: &Value,
    (outside_path, outside): (&str, &Value),
    causes: &mut Vec<StatusCause>,
) {
    for kind in ["allOf", "anyOf", "oneOf"] {
        for (index, inner) in tree::items(part, &[kind]).iter().enumerate() {
            check_known_parts(&format!("{path}.{kind}[{index}]"), inner, (outside_path, outside), causes);
        }
    }
    if let Some(inner) = part.get("not") {
        check_known_parts(&format!("{path}.not"), inner, (outside_path, outside), causes);
    }
}

fn check_known_parts(path: &str, part: &Value, (outside_path, outside): (&str, &Value), causes: &mut Vec<StatusCause>) {
    check_known(path, part, (outside_path, outside), causes);
    let properties = part.get("properties").and_then(Value::as_object);
    let fields = properties
        .into_iter()
        .flat_map(|properties| properties.iter())
        .map(|(name, inner)| (format!("properties[{name}]"), inner, tree::get(outside, &["properties", name])));
    let items = part.get("items").map(|inner| ("items".to_owned(), inner, outside.get("items")));
    for (name, inner, known) in fields.chain(items) {
        let (here, there) = (format!("{path}.{name}"), format!("{outside_path}.{name}"));
        match known {
            Some(known) => check_known_parts(&here, inner, (&there, known), causes),
            None => causes.push(StatusCause::required(there, &format!("because it is defined in {here}"))),
        }
    }
}
