//! Bodies of requests into trees: JSON, YAML and protobuf, checked against the type that the path asks for.
//!
//! A built-in object goes through its type, which drops what it does not know and leaves out what Go leaves out; what
//! it dropped are the findings. A custom object goes through its schema in the same way.

mod absent;
mod delete_options;

use hyper::HeaderMap;
use hyper::header::CONTENT_TYPE;
use kubewright_core::json::{Reader, Writer};
use kubewright_core::meta::v1::{ObjectMeta, Status, StatusCause};
use kubewright_core::options::FieldValidation;
use kubewright_core::protobuf::Envelope;
use kubewright_core::scheme::TypeEntry;
use kubewright_core::{DecodeError, Decoder, Finding, GroupKind, Str, Value, yaml};

pub(crate) use delete_options::{delete_options, from_value as delete_options_of};

use crate::accept::Format;
use crate::catalog::{self, Resource, Subresource};
use crate::object::{Meta, to_json};
use crate::rejection::Rejection;
use crate::schema::Schema;

/// What a body has to be.
#[derive(Clone, Copy)]
pub(crate) struct Expected<'a> {
    pub(crate) api_version: &'a str,
    pub(crate) kind: &'a str,
    /// The type, unless the object is a custom one.
    pub(crate) entry: Option<&'static TypeEntry>,
    /// What a custom object looks like.
    pub(crate) schema: Option<&'a Schema>,
}

impl<'a> From<&'a Resource> for Expected<'a> {
    fn from(resource: &'a Resource) -> Self {
        let schema = resource.custom.as_ref().map(|custom| &*custom.schema);
        Expected { api_version: &resource.api_version, kind: &resource.kind, entry: resource.entry, schema }
    }
}

impl<'a> From<&'a Subresource> for Expected<'a> {
    fn from(subresource: &'a Subresource) -> Self {
        let Subresource { api_version, kind, .. } = subresource;
        Expected { api_version, kind, entry: catalog::type_entry(api_version, kind), schema: None }
    }
}

/// An object, and what strict validation says of its text.
pub(crate) struct Decoded {
    pub(crate) value: Value,
    /// Complaints such as `unknown field "spec.foo"`.
    pub(crate) findings: Vec<String>,
}

/// The format of a body.
pub(crate) fn format_of(headers: &HeaderMap) -> Result<Format, Rejection> {
    let header = headers.get(CONTENT_TYPE).map(|value| value.to_str().unwrap_or("unreadable"));
    Format::of_body(header).ok_or_else(unsupported_format)
}

fn unsupported_format() -> Rejection {
    Status::unsupported_media_type(&Format::ALL.map(Format::media_type)).into()
}

/// Decodes the object in a body.
pub(crate) fn object(expected: Expected<'_>, format: Format, body: &[u8]) -> Result<Decoded, Rejection> {
    match format {
        Format::Json => from_json(expected, body),
        Format::Yaml => {
            let text = std::str::from_utf8(body).map_err(|_| unrecognized(expected, "yaml: invalid UTF-8", body))?;
            let document = yaml::parse(text).map_err(|error| unrecognized(expected, &error.to_string(), body))?;
            let mut decoded = from_json(expected, &to_json(&document.value))?;
            decoded.findings.splice(0..0, document.duplicates);
            Ok(decoded)
        }
        Format::Protobuf => from_protobuf(expected, body),
    }
}

/// Passes a tree through the type that it should have, as if it had come in a body.
pub(crate) fn normalize(expected: Expected<'_>, value: &Value) -> Result<Decoded, Rejection> {
    from_json(expected, &to_json(value))
}

/// Refuses an object for its findings, or turns them into warnings, as the request wants it.
pub(crate) fn check_findings(
    expected: Expected<'_>,
    findings: Vec<String>,
    validation: Option<FieldValidation>,
) -> Result<Vec<String>, Rejection> {
    match validation.unwrap_or(FieldValidation::Warn) {
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Warn => Ok(findings),
        FieldValidation::Strict if findings.is_empty() => Ok(findings),
        FieldValidation::Strict => {
            let why = format!("strict decoding error: {}", findings.join(", "));
            Err(cannot_be_handled(expected.kind, expected.api_version, expected, &why))
        }
    }
}

fn from_json(expected: Expected<'_>, json: &[u8]) -> Result<Decoded, Rejection> {
    let found = type_of(json).map_err(|error| {
        let problem = format!("couldn't get version/kind; json parse error: {}", in_go_words(&error));
        unrecognized(expected, &problem, json)
    })?;
    let Some(entry) = expected.entry else { return custom_from_json(expected, &found, json) };
    check_type(expected, &found)?;
    let mut message = (entry.new)();
    let mut decoder = Decoder::new().report_findings();
    decoder
        .json_into(&mut *message, json)
        .map_err(|error| cannot_be_handled(expected.kind, expected.api_version, expected, &error.to_string()))?;
    let mut canonical = Vec::with_capacity(json.len());
    Writer::new(&mut canonical).as_server().object(&*message);
    let mut value = Value::from_json(&canonical).map_err(|error| Rejection::from(Status::internal(error)))?;
    absent::restore(entry.info, json, &mut value);
    absent::restore_reset(json, &mut value);
    Ok(Decoded { value, findings: complaints(decoder.take_findings()) })
}

