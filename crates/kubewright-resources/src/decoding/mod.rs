//! Decodes request bodies in JSON, YAML and protobuf, and checks their type.
//!
//! A built-in object is decoded into its typed form, which drops unknown fields and omits what Go
//! omits. The dropped fields become findings. A custom object is decoded by its schema in the same
//! way.

mod delete_options;
mod messages;
mod missing_objects;
mod unicode;

use std::collections::HashSet;

use kubewright_core::json::{Reader, Writer};
use kubewright_core::message::TypeEntry;
use kubewright_core::meta::v1::{OBJECT_META, ObjectMeta, Status, StatusCause};
use kubewright_core::options::FieldValidation;
use kubewright_core::protobuf::Envelope;
use kubewright_core::tree::{Meta, to_json};
use kubewright_core::{DecodeError, Decoder, Finding, GroupKind, MAX_FINDINGS, Str, Value};
use kubewright_schema::Schema;
use kubewright_yaml as yaml;

pub use delete_options::{delete_options, from_value as delete_options_of};
pub use messages::{go_format, syntax as syntax_message};
pub use unicode::repaired;

use crate::accept::Format;
use crate::catalog::{self, Resource, Subresource};

/// The expected type of a body.
#[derive(Clone, Copy)]
pub struct ExpectedType<'a> {
    /// The `apiVersion`.
    pub api_version: &'a str,
    /// The kind.
    pub kind: &'a str,
    /// The built-in type. `None` for a custom resource.
    pub entry: Option<&'static TypeEntry>,
    /// The schema of a custom resource.
    pub schema: Option<&'a Schema>,
    /// Whether insignificant `null` values are kept.
    pub keeps_null: bool,
}

impl<'a> From<&'a Resource> for ExpectedType<'a> {
    fn from(resource: &'a Resource) -> Self {
        let schema = resource.custom.as_ref().map(|custom| &*custom.schema);
        let (api_version, kind, entry) = (&*resource.api_version, &*resource.kind, resource.entry);
        ExpectedType { api_version, kind, entry, schema, keeps_null: false }
    }
}

impl<'a> From<&'a Subresource> for ExpectedType<'a> {
    fn from(subresource: &'a Subresource) -> Self {
        let Subresource { api_version, kind, .. } = subresource;
        let entry = catalog::type_entry(api_version, kind);
        ExpectedType { api_version, kind, entry, schema: None, keeps_null: false }
    }
}

/// A decoded object with the findings of strict validation.
pub struct DecodedObject {
    /// The object.
    pub value: Value,
    /// Messages such as `unknown field "spec.foo"`.
    pub findings: Vec<String>,
}

/// The format of a body with this `Content-Type`.
///
/// # Errors
///
/// 415 for an unknown format.
pub fn format_of(content_type: Option<&str>) -> Result<Format, Box<Status>> {
    Format::from_content_type(content_type).ok_or_else(unsupported_format)
}

fn unsupported_format() -> Box<Status> {
    Status::unsupported_media_type(&Format::ALL.map(Format::media_type)).into()
}

/// Decodes the object in a body.
pub fn object(expected: ExpectedType<'_>, format: Format, body: &[u8]) -> Result<DecodedObject, Box<Status>> {
    match format {
        Format::Json => from_json(expected, body, body).or_else(|refused| match repaired(body) {
            Some(repaired) => from_json(expected, &repaired, body),
            None => Err(refused),
        }),
        Format::Yaml => {
            let text = std::str::from_utf8(body).map_err(|_| unrecognized(expected, "yaml: invalid UTF-8", body))?;
            let document = yaml::parse(text).map_err(|error| unrecognized(expected, &error.to_string(), body))?;
            let mut decoded = from_json(expected, &to_json(&document.value), body)?;
            decoded.findings.splice(0..0, document.duplicates);
            Ok(decoded)
        }
        Format::Protobuf => from_protobuf(expected, body),
    }
}

