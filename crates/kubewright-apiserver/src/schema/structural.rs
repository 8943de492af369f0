//! What a schema has to be so that the server can tell at each place what belongs there.
//!
//! Every value has a type, outside of `allOf`, `anyOf`, `oneOf` and `not`; those only say more about values.

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;

use super::alternatives;
use super::pattern::Pattern;
use super::rule_checks;
use super::unsupported;
use super::validation::shown;
use super::{Schema, is_object_field};
use crate::object::tree;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// What is wrong with the schema at `path` of a definition.
pub(crate) fn complaints(path: &str, schema: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    match tree::text(schema, &["type"]) {
        "" => causes.push(StatusCause::required(format!("{path}.type"), "must not be empty at the root")),
        "object" => {}
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
    alternatives::check_known(path, schema, (path, schema), &mut causes);
    if causes.is_empty() {
        check_defaults(path, schema, true, &mut causes);
    }
    // Rules need types, which only a proper schema has.
    if causes.is_empty() {
        rule_checks::complaints(path, schema, &mut causes);
    }
    causes
}

/// Metadata is the same for all objects; a schema may only ask for certain names.
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
        let shown = shown(schema.get("pattern").unwrap_or(&Value::Null));
        causes.push(StatusCause::invalid(format!("{path}.pattern"), shown, &why));
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
    check_kinds(path, schema, ty, causes);
    check_map_type(path, schema, ty, causes);
    check_list_type(path, schema, ty, causes);
    check_parts(path, schema, ty, causes);
    alternatives::check(path, schema, causes);
}

/// Checks the extensions that say what kind of value is meant.
fn check_kinds(path: &str, schema: &Value, ty: &str, causes: &mut Vec<StatusCause>) {
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
    for (index, key) in keys.iter().enumerate() {
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
        if keys[..index].contains(key) {
            causes.push(StatusCause::invalid(format!("{path}.{KEYS}"), all(), "must not contain duplicate entries"));
        }
        check_list_key(path, schema, name, causes);
    }
}

/// Items of a set are the same one or not, as a whole.
fn check_set_items(path: &str, items: &Value, causes: &mut Vec<StatusCause>) {
    let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let field = match tree::text(items, &["type"]) {
        "array" if !matches!(tree::text(items, &["x-kubernetes-list-type"]), "" | "atomic") => "x-kubernetes-list-type",
        "object" if tree::text(items, &["x-kubernetes-map-type"]) != "atomic" => "x-kubernetes-map-type",
        _ => return,
    };
    let shown = shown(items.get(field).unwrap_or(&Value::Null));
    causes.push(StatusCause::invalid(format!("{path}.items.{field}"), shown, why));
}

/// Every item has to have what it is told from others by.
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

fn check_parts(path: &str, schema: &Value, ty: &str, causes: &mut Vec<StatusCause>) {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, part) in properties.into_iter().flat_map(|properties| properties.iter()) {
        check_part(
            &format!("{path}.properties[{name}]"),
            part,
            "must not be empty for specified object fields",
            causes,
        );
    }
    let field = format!("{path}.additionalProperties");
    match schema.get("additionalProperties") {
        // Neither says more than that other fields are not known.
        Some(Value::Bool(true)) | None => {}
        Some(_) if properties.is_some_and(|properties| !properties.is_empty()) => {
            causes.push(StatusCause::forbidden(field, "additionalProperties and properties are mutual exclusive"));
        }
        Some(part @ Value::Object(_)) => {
            check_part(&field, part, "must not be empty for specified object fields", causes);
        }
        _ => {}
    }
    match schema.get("items") {
        Some(part @ Value::Object(_)) => {
            check_part(&format!("{path}.items"), part, "must not be empty for specified array items", causes);
        }
        Some(Value::Array(_)) => {
            let why = "items must be a schema object and not an array";
            causes.push(StatusCause::forbidden(format!("{path}.items"), why));
        }
        _ if ty == "array" => causes.push(StatusCause::required(format!("{path}.items"), "must be specified")),
        _ => {}
    }
}

fn check_part(path: &str, part: &Value, why: &str, causes: &mut Vec<StatusCause>) {
    let is_open = tree::is_true(part, &["x-kubernetes-preserve-unknown-fields"])
        || tree::is_true(part, &["x-kubernetes-int-or-string"]);
    if tree::text(part, &["type"]).is_empty() && !is_open {
        causes.push(StatusCause::required(format!("{path}.type"), why));
    }
    check(path, part, causes);
}

