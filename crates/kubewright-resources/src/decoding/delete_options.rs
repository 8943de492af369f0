//! Decodes delete options from the body or the query.

use kubewright_core::json::Writer;
use kubewright_core::meta::v1::Status;
use kubewright_core::options::{DeleteOptions, QueryParameters};
use kubewright_core::protobuf::Envelope;
use kubewright_core::{Decoder, Str, Value, tree};
use kubewright_yaml as yaml;

use crate::accept::Format;

/// The delete options of the body, or those of the query if there is no body.
pub fn delete_options(query: &QueryParameters, format: Format, body: &[u8]) -> Result<DeleteOptions, Box<Status>> {
    if body.is_empty() {
        return DeleteOptions::from_query(query);
    }
    let bad = |error: String| Box::new(Status::bad_request(error));
    let value = match format {
        Format::Json => {
            let unreadable = |why: String| bad(format!("couldn't get version/kind; json parse error: {why}"));
            super::type_of(body).map_err(|error| unreadable(super::messages::type_meta_message(&error)))?;
            Value::from_json(body).map_err(|error| unreadable(super::messages::syntax(&error)))?
        }
        Format::Yaml => {
            let text = std::str::from_utf8(body).map_err(|error| bad(error.to_string()))?;
            yaml::parse(text).map_err(|error| bad(error.to_string()))?.value
        }
        Format::Protobuf => from_protobuf(body).map_err(bad)?,
    };
    from_value(&value)
}

/// Parses and validates delete options.
pub fn from_value(value: &Value) -> Result<DeleteOptions, Box<Status>> {
    let (kind, api_version) = (tree::text(value, &["kind"]), tree::text(value, &["apiVersion"]));
    if !matches!(kind, "" | "DeleteOptions") {
        let scheme = "pkg/apis/meta/internalversion/scheme/register.go:27";
        let message = format!("no kind {kind:?} is registered for version {api_version:?} in scheme {scheme:?}");
        return Err(Status::bad_request(message).into());
    }
    if let Some(seconds @ (Value::String(_) | Value::Array(_) | Value::Object(_) | Value::Bool(_))) =
        value.get("gracePeriodSeconds")
    {
        let found = super::messages::go_kind(seconds.kind());
        let field = "DeleteOptions.gracePeriodSeconds of type int64";
        return Err(Status::bad_request(format!("json: cannot unmarshal {found} into Go struct field {field}")).into());
    }
    // The rules are those of the query, so encode the body as a query.
    let mut words = String::new();
    for field in ["gracePeriodSeconds", "orphanDependents", "propagationPolicy"] {
        match value.get(field) {
            Some(Value::String(text)) => words += &format!("&{field}={text}"),
            Some(Value::Null) | None => {}
            Some(other) => words += &format!("&{field}={other}"),
        }
    }
    for dry_run in tree::items(value, &["dryRun"]).iter().filter_map(Value::as_str) {
        words += &format!("&dryRun={dry_run}");
    }
    let mut options = DeleteOptions::from_query(&QueryParameters::parse(&words))?;
    let precondition = |field: &str| tree::get(value, &["preconditions", field]).and_then(Value::as_str).map(Str::from);
    options.preconditions.uid = precondition("uid");
    options.preconditions.resource_version = precondition("resourceVersion");
    Ok(options)
}

fn from_protobuf(body: &[u8]) -> Result<Value, String> {
    let envelope = Envelope::decode(body).map_err(|error| error.to_string())?;
    let mut message = kubewright_core::meta::v1::DeleteOptions::default();
    Decoder::new().protobuf_message_into(&mut message, envelope.raw).map_err(|error| error.to_string())?;
    let mut json = Vec::new();
    Writer::new(&mut json).message(&message);
    let mut value = Value::from_json(&json).map_err(|error| error.to_string())?;
    tree::set(&mut value, &["kind"], envelope.kind);
    Ok(value)
}