/// Decodes a tree as if it were a request body.
pub fn normalize(expected: ExpectedType<'_>, value: &Value) -> Result<DecodedObject, Box<Status>> {
    let json = to_json(value);
    from_json(expected, &json, &json)
}

/// The message for a patched tree that does not match its type. `None` if that is not the problem.
pub fn type_error(expected: ExpectedType<'_>, value: &Value, is_strategic: bool) -> Option<String> {
    let json = match expected.entry {
        Some(_) => to_json(value),
        None => to_json(value.get("metadata")?),
    };
    let (info, error) = match expected.entry {
        Some(entry) => (entry.info, Decoder::new().report_findings().json_into(&mut *(entry.new)(), &json).err()?),
        None => match Decoder::new().report_findings().json_into(&mut ObjectMeta::default(), &json) {
            Err(error) => (&OBJECT_META, error),
            Ok(()) => return embedded_type_error(expected.schema?, value),
        },
    };
    Some(if is_strategic {
        messages::conversion_message(info, &json, &error)
    } else {
        messages::object_message(info, &json, &error)
    })
}

/// Applies the `fieldValidation` of the request: rejects the object, or returns warnings.
pub fn check_findings(
    expected: ExpectedType<'_>,
    findings: Vec<String>,
    validation: Option<FieldValidation>,
) -> Result<Vec<String>, Box<Status>> {
    match validation.unwrap_or(FieldValidation::Warn) {
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Warn => Ok(warnings(findings)),
        FieldValidation::Strict if findings.is_empty() => Ok(findings),
        FieldValidation::Strict => {
            let why = format!("strict decoding error: {}", findings.join(", "));
            Err(cannot_be_handled(expected.kind, expected.api_version, expected, &why))
        }
    }
}

/// Converts findings to warnings. YAML findings are several lines below a heading.
pub fn warnings(findings: Vec<String>) -> Vec<String> {
    let lines = |finding: String| match finding.strip_prefix("yaml: unmarshal errors:\n") {
        Some(lines) => lines.lines().map(|line| line.trim().to_owned()).collect(),
        None => vec![finding],
    };
    findings.into_iter().flat_map(lines).collect()
}

/// Decodes JSON. `body` is the original text, for messages.
fn from_json(expected: ExpectedType<'_>, json: &[u8], body: &[u8]) -> Result<DecodedObject, Box<Status>> {
    let found = type_of(json).map_err(|error| {
        let problem = format!("couldn't get version/kind; json parse error: {}", messages::type_meta_message(&error));
        unrecognized(expected, &problem, body)
    })?;
    let Some(entry) = expected.entry else { return custom_from_json(expected, &found, json, body) };
    // Go decodes `null` as an empty object.
    let json = if json.trim_ascii() == b"null" { b"{}" } else { json };
    check_type(expected, &found)?;
    let mut message = (entry.new)();
    let mut decoder = Decoder::new().report_findings();
    decoder.json_into(&mut *message, json).map_err(|error| {
        let why = messages::object_message(entry.info, json, &error);
        cannot_be_handled(expected.kind, expected.api_version, expected, &why)
    })?;
    let mut canonical = Vec::with_capacity(json.len());
    Writer::new(&mut canonical).as_server().object(&*message);
    let mut value = Value::from_json(&canonical).map_err(|error| Box::new(Status::internal(error)))?;
    missing_objects::restore(entry.info, json, &mut value);
    missing_objects::restore_reset(json, &mut value);
    Ok(DecodedObject { value, findings: finding_messages(decoder.take_findings()) })
}

fn from_protobuf(expected: ExpectedType<'_>, body: &[u8]) -> Result<DecodedObject, Box<Status>> {
    let envelope = Envelope::decode(body).map_err(|error| unrecognized(expected, &error.to_string(), body))?;
    let Some(entry) = expected.entry else { return Err(unsupported_format()) };
    if envelope.content_type == "application/json" {
        return from_json(expected, envelope.raw, body);
    }
    check_type(expected, &TypeMeta { api_version: envelope.api_version, kind: envelope.kind })?;
    let mut message = (entry.new)();
    Decoder::new()
        .protobuf_message_into(&mut *message, envelope.raw)
        .map_err(|error| cannot_be_handled(expected.kind, expected.api_version, expected, &error.to_string()))?;
    let mut canonical = Vec::with_capacity(body.len() * 2);
    Writer::new(&mut canonical).as_server().object(&*message);
    let value = Value::from_json(&canonical).map_err(|error| Box::new(Status::internal(error)))?;
    Ok(DecodedObject { value, findings: Vec::new() })
}

