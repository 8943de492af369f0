//! Error messages of decoding, equal to those of Go's decoders.

use kubewright_core::json::Reader;
use kubewright_core::scheme::{Type, TypeInfo};
use kubewright_core::{DecodeError, Decoder, Value};

/// How Go prints the type that reads `apiVersion` and `kind`.
const TYPE_META: &str =
    r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;

/// The message for invalid JSON syntax.
pub fn syntax(error: &DecodeError) -> String {
    if error.is_truncated() {
        return "unexpected end of JSON input".into();
    }
    let message = error.message();
    let found = message.split_once("found `").and_then(|(wanted, rest)| Some((wanted, rest.chars().next()?)));
    let Some((wanted, found)) = found else { return error.to_string() };
    let place = match wanted.trim_start_matches("expected ").trim_end_matches(", ") {
        "a value" => "looking for beginning of value",
        "a key in quotes" => "looking for beginning of object key string",
        "`:`" => "after object key",
        "`,` or `}`" => "after object key:value pair",
        "`,` or `]`" => "after array element",
        _ => return error.to_string(),
    };
    format!("invalid character {found:?} {place}")
}

/// The message for an invalid `apiVersion` or `kind`.
pub(super) fn type_meta_message(error: &DecodeError) -> String {
    let Some(found) = error.message().split_once(", found ").map(|(_, found)| go_kind(found)) else {
        return syntax(error);
    };
    match (error.segments().next(), error.message().starts_with("expected object")) {
        (None, true) => format!("json: cannot unmarshal {found} into Go value of type {TYPE_META}"),
        (Some(Some(field)), _) => {
            format!("json: cannot unmarshal {found} into Go struct field .{field} of type string")
        }
        _ => syntax(error),
    }
}

/// The message for text that does not match a type.
pub(super) fn object_message(info: &'static TypeInfo, json: &[u8], error: &DecodeError) -> String {
    failed_field(info, json, error).and_then(|field| field.decoding_message(error)).unwrap_or_else(|| error.to_string())
}

/// The message for a tree that does not match a type, as in a strategic merge patch.
pub(super) fn conversion_message(info: &'static TypeInfo, json: &[u8], error: &DecodeError) -> String {
    failed_field(info, json, error)
        .and_then(|field| field.conversion_message(error))
        .unwrap_or_else(|| error.to_string())
}

/// Where decoding failed.
struct FailedField {
    /// The field's type and the value found.
    ty: Type,
    found: Value,
    /// Go's name of the field: its structure and path, or `value`.
    into: String,
}

fn failed_field(info: &'static TypeInfo, json: &[u8], error: &DecodeError) -> Option<FailedField> {
    let mut decoder = Decoder::new().report_findings();
    let object = Reader::new(json, &mut decoder).tree().ok()?;
    let mut fields: Vec<&str> = Vec::new();
    let (mut holder, mut ty, mut place) = (info, Type::Message(info), Some(&object));
    let mut indexes = indexes(error).into_iter();
    for segment in error.segments() {
        (ty, place) = match (ty, segment) {
            (Type::Message(inner), Some(name)) => {
                let field = inner.fields.iter().find(|field| field.name == name)?;
                holder = inner;
                fields.push(field.name);
                (field.ty, place.and_then(|field| field.get(name)))
            }
            (Type::Map(inner), Some(key)) => (*inner, place.and_then(|field| field.get(key))),
            (Type::List(inner), None) => {
                let index = indexes.next()?;
                (*inner, place.and_then(|field| field.as_array()?.get(index)))
            }
            _ => return None,
        };
    }
    let into = if fields.is_empty() {
        "value".to_owned()
    } else {
        format!("struct field {}.{}", short(holder), fields.join("."))
    };
    Some(FailedField { ty, found: place.cloned().unwrap_or_default(), into })
}

impl FailedField {
    /// The message for decoding from text.
    fn decoding_message(&self, error: &DecodeError) -> Option<String> {
        let kind = go_kind(self.found.kind());
        let misfit =
            |found: &str, ty: &str| format!("json: cannot unmarshal {found} into Go {} of type {ty}", self.into);
        Some(match (self.ty, &self.found) {
            (Type::Time | Type::MicroTime, Value::String(text)) => unreadable_time(self.ty, text),
            (Type::Time | Type::MicroTime, _) => misfit(kind, "string"),
            (Type::IntOrString, _) => misfit(kind, "int32"),
            (Type::Quantity, Value::Array(_) | Value::Object(_) | Value::Bool(_)) => QUANTITY.to_owned(),
            // In Go, these types decode themselves and do not know their path.
            (Type::Quantity, _) | (Type::Bytes, Value::String(_)) => error.message().to_owned(),
            (Type::Bytes, Value::Array(items)) => {
                let is_byte = |item: &&Value| matches!(item, Value::Null | Value::Int(0..=255));
                let found = items.iter().find(|item| !is_byte(item))?;
                let number = matches!(found, Value::Int(_) | Value::Float(_)).then(|| format!("number {found}"));
                misfit(number.as_deref().unwrap_or(go_kind(found.kind())), "uint8")
            }
            (Type::Raw | Type::SchemaOrArray | Type::SchemaOrBool | Type::SchemaOrStrings, _) => return None,
            (Type::Int32 | Type::Int64, Value::Int(_) | Value::Float(_)) => {
                misfit(&format!("number {}", self.found), &go_type(self.ty))
            }
            (Type::Message(_), Value::Object(_)) => return None,
            (ty, _) => misfit(kind, &go_type(ty)),
        })
    }

