//! Validation of schemas: they have to be structural.
//!
//! A structural schema specifies the type of every value outside of `allOf`, `anyOf`, `oneOf` and
//! `not`. These junctors may only add value validations.

use std::collections::HashSet;

use kubewright_core::meta::v1::StatusCause;
use kubewright_core::{Value, tree};

use crate::cause::display;
use crate::pattern::Pattern;
use crate::schema::{Schema, is_object_field};
use crate::{rule_validation, unsupported, value_validation};

/// The number of causes for the keys of one list.
const MAX_KEY_CAUSES: usize = 64;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// Validates the schema of whole objects at `path` of a definition.
///
/// Checks its structure, then its defaults, and then its CEL rules. Each step requires the one
/// before. No causes means that the schema is valid.
pub fn validate_schema(path: &str, schema: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    require_type(path, schema, "must not be empty at the root", &mut causes);
    match tree::text(schema, &["type"]) {
        "" | "object" => {}
        ty => {
            let why = "must be object at the root";
            causes.push(StatusCause::invalid(format!("{path}.type"), format!("{ty:?}"), why));
        }
    }
    if tree::is_true(schema, &["nullable"]) {
        causes.push(StatusCause::forbidden(format!("{path}.nullable"), "nullable cannot be true at the root"));
    }
    if schema.get("additionalProperties").is_some() {
        let why = "must not be used at the root";
        causes.push(StatusCause::forbidden(format!("{path}.additionalProperties"), why));
    }
    if let Some(metadata) = tree::get(schema, &["properties", "metadata"]) {
        check_metadata(&format!("{path}.properties[metadata]"), metadata, &mut causes);
    }
    unsupported::check_object(path, schema, &mut causes);
    check(path, schema, &mut causes);
    value_validation::check_specified(path, schema, (path, schema), &mut causes);
    if causes.is_empty() {
        check_defaults(path, schema, true, &mut causes);
    }
    // Rules need types, which only a structural schema has.
    if causes.is_empty() {
        rule_validation::check(path, schema, &mut causes);
    }
    causes
}

/// Validates the schema of `metadata`, which may only constrain names.
fn check_metadata(path: &str, metadata: &Value, causes: &mut Vec<StatusCause>) {
    let is_plain = metadata
        .as_object()
        .is_some_and(|fields| fields.keys().all(|name| matches!(name.as_str(), "type" | "description" | "properties")));
    let properties = metadata.get("properties").and_then(Value::as_object);
    let only_names =
        properties.is_none_or(|fields| fields.keys().all(|name| matches!(name.as_str(), "name" | "generateName")));
    if !is_plain || !only_names {
        let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        causes.push(StatusCause::forbidden(path, why));
    }
}

fn check(path: &str, schema: &Value, causes: &mut Vec<StatusCause>) {
    let ty = tree::text(schema, &["type"]);
    if !ty.is_empty() && !TYPES.contains(&ty) {
        causes.push(StatusCause::not_supported(format!("{path}.type"), format!("{ty:?}"), &TYPES));
    }
    if let Some(Err(why)) = schema.get("pattern").and_then(Value::as_str).map(Pattern::new) {
        let why = format!("must be a valid regular expression, but isn't: {why}");
        let pattern = display(schema.get("pattern").unwrap_or(&Value::Null));
        causes.push(StatusCause::invalid(format!("{path}.pattern"), pattern, &why));
    }
    if tree::is_true(schema, &["uniqueItems"]) {
        let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        causes.push(StatusCause::forbidden(format!("{path}.uniqueItems"), why));
    }
    if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let field = format!("{path}.x-kubernetes-preserve-unknown-fields");
        causes.push(StatusCause::invalid(field, "false", "must be true or undefined"));
    }
    unsupported::check(path, schema, causes);
    check_value_extensions(path, schema, ty, causes);
    check_map_type(path, schema, ty, causes);
    check_list_type(path, schema, ty, causes);
    check_children(path, schema, ty, causes);
    value_validation::check(path, schema, causes);
}

/// Checks `x-kubernetes-embedded-resource` and `x-kubernetes-int-or-string`.
fn check_value_extensions(path: &str, schema: &Value, ty: &str, causes: &mut Vec<StatusCause>) {
    if tree::is_true(schema, &["x-kubernetes-embedded-resource"]) {
        match ty {
            "object" => {}
            "" => causes.push(StatusCause::required(
                format!("{path}.type"),
                "must be object if x-kubernetes-embedded-resource is true",
            )),
            other => causes.push(StatusCause::invalid(
                format!("{path}.type"),
                format!("{other:?}"),
                "must be object if x-kubernetes-embedded-resource is true",
            )),
        }
        if !tree::is_true(schema, &["x-kubernetes-preserve-unknown-fields"]) && schema.get("properties").is_none() {
            let why = "must not be empty if x-kubernetes-embedded-resource is true without \
                       x-kubernetes-preserve-unknown-fields";
            causes.push(StatusCause::required(format!("{path}.properties"), why));
        }
        if schema.get("additionalProperties").is_some() {
            let why = "must not be used if x-kubernetes-embedded-resource is set";
            causes.push(StatusCause::forbidden(format!("{path}.additionalProperties"), why));
        }
    }
    if !tree::is_true(schema, &["x-kubernetes-int-or-string"]) {
        return;
    }
    for other in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
        if tree::is_true(schema, &[other]) {
            let why = "must be false if x-kubernetes-int-or-string is true";
            causes.push(StatusCause::invalid(format!("{path}.{other}"), "true", why));
        }
    }
}

