//! Value validations: the content of `allOf`, `anyOf`, `oneOf` and `not`.
//!
//! They constrain values whose structure is specified outside of them.

use kubewright_core::meta::v1::StatusCause;
use kubewright_core::{Value, tree};

/// Fields that specify structure, with the value that they need within a junctor.
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

/// Checks the junctors of a schema.
pub(crate) fn check(path: &str, schema: &Value, causes: &mut Vec<StatusCause>) {
    for kind in ["allOf", "anyOf", "oneOf"] {
        for (index, part) in tree::items(schema, &[kind]).iter().enumerate() {
            // Both common notations of an int-or-string value are allowed.
            let allows_types = match kind {
                "anyOf" if is_int_or_string(schema) => continue,
                "allOf" => index == 0 && is_int_or_string(part),
                _ => false,
            };
            check_part(&format!("{path}.{kind}[{index}]"), part, allows_types, causes);
        }
    }
    if let Some(part) = schema.get("not") {
        check_part(&format!("{path}.not"), part, false, causes);
    }
}

/// Whether `anyOf` is exactly an integer and a string, in this order.
fn is_int_or_string(schema: &Value) -> bool {
    let has_only_type = |part: &Value, ty: &str| {
        part.as_object().is_some_and(|fields| fields.len() == 1) && tree::text(part, &["type"]) == ty
    };
    matches!(tree::items(schema, &["anyOf"]), [first, second] if has_only_type(first, "integer") && has_only_type(second, "string"))
}

/// Checks one value validation. `allows_types` exempts the `anyOf` of an int-or-string value.
fn check_part(path: &str, part: &Value, allows_types: bool, causes: &mut Vec<StatusCause>) {
    for (field, expected) in STRUCTURE {
        let is_set = match part.get(field) {
            None | Some(Value::Null) => false,
            Some(Value::Bool(is_true)) => *is_true && expected == "false",
            Some(Value::String(text)) => !text.is_empty() || expected == "undefined",
            Some(Value::Array(list)) => !list.is_empty() || expected == "undefined",
            Some(_) => true,
        };
        if is_set {
            let why = format!("must be {expected} to be structural");
            causes.push(StatusCause::forbidden(format!("{path}.{field}"), &why));
        }
    }
    let properties = part.get("properties").and_then(Value::as_object);
    for (name, inner) in properties.into_iter().flat_map(|properties| properties.iter()) {
        let here = format!("{path}.properties[{name}]");
        // `metadata` is specified by the server.
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
        for (index, inner) in inner.filter(|_| !(allows_types && kind == "anyOf")) {
            check_part(&format!("{path}.{kind}[{index}]"), inner, false, causes);
        }
    }
    if let Some(inner) = part.get("not") {
        check_part(&format!("{path}.not"), inner, false, causes);
    }
}

/// Checks that fields in junctors are specified outside of them.
///
/// kube-apiserver checks this only for junctors at the root.
pub(crate) fn check_specified(
    path: &str,
    part: &Value,
    (outside_path, outside): (&str, &Value),
    causes: &mut Vec<StatusCause>,
) {
    for kind in ["allOf", "anyOf", "oneOf"] {
        for (index, inner) in tree::items(part, &[kind]).iter().enumerate() {
            check_specified_children(&format!("{path}.{kind}[{index}]"), inner, (outside_path, outside), causes);
        }
    }
    if let Some(inner) = part.get("not") {
        check_specified_children(&format!("{path}.not"), inner, (outside_path, outside), causes);
    }
}

fn check_specified_children(
    path: &str,
    part: &Value,
    (outside_path, outside): (&str, &Value),
    causes: &mut Vec<StatusCause>,
) {
    check_specified(path, part, (outside_path, outside), causes);
    let properties = part.get("properties").and_then(Value::as_object);
    let fields = properties
        .into_iter()
        .flat_map(|properties| properties.iter())
        .map(|(name, inner)| (format!("properties[{name}]"), inner, tree::get(outside, &["properties", name])));
    let items = part.get("items").map(|inner| ("items".to_owned(), inner, outside.get("items")));
    for (name, inner, outside) in fields.chain(items) {
        let (here, there) = (format!("{path}.{name}"), format!("{outside_path}.{name}"));
        match outside {
            Some(outside) => check_specified_children(&here, inner, (&there, outside), causes),
            None => causes.push(StatusCause::required(there, &format!("because it is defined in {here}"))),
        }
    }
}