fn custom_from_json(
    expected: ExpectedType<'_>,
    found: &TypeMeta,
    json: &[u8],
    body: &[u8],
) -> Result<DecodedObject, Box<Status>> {
    let text = String::from_utf8_lossy(json);
    if found.kind.is_empty() {
        return Err(unrecognized(expected, &format!("Object 'Kind' is missing in '{text}'"), body));
    }
    if found.api_version != expected.api_version {
        let message = format!(
            "the API version in the data ({}) does not match the expected API version ({})",
            found.api_version, expected.api_version
        );
        return Err(Status::bad_request(message).into());
    }
    let mut decoder = Decoder::new().report_findings();
    let mut value =
        Reader::new(json, &mut decoder).tree().map_err(|error| unrecognized(expected, &error.to_string(), body))?;
    if found.kind != expected.kind {
        let (group, _) = expected.api_version.split_once('/').unwrap_or_default();
        let why =
            StatusCause::invalid("kind", format!("{:?}", found.kind.as_str()), &format!("must be {}", expected.kind));
        return Err(Status::invalid(&GroupKind::new(group, found.kind.clone()), value.name(), [why]).into());
    }
    let mut findings = decoder.take_findings();
    if let Some(object) = value.as_object_mut()
        && object.get("metadata").is_some_and(Value::is_null)
    {
        object.remove("metadata");
    }
    if let Some(metadata) = value.as_object_mut().and_then(|object| object.get_mut("metadata")) {
        let mut decoder = Decoder::new().report_findings();
        let mut meta = ObjectMeta::default();
        let text = to_json(metadata);
        decoder.json_into(&mut meta, &text).map_err(|error| {
            let why = messages::object_message(&OBJECT_META, &text, &error);
            cannot_be_handled(expected.kind, expected.api_version, expected, &why)
        })?;
        let mut canonical = Vec::new();
        Writer::new(&mut canonical).as_server().message(&meta);
        *metadata = Value::from_json(&canonical).map_err(|error| Box::new(Status::internal(error)))?;
        findings.extend(decoder.take_findings().into_iter().map(|finding| match finding {
            Finding::UnknownField(path) => Finding::UnknownField(format!("metadata.{path}")),
            Finding::DuplicateField(path) => Finding::DuplicateField(format!("metadata.{path}")),
        }));
    }
    if let Some(schema) = expected.schema {
        if let Some(why) = embedded_type_error(schema, &value) {
            return Err(cannot_be_handled(expected.kind, expected.api_version, expected, &why));
        }
        let dropped = if expected.keeps_null {
            schema.prune_and_default_applied(&mut value)
        } else {
            schema.prune_and_default(&mut value)
        };
        findings.extend(dropped.into_iter().map(Finding::UnknownField));
    }
    Ok(DecodedObject { value, findings: finding_messages(findings) })
}

/// Why an embedded object is invalid. Missing fields are reported later by validation.
fn embedded_type_error(schema: &Schema, object: &Value) -> Option<String> {
    for (path, object) in schema.embedded_resources(object) {
        let shown = |name: &str, value: &Value, why: &str| format!("{path}.{name}: Invalid value: {value}: {why}");
        for name in ["apiVersion", "kind"] {
            if let Some(value) = object.get(name).filter(|value| value.as_str().is_none()) {
                return Some(shown(name, value, "must be a string"));
            }
        }
        let Some(metadata) = object.get("metadata") else { continue };
        let text = to_json(metadata);
        if let Err(error) = Decoder::new().report_findings().json_into(&mut ObjectMeta::default(), &text) {
            return Some(shown("metadata", metadata, &messages::object_message(&OBJECT_META, &text, &error)));
        }
    }
    None
}