    /// The message for converting a tree.
    fn conversion_message(&self, error: &DecodeError) -> Option<String> {
        let kind = tree_kind(&self.found);
        Some(match (self.ty, &self.found) {
            (Type::Time | Type::MicroTime | Type::IntOrString, _) => {
                FailedField { into: "value".into(), found: self.found.clone(), ty: self.ty }.decoding_message(error)?
            }
            (Type::Quantity, _) => return self.decoding_message(error),
            (Type::Bytes, Value::String(_)) => format!("error decoding from json: {}", error.message()),
            (Type::Bytes | Type::List(_), _) => format!("cannot restore slice from {kind}"),
            (Type::Map(_), _) => format!("cannot restore map from {kind}"),
            (Type::Message(_), Value::Object(_)) => return None,
            (Type::Message(_), _) => format!("cannot restore struct from: {kind}"),
            // Go can convert some of these, but not in this code path.
            (Type::String, Value::Int(_)) => "cannot convert int64 to string".to_owned(),
            (Type::Int32 | Type::Int64, Value::Int(_) | Value::Float(_)) => {
                format!("cannot convert {kind} to {}", go_type(self.ty))
            }
            (Type::Bool | Type::Int32 | Type::Int64 | Type::Double | Type::String, _) => {
                format!("unrecognized type: {}", go_type(self.ty))
            }
            _ => return None,
        })
    }
}

/// Formats a tree like Go's `%v`, in which messages show strategic merge patches.
pub fn go_format(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::String(text) => text.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Array(list) => format!("[{}]", list.iter().map(go_format).collect::<Vec<_>>().join(" ")),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, field)| format!("{name}:{}", go_format(field)));
            format!("map[{}]", fields.collect::<Vec<_>>().join(" "))
        }
        other => other.to_string(),
    }
}

/// The message for an invalid quantity.
const QUANTITY: &str = r"quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// The list indexes in the path of an error.
fn indexes(error: &DecodeError) -> Vec<usize> {
    let path = error.path();
    let numbers = path.split('[').skip(1).filter_map(|rest| rest.split(']').next()?.parse().ok());
    numbers.collect()
}

fn unreadable_time(ty: Type, text: &str) -> String {
    let layout = match ty {
        Type::Time => "2006-01-02T15:04:05Z07:00",
        _ => "2006-01-02T15:04:05.000000Z07:00",
    };
    let (rest, part) = split_invalid_time(text);
    format!("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {part:?}")
}

/// The rest of an invalid time and the layout part that Go expected there.
fn split_invalid_time(text: &str) -> (&str, &'static str) {
    const PARTS: [(&str, usize); 11] = [
        ("2006", 4),
        ("-", 1),
        ("01", 2),
        ("-", 1),
        ("02", 2),
        ("T", 1),
        ("15", 2),
        (":", 1),
        ("04", 2),
        (":", 1),
        ("05", 2),
    ];
    let mut rest = text;
    for (part, length) in PARTS {
        let fits = match part {
            "-" | "T" | ":" => rest.starts_with(part),
            _ => rest.len() >= length && rest.bytes().take(length).all(|byte| byte.is_ascii_digit()),
        };
        if !fits {
            return (rest, part);
        }
        rest = &rest[length..];
    }
    (rest, "Z07:00")
}

/// Go's name of a JSON kind.
pub(super) fn go_kind(kind: &str) -> &str {
    if kind == "boolean" { "bool" } else { kind }
}

/// Go's kind of a value in a tree.
fn tree_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::Float(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}

/// The Go type of a field. Named string types appear as `string` here.
fn go_type(ty: Type) -> String {
    match ty {
        Type::Bool => "bool".into(),
        Type::Int32 => "int32".into(),
        Type::Int64 => "int64".into(),
        Type::Double => "float64".into(),
        Type::Bytes => "[]uint8".into(),
        Type::Quantity => "resource.Quantity".into(),
        Type::Message(info) => {
            let mut parts = info.name.rsplit('.');
            let (name, version) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            format!("{version}.{name}")
        }
        Type::List(inner) => format!("[]{}", go_type(*inner)),
        Type::Map(inner) => format!("map[string]{}", go_type(*inner)),
        _ => "string".into(),
    }
}