fn from_protobuf(expected: Expected<'_>, body: &[u8]) -> Result<Decoded, Rejection> {
    let envelope = Envelope::decode(body).map_err(|error| unrecognized(expected, &error.to_string(), body))?;
    let Some(entry) = expected.entry else { return Err(unsupported_format()) };
    if envelope.content_type == "application/json" {
        return from_json(expected, envelope.raw);
    }
    check_type(expected, &Found { api_version: envelope.api_version, kind: envelope.kind })?;
    let mut message = (entry.new)();
    Decoder::new()
        .protobuf_message_into(&mut *message, envelope.raw)
        .map_err(|error| cannot_be_handled(expected.kind, expected.api_version, expected, &error.to_string()))?;
    let mut canonical = Vec::with_capacity(body.len() * 2);
    Writer::new(&mut canonical).as_server().object(&*message);
    let value = Value::from_json(&canonical).map_err(|error| Rejection::from(Status::internal(error)))?;
    Ok(Decoded { value, findings: Vec::new() })
}

fn custom_from_json(expected: Expected<'_>, found: &Found, json: &[u8]) -> Result<Decoded, Rejection> {
    let text = String::from_utf8_lossy(json);
    if found.kind.is_empty() {
        return Err(unrecognized(expected, &format!("Object 'Kind' is missing in '{text}'"), json));
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
        Reader::new(json, &mut decoder).tree().map_err(|error| unrecognized(expected, &error.to_string(), json))?;
    if found.kind != expected.kind {
        let (group, _) = expected.api_version.split_once('/').unwrap_or_default();
        let why =
            StatusCause::invalid("kind", format!("{:?}", found.kind.as_str()), &format!("must be {}", expected.kind));
        return Err(Status::invalid(&GroupKind::new(group, found.kind.clone()), value.name(), [why]).into());
    }
    let mut findings = decoder.take_findings();
    if let Some(metadata) = value.as_object_mut().and_then(|object| object.get_mut("metadata")) {
        let mut decoder = Decoder::new().report_findings();
        let mut meta = ObjectMeta::default();
        decoder
            .json_into(&mut meta, &to_json(metadata))
            .map_err(|error| Status::bad_request(format!("{}", error.within_field("metadata"))))?;
        let mut canonical = Vec::new();
        Writer::new(&mut canonical).as_server().message(&meta);
        *metadata = Value::from_json(&canonical).map_err(|error| Rejection::from(Status::internal(error)))?;
        findings.extend(decoder.take_findings().into_iter().map(|finding| match finding {
            Finding::UnknownField(path) => Finding::UnknownField(format!("metadata.{path}")),
            Finding::DuplicateField(path) => Finding::DuplicateField(format!("metadata.{path}")),
        }));
    }
    if let Some(schema) = expected.schema {
        findings.extend(schema.complete(&mut value).into_iter().map(Finding::UnknownField));
    }
    absent::restore_reset(json, &mut value);
    Ok(Decoded { value, findings: complaints(findings) })
}

fn complaints(findings: Vec<Finding>) -> Vec<String> {
    let in_words = |finding| match finding {
        Finding::UnknownField(path) => format!("unknown field {path:?}"),
        Finding::DuplicateField(path) => format!("duplicate field {path:?}"),
    };
    findings.into_iter().map(in_words).collect()
}

/// What a body says of itself.
struct Found {
    api_version: Str,
    kind: Str,
}

/// Looks through the top of an object for what it is.
fn type_of(json: &[u8]) -> Result<Found, DecodeError> {
    let mut found = Found { api_version: Str::new(), kind: Str::new() };
    let mut decoder = Decoder::new();
    let mut reader = Reader::new(json, &mut decoder);
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
    if reader.peek() == 0 { Ok(found) } else { Err(DecodeError::new("invalid character after top-level value")) }
}

fn check_type(expected: Expected<'_>, found: &Found) -> Result<(), Rejection> {
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

/// The type that all versions of a kind become in the real server.
fn internal_type(api_version: &str, kind: &str) -> String {
    let group = api_version.split_once('/').map_or("core", |(group, _)| group.split('.').next().unwrap_or_default());
    format!("{group}.{kind}")
}

/// 400: the body is an object, but not one that can be taken here.
fn cannot_be_handled(kind: &str, api_version: &str, expected: Expected<'_>, why: &str) -> Rejection {
    let version = api_version.rsplit('/').next().unwrap_or_default();
    let message = format!("{kind} in version {version:?} cannot be handled as a {}: {why}", expected.kind);
    Status::bad_request(message).into()
}

/// 400: the body is no object at all.
fn unrecognized(expected: Expected<'_>, why: &str, body: &[u8]) -> Rejection {
    let excerpt = match body {
        [] => "<empty>".into(),
        body => String::from_utf8_lossy(&body[..body.len().min(1024)]),
    };
    let message = format!("the object provided is unrecognized (must be of type {}): {why} ({excerpt})", expected.kind);
    Status::bad_request(message).into()
}

/// What is wrong with text that is no JSON.
pub(crate) fn in_go_words(error: &DecodeError) -> String {
    if error.is_truncated() { "unexpected end of JSON input".into() } else { error.to_string() }
}