/// The messages of findings: unique, and limited like those of kube-apiserver.
pub fn finding_messages(findings: Vec<Finding>) -> Vec<String> {
    let message_of = |finding| match finding {
        Finding::UnknownField(path) => format!("unknown field {path:?}"),
        Finding::DuplicateField(path) => format!("duplicate field {path:?}"),
    };
    let mut seen = HashSet::new();
    let once = findings.into_iter().map(message_of).filter(|message| seen.insert(message.clone()));
    once.take(MAX_FINDINGS).collect()
}

/// The type that a body states.
struct TypeMeta {
    api_version: Str,
    kind: Str,
}

/// Reads `apiVersion` and `kind` at the top level of an object.
fn type_of(json: &[u8]) -> Result<TypeMeta, DecodeError> {
    let mut found = TypeMeta { api_version: Str::new(), kind: Str::new() };
    let mut decoder = Decoder::new();
    let mut reader = Reader::new(json, &mut decoder);
    if reader.null()? && reader.peek() == 0 {
        return Ok(found);
    }
    reader.entries(|reader, key| {
        let place = match key {
            b"apiVersion" => &mut found.api_version,
            b"kind" => &mut found.kind,
            _ => return reader.raw().map(|_| ()),
        };
        if !reader.null()? {
            *place = reader.text()?;
        }
        Ok(())
    })?;
    match reader.peek() {
        0 => Ok(found),
        other => Err(DecodeError::new(format!("invalid character {:?} after top-level value", char::from(other)))),
    }
}

fn check_type(expected: ExpectedType<'_>, found: &TypeMeta) -> Result<(), Box<Status>> {
    let api_version = if found.api_version.is_empty() { expected.api_version } else { &found.api_version };
    let kind = if found.kind.is_empty() { expected.kind } else { &found.kind };
    if (api_version, kind) == (expected.api_version, expected.kind) {
        return Ok(());
    }
    let why = match catalog::type_entry(api_version, kind) {
        Some(_) => format!(
            "converting ({}) to ({}): unknown conversion",
            go_type(api_version, kind),
            internal_type(expected.api_version, expected.kind)
        ),
        None => format!(
            "no kind {kind:?} is registered for version {api_version:?} in scheme \"pkg/api/legacyscheme/scheme.go:30\""
        ),
    };
    Err(cannot_be_handled(kind, api_version, expected, &why))
}

fn go_type(api_version: &str, kind: &str) -> String {
    format!("{}.{kind}", api_version.rsplit('/').next().unwrap_or_default())
}

/// The real server's internal type of a kind.
fn internal_type(api_version: &str, kind: &str) -> String {
    let group = api_version.split_once('/').map_or("core", |(group, _)| group.split('.').next().unwrap_or_default());
    format!("{group}.{kind}")
}

/// 400: the body is an object of a type that this path does not accept.
fn cannot_be_handled(kind: &str, api_version: &str, expected: ExpectedType<'_>, why: &str) -> Box<Status> {
    let version = api_version.rsplit('/').next().unwrap_or_default();
    let message = format!("{kind} in version {version:?} cannot be handled as a {}: {why}", expected.kind);
    Status::bad_request(message).into()
}

/// 400: the body is not an object.
fn unrecognized(expected: ExpectedType<'_>, why: &str, body: &[u8]) -> Box<Status> {
    const EXCERPT_MAX: usize = 30;
    let head = &body[..body.len().min(EXCERPT_MAX)];
    let mut excerpt = match body {
        [] => "<empty>".into(),
        [b'{', ..] => String::from_utf8_lossy(head).into_owned(),
        _ => head.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    if body.len() > EXCERPT_MAX {
        excerpt += " ...";
    }
    let message = format!("the object provided is unrecognized (must be of type {}): {why} ({excerpt})", expected.kind);
    Status::bad_request(message).into()
}