/// Defaults have to be what their schemas allow, as they stand, and nothing that would be dropped again.
fn check_defaults(path: &str, schema: &Value, is_root: bool, causes: &mut Vec<StatusCause>) {
    if let Some(default) = schema.get("default").filter(|default| !default.is_null()) {
        let (field, mut read) = (format!("{path}.default"), Schema::read(schema));
        read.embedded_resource |= is_root;
        if read.has_unknown_default(default) {
            causes.push(StatusCause::invalid(&*field, shown(default), "must not have unknown fields"));
        }
        causes.extend(read.complaints_about_default(&field, default));
    }
    if let Some(items) = schema.get("items") {
        check_defaults(&format!("{path}.items"), items, false, causes);
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, part) in properties.into_iter().flat_map(|properties| properties.iter()) {
        let here = format!("{path}.properties[{name}]");
        match is_root && is_object_field(name) {
            true => forbid_defaults(&here, part, name, causes),
            false => check_defaults(&here, part, false, causes),
        }
    }
}

/// What all objects have is given by those who make them, or by the server.
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
mod tests {
    use super::*;

    #[test]
    fn what_generators_write_is_structural() {
        let schema = r#"{"type":"object","description":"d","required":["spec"],"properties":{
            "apiVersion":{"type":"string"},"kind":{"type":"string"},"metadata":{"type":"object"},
            "spec":{"type":"object","properties":{
                "limits":{"type":"object","additionalProperties":{"anyOf":[{"type":"integer"},{"type":"string"}],
                    "x-kubernetes-int-or-string":true,
                    "pattern":"^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE])?$"}},
                "protocol":{"type":"string","default":"TCP","enum":["TCP","UDP"]},
                "replicas":{"type":"integer","format":"int32","default":1,"minimum":0},
                "template":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
                "selector":{"type":"object","x-kubernetes-map-type":"atomic","properties":{
                    "matchLabels":{"type":"object","additionalProperties":{"type":"string"}}}},
                "source":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},
                    "oneOf":[{"required":["a"]},{"required":["b"]}],"not":{"required":["a","b"]}}}},
            "status":{"type":"object","properties":{"conditions":{"type":"array","x-kubernetes-list-type":"map",
                "x-kubernetes-list-map-keys":["type"],"items":{"type":"object","required":["type"],"properties":{
                    "type":{"type":"string","maxLength":316},"message":{"type":"string"},
                    "lastTransitionTime":{"type":"string","format":"date-time"}}}}}}}}"#;
        let schema: Value = schema.parse().expect("valid JSON");
        assert_eq!(complaints("s", &schema), []);
        let object = r#"{"spec":{"limits":{"cpu":"100m","pods":3},"source":{"a":"x"},"replicas":2}}"#;
        assert_eq!(Schema::read(&schema).complaints(&object.parse().expect("valid JSON"), None), []);
    }

    #[test]
    fn violations_are_named_with_their_place() {
        for (schema, want) in [
            (r#"{"type":"object","properties":{"a":{"type":"string","default":"x"}}}"#, ""),
            (r#"{}"#, "s.type: Required value: must not be empty at the root"),
            (
                r#"{"type":"object","properties":{"a":{}}}"#,
                "s.properties[a].type: Required value: must not be empty for specified object fields",
            ),
            (
                r#"{"type":"object","properties":{"a":{"type":"array"}}}"#,
                "s.properties[a].items: Required value: must be specified",
            ),
            // What has two types has none where it is a default.
            (r#"{"type":"object","properties":{"a":{"x-kubernetes-int-or-string":true,"default":1.5}}}"#, ""),
            (
                r#"{"type":"object","properties":{"a":{"type":"integer","default":1.5}}}"#,
                r#"s.properties[a].default: Invalid value: "number":  in body must be of type integer: "number"; s.properties[a].default: Invalid value: "": Checked value must be of type integer (default format) in "#,
            ),
            (
                r#"{"type":"object","properties":{"a":{"type":"integer","default":"x"}}}"#,
                r#"s.properties[a].default: Invalid value: "string":  in body must be of type integer: "string""#,
            ),
            (
                r#"{"type":"object","properties":{"a":{"type":"string"}},"anyOf":[{"properties":{"b":{}}}]}"#,
                "s.properties[b]: Required value: because it is defined in s.anyOf[0].properties[b]",
            ),
            (
                r#"{"type":"object","properties":{"a":{"type":"string","anyOf":[{"type":"string"}]}}}"#,
                "s.properties[a].anyOf[0].type: Forbidden: must be empty to be structural",
            ),
            (
                r#"{"type":"object","properties":{"a":{"x-kubernetes-int-or-string":true,
                    "anyOf":[{"type":"integer"},{"type":"string"}]}}}"#,
                "",
            ),
            (
                r#"{"type":"object","properties":{"a":{"type":"array","items":{"type":"object"},
                    "x-kubernetes-list-type":"map"}}}"#,
                "s.properties[a].x-kubernetes-list-map-keys: Required value: \
                 must not be empty if x-kubernetes-list-type is map",
            ),
            (
                r#"{"type":"object","properties":{"a":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],
                    "items":{"type":"object","nullable":true,"properties":{"k":{"type":"string","nullable":true}}}}}}"#,
                "s.properties[a].items.nullable: Forbidden: cannot be nullable when x-kubernetes-list-type is map; \
                 s.properties[a].items.properties[k].default: Required value: \
                 this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property; \
                 s.properties[a].items.properties[k].nullable: Forbidden: \
                 this property is in x-kubernetes-list-map-keys, so it cannot be nullable",
            ),
            (
                r#"{"type":"object","properties":{"a":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"object"}}}}"#,
                "s.properties[a].items.x-kubernetes-map-type: Invalid value: null: \
                 must be atomic as item of a list with x-kubernetes-list-type=set",
            ),
            (
                r#"{"type":"object","additionalProperties":{"type":"string"}}"#,
                "s.additionalProperties: Forbidden: must not be used at the root",
            ),
            (
                r#"{"type":"object","properties":{"a":{"x-kubernetes-int-or-string":true,"x-kubernetes-preserve-unknown-fields":true}}}"#,
                "s.properties[a].x-kubernetes-preserve-unknown-fields: Invalid value: true: \
                 must be false if x-kubernetes-int-or-string is true",
            ),
            (
                r#"{"type":"object","properties":{"metadata":{"type":"object"},"a":{"type":"string"}},
                    "anyOf":[{"properties":{"metadata":{},"a":{"x-kubernetes-validations":[{"rule":"true"}]}}}]}"#,
                "s.anyOf[0].properties[a].x-kubernetes-validations: Forbidden: must be empty to be structural; \
                 s.anyOf[0].properties[metadata]: Forbidden: must not be specified in a nested context",
            ),
            (
                r#"{"type":"object","properties":{"a":{"x-kubernetes-int-or-string":true,"anyOf":[{"type":"string"},{"type":"integer"}]}}}"#,
                "s.properties[a].anyOf[0].type: Forbidden: must be empty to be structural; \
                 s.properties[a].anyOf[1].type: Forbidden: must be empty to be structural",
            ),
            (
                r#"{"type":"object","properties":{"a":{"type":"object","allOf":[{"nullable":true}],"not":{"default":1}}}}"#,
                "s.properties[a].allOf[0].nullable: Forbidden: must be false to be structural; \
                 s.properties[a].not.default: Forbidden: must be undefined to be structural",
            ),
            // Only at the root has everything to be known outside.
            (
                r#"{"type":"object","properties":{"a":{"type":"object","anyOf":[{"properties":{"b":{"minLength":1}}}]}}}"#,
                "",
            ),
            (
                r#"{"type":"object","anyOf":[{"properties":{"b":{"minLength":1}}}]}"#,
                "s.properties[b]: Required value: because it is defined in s.anyOf[0].properties[b]",
            ),
            // A default is taken as it stands, and rules are asked about it.
            (
                r#"{"type":"object","properties":{"a":{"type":"object","default":{},"required":["b"],
                    "properties":{"b":{"type":"string","default":"c"}}}}}"#,
                "s.properties[a].default.b: Required value",
            ),
            (
                r#"{"type":"object","properties":{"a":{"type":"string","default":"b",
                    "x-kubernetes-validations":[{"rule":"self == oldSelf"},{"rule":"self != 'b'"}]}}}"#,
                "s.properties[a].default: Invalid value: \"b\": failed rule: self != 'b'",
            ),
            (
                r#"{"type":"object","properties":{"kind":{"type":"string","default":"K"},
                    "metadata":{"type":"object","properties":{"name":{"type":"string","default":"n"}}}}}"#,
                "s.properties[kind].default: Forbidden: must not be set in top-level kind; \
                 s.properties[metadata].properties[name].default: Forbidden: must not be set in top-level metadata",
            ),
        ] {
            let causes = complaints("s", &schema.parse().expect("valid JSON"));
            let text = |cause: StatusCause| {
                format!("{}: {}", cause.field.unwrap_or_default(), cause.message.unwrap_or_default())
            };
            assert_eq!(causes.into_iter().map(text).collect::<Vec<_>>().join("; "), want, "{schema}");
        }
    }
}