/// A type name without its package.
fn short(info: &TypeInfo) -> &'static str {
    info.name.rsplit('.').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog;

    #[test]
    fn decoding_errors_equal_those_of_go() {
        for (api_version, kind, json, want) in [
            (
                "v1",
                "ConfigMap",
                r#"{"data":{"a.b":1}}"#,
                "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
            ),
            (
                "v1",
                "ConfigMap",
                r#"{"data":"x"}"#,
                "json: cannot unmarshal string into Go struct field ConfigMap.data of type map[string]string",
            ),
            (
                "v1",
                "ConfigMap",
                r#"{"metadata":[]}"#,
                "json: cannot unmarshal array into Go struct field ConfigMap.metadata of type v1.ObjectMeta",
            ),
            (
                "v1",
                "ConfigMap",
                r#"{"metadata":{"name":true}}"#,
                "json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.name of type string",
            ),
            ("v1", "ConfigMap", r#"{"binaryData":{"a":"x"}}"#, "illegal base64 data at input byte 0"),
            (
                "v1",
                "ConfigMap",
                r#"{"binaryData":{"a":[1,null,256]}}"#,
                "json: cannot unmarshal number 256 into Go struct field ConfigMap.binaryData of type uint8",
            ),
            (
                "v1",
                "ConfigMap",
                r#"{"binaryData":{"a":["x"]}}"#,
                "json: cannot unmarshal string into Go struct field ConfigMap.binaryData of type uint8",
            ),
            (
                "apps/v1",
                "Deployment",
                r#"{"spec":{"replicas":"x"}}"#,
                "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
            ),
            (
                "apps/v1",
                "Deployment",
                r#"{"spec":{"replicas":1.5}}"#,
                "json: cannot unmarshal number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32",
            ),
            (
                "v1",
                "Pod",
                r#"{"spec":{"containers":[{},{"env":[{"name":"a","value":1}]}]}}"#,
                "json: cannot unmarshal number into Go struct field EnvVar.spec.containers.env.value of type string",
            ),
            (
                "v1",
                "Pod",
                r#"{"spec":{"containers":{"name":"a"}}}"#,
                "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
            ),
            ("v1", "Pod", r#"{"spec":{"containers":[{"resources":{"limits":{"cpu":"1 m"}}}]}}"#, QUANTITY),
            ("v1", "Pod", r#"{"spec":{"containers":[{"resources":{"limits":{"cpu":[]}}}]}}"#, QUANTITY),
            (
                "v1",
                "Service",
                r#"{"spec":{"ports":[{"targetPort":true}]}}"#,
                "json: cannot unmarshal bool into Go struct field ServicePort.spec.ports.targetPort of type int32",
            ),
            (
                "v1",
                "Pod",
                r#"{"metadata":{"creationTimestamp":"2024-01-x"}}"#,
                r#"parsing time "2024-01-x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "02""#,
            ),
        ] {
            let entry = catalog::type_entry(api_version, kind).expect("a known type");
            let error = Decoder::new().json_into(&mut *(entry.new)(), json.as_bytes()).expect_err(json);
            assert_eq!(object_message(entry.info, json.as_bytes(), &error), want, "{json}");
        }
    }

    #[test]
    fn bytes_may_be_an_array_of_numbers() {
        let (mut decoder, mut map) = (Decoder::new(), kubewright_api::core::v1::ConfigMap::default());
        decoder.json_into(&mut map, br#"{"binaryData":{"a":[104, 105,null],"b":[],"c":"aGk="}}"#).unwrap();
        let bytes = |key: &str| map.binary_data.get(key).map(|bytes| bytes.to_vec());
        assert_eq!((bytes("a"), bytes("b"), bytes("c")), (Some(b"hi\0".to_vec()), Some(vec![]), Some(b"hi".to_vec())));
    }

    #[test]
    fn conversion_errors_equal_those_of_go() {
        for (json, want) in [
            (r#"{"data":{"x":5}}"#, "cannot convert int64 to string"),
            (r#"{"data":{"x":true}}"#, "unrecognized type: string"),
            (r#"{"data":["a"]}"#, "cannot restore map from slice"),
            (r#"{"metadata":"x"}"#, "cannot restore struct from: string"),
            (r#"{"metadata":{"finalizers":"x"}}"#, "cannot restore slice from string"),
            (r#"{"metadata":{"generation":1.5}}"#, "cannot convert float64 to int64"),
            (r#"{"metadata":{"generation":"x"}}"#, "unrecognized type: int64"),
            (r#"{"binaryData":{"x":"!"}}"#, "error decoding from json: illegal base64 data at input byte 0"),
        ] {
            let entry = catalog::type_entry("v1", "ConfigMap").expect("a known type");
            let error = Decoder::new().json_into(&mut *(entry.new)(), json.as_bytes()).expect_err(json);
            assert_eq!(conversion_message(entry.info, json.as_bytes(), &error), want, "{json}");
        }
        let patch: Value = r#"{"b":[1,"x y",null],"a":{"c":1.5,"d":true}}"#.parse().expect("valid JSON");
        assert_eq!(go_format(&patch), "map[a:map[c:1.5 d:true] b:[1 x y <nil>]]");
    }
}