fn check_map_type(path: &str, schema: &Value, ty: &str, causes: &mut Vec<StatusCause>) {
    const FIELD: &str = "x-kubernetes-map-type";
    let Some(map_type) = schema.get(FIELD).and_then(Value::as_str) else { return };
    let supported = ["atomic", "granular"];
    if !supported.contains(&map_type) {
        causes.push(StatusCause::not_supported(format!("{path}.{FIELD}"), format!("{map_type:?}"), &supported));
    }
    if ty != "object" {
        let why = format!("must be object if {FIELD} is specified");
        causes.push(StatusCause::invalid(format!("{path}.type"), format!("{ty:?}"), &why));
    }
}

fn check_list_type(path: &str, schema: &Value, ty: &str, causes: &mut Vec<StatusCause>) {
    const FIELD: &str = "x-kubernetes-list-type";
    const KEYS: &str = "x-kubernetes-list-map-keys";
    let keys = tree::items(schema, &[KEYS]);
    let list_type = tree::text(schema, &[FIELD]);
    if schema.get(FIELD).is_some() {
        let supported = ["atomic", "set", "map"];
        if !supported.contains(&list_type) {
            causes.push(StatusCause::not_supported(format!("{path}.{FIELD}"), format!("{list_type:?}"), &supported));
        }
        if ty != "array" {
            let why = format!("must be array if {FIELD} is specified");
            causes.push(StatusCause::invalid(format!("{path}.type"), format!("{ty:?}"), &why));
        }
    }
    if matches!(list_type, "map" | "set") && tree::is_true(schema, &["items", "nullable"]) {
        let why = format!("cannot be nullable when {FIELD} is {list_type}");
        causes.push(StatusCause::forbidden(format!("{path}.items.nullable"), &why));
    }
    if list_type == "set" {
        check_set_items(path, schema.get("items").unwrap_or(&Value::Null), causes);
    }
    if list_type != "map" {
        let (field, why) = (format!("{path}.{FIELD}"), format!("must be map if {KEYS} is non-empty"));
        match (keys.is_empty(), schema.get(FIELD)) {
            (true, _) => {}
            (false, None) => causes.push(StatusCause::required(field, &why)),
            (false, Some(_)) => causes.push(StatusCause::invalid(field, format!("{list_type:?}"), &why)),
        }
        return;
    }
    if keys.is_empty() {
        let why = format!("must not be empty if {FIELD} is map");
        causes.push(StatusCause::required(format!("{path}.{KEYS}"), &why));
    }
    match tree::text(schema, &["items", "type"]) {
        "object" => {}
        ty => {
            let why = format!("must be object if parent array's {FIELD} is map");
            return causes.push(StatusCause::invalid(format!("{path}.items.type"), format!("{ty:?}"), &why));
        }
    }
    let mut seen = HashSet::new();
    let before = causes.len();
    for key in keys {
        // Each cause shows all keys, so their number is limited.
        if causes.len() - before >= MAX_KEY_CAUSES {
            return;
        }
        let name = key.as_str().unwrap_or_default();
        let all = || Value::from(keys.to_vec());
        match tree::get(schema, &["items", "properties", name]).map(|part| tree::text(part, &["type"])) {
            None => {
                let why = "entries must all be names of item properties";
                causes.push(StatusCause::invalid(format!("{path}.{KEYS}"), all(), why));
            }
            Some("array" | "object") => {
                let why = format!("must be a scalar type if parent array's {FIELD} is map");
                let field = format!("{path}.items.properties[{name}].type");
                causes.push(StatusCause::invalid(field, "\"object\"", &why));
            }
            Some(_) => {}
        }
        if !seen.insert(key.to_string()) {
            causes.push(StatusCause::invalid(format!("{path}.{KEYS}"), all(), "must not contain duplicate entries"));
        }
        check_list_key(path, schema, name, causes);
    }
}

/// Items of a set are compared as a whole, so they have to be atomic.
fn check_set_items(path: &str, items: &Value, causes: &mut Vec<StatusCause>) {
    let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let field = match tree::text(items, &["type"]) {
        "array" if !matches!(tree::text(items, &["x-kubernetes-list-type"]), "" | "atomic") => "x-kubernetes-list-type",
        "object" if tree::text(items, &["x-kubernetes-map-type"]) != "atomic" => "x-kubernetes-map-type",
        _ => return,
    };
    let found = display(items.get(field).unwrap_or(&Value::Null));
    causes.push(StatusCause::invalid(format!("{path}.items.{field}"), found, why));
}

/// Every item needs a value for each key.
fn check_list_key(path: &str, schema: &Value, name: &str, causes: &mut Vec<StatusCause>) {
    const BECAUSE: &str = "this property is in x-kubernetes-list-map-keys, so it";
    let Some(property) = tree::get(schema, &["items", "properties", name]) else { return };
    let is_required = tree::items(schema, &["items", "required"]).iter().any(|one| one.as_str() == Some(name));
    let field = |field: &str| format!("{path}.items.properties[{name}].{field}");
    if !is_required && property.get("default").is_none() {
        let why = format!("{BECAUSE} must have a default or be a required property");
        causes.push(StatusCause::required(field("default"), &why));
    }
    if tree::is_true(property, &["nullable"]) {
        causes.push(StatusCause::forbidden(field("nullable"), &format!("{BECAUSE} cannot be nullable")));
    }
}

fn check_children(path: &str, schema: &Value, ty: &str, causes: &mut Vec<StatusCause>) {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, part) in properties.into_iter().flat_map(|properties| properties.iter()) {
        check_child(
            &format!("{path}.properties[{name}]"),
            part,
            "must not be empty for specified object fields",
            causes,
        );
    }
    let field = format!("{path}.additionalProperties");
    match schema.get("additionalProperties") {
        // `true` does not specify the values.
        Some(Value::Bool(true)) | None => {}
        Some(_) if properties.is_some_and(|properties| !properties.is_empty()) => {
            causes.push(StatusCause::forbidden(field, "additionalProperties and properties are mutual exclusive"));
        }
        Some(part @ Value::Object(_)) => {
            check_child(&field, part, "must not be empty for specified object fields", causes);
        }
        _ => {}
    }
    match schema.get("items") {
        Some(part @ Value::Object(_)) => {
            check_child(&format!("{path}.items"), part, "must not be empty for specified array items", causes);
        }
        Some(Value::Array(_)) => {
            let why = "items must be a schema object and not an array";
            causes.push(StatusCause::forbidden(format!("{path}.items"), why));
        }
        _ if ty == "array" => causes.push(StatusCause::required(format!("{path}.items"), "must be specified")),
        _ => {}
    }
}

fn check_child(path: &str, part: &Value, why: &str, causes: &mut Vec<StatusCause>) {
    require_type(path, part, why, causes);
    check(path, part, causes);
}

/// Checks that a schema has a type, unless one of its extensions allows any. An embedded resource
/// without a type has a cause of its own.
fn require_type(path: &str, schema: &Value, why: &str, causes: &mut Vec<StatusCause>) {
    let extensions =
        ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-int-or-string", "x-kubernetes-embedded-resource"];
    let is_open = extensions.iter().any(|extension| tree::is_true(schema, &[extension]));
    if tree::text(schema, &["type"]).is_empty() && !is_open {
        causes.push(StatusCause::required(format!("{path}.type"), why));
    }
}

/// Defaults have to be valid without further defaulting, and without unknown fields.
fn check_defaults(path: &str, schema: &Value, is_root: bool, causes: &mut Vec<StatusCause>) {
    if let Some(default) = schema.get("default").filter(|default| !default.is_null()) {
        let (field, mut parsed) = (format!("{path}.default"), Schema::parse(schema));
        parsed.embedded_resource |= is_root;
        if parsed.has_unknown_default(default) {
            causes.push(StatusCause::invalid(&*field, display(default), "must not have unknown fields"));
        }
        causes.extend(parsed.validate_default(&field, default));
    }
    if let Some(items) = schema.get("items") {
        check_defaults(&format!("{path}.items"), items, false, causes);
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, part) in properties.into_iter().flat_map(|properties| properties.iter()) {
        let here = format!("{path}.properties[{name}]");
        if is_root && is_object_field(name) {
            forbid_defaults(&here, part, name, causes);
        } else {
            check_defaults(&here, part, false, causes);
        }
    }
}

/// `apiVersion`, `kind` and `metadata` must not have defaults.
fn forbid_defaults(path: &str, schema: &Value, top: &str, causes: &mut Vec<StatusCause>) {
    if schema.get("default").is_some_and(|default| !default.is_null()) {
        let why = format!("must not be set in top-level {top}");
        causes.push(StatusCause::forbidden(format!("{path}.default"), &why));
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, part) in properties.into_iter().flat_map(|properties| properties.iter()) {
        forbid_defaults(&format!("{path}.properties[{name}]"), part, top, causes);
    }
}

#[cfg(test)]
mod tests;
