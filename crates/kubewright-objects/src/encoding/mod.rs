//! Encodes objects, lists and errors.
//!
//! JSON copies the stored text. All other forms start from the parsed tree.

mod frame;
mod frame_cache;
mod list;
mod protobuf;
mod wanted;

use bytes::Bytes;
use kubewright_core::json::Writer;
use kubewright_core::meta::v1::Status;
use kubewright_core::{StatusReason, Value};
use kubewright_yaml as yaml;

pub use frame::{FrameType, Frames};
pub use frame_cache::SharedFrames;
pub use list::{ListBody, ListEncoder, ListMeta, list};
pub use wanted::Wanted;

use crate::conversion;
use crate::object::{Meta, StoredObject, to_json, tree, write_head};
use crate::rejection::Rejection;
use kubewright_printers::{Include, RowOptions, partial_object_metadata};
use kubewright_resources::accept::{Form, Format};
use kubewright_resources::catalog::Resource;

/// Encodes one object.
pub fn object(wanted: Wanted, resource: &Resource, object: &StoredObject) -> Result<Bytes, Rejection> {
    match (wanted.form, wanted.format) {
        (Form::Object, Format::Json) if !wanted.pretty => Ok(json(resource, object)),
        (Form::Object, Format::Protobuf) => Ok(protobuf::stored(resource, object)?.into()),
        (Form::Object | Form::AggregatedDiscovery, _) => self::tree(wanted, &served(resource, &object.tree())),
        (Form::Metadata(version), _) => self::tree(wanted, &partial_object_metadata(&object.tree(), version)),
        (Form::MetadataList(_), _) => Err(wrong_shape(resource, "PartialObjectMetadataList", "not a list", "")),
        (Form::Table(version), _) => {
            let value = printed(resource, &object.tree());
            let metadata = value.get("metadata").cloned().unwrap_or_default();
            let columns = Some(resource.printer.columns());
            self::tree(wanted, &table(resource, &metadata, [&value], columns, &wanted.rows(version)))
        }
    }
}

/// Encodes a tree that is a complete object.
pub fn tree(wanted: Wanted, value: &Value) -> Result<Bytes, Rejection> {
    Ok(match wanted.format {
        Format::Json if wanted.pretty => {
            let mut out = String::new();
            write_pretty(value, 0, &mut out);
            out.into()
        }
        Format::Json => to_json(value).into(),
        Format::Yaml => {
            let mut out = String::new();
            yaml::write(value, &mut out);
            out.into()
        }
        Format::Protobuf => protobuf::object(value)?.into(),
    })
}

/// Encodes a Status. Its JSON has the field order of the real server, because some clients expect
/// `kind` first.
pub fn status(wanted: Wanted, status: &Status) -> Bytes {
    if wanted.format == Format::Json && !wanted.pretty {
        return status_json(status).into();
    }
    let value = status_tree(status);
    tree(wanted.as_object(), &value).unwrap_or_else(|_| to_json(&value).into())
}

/// A Status as a tree.
pub fn status_tree(status: &Status) -> Value {
    Value::from_json(&status_json(status)).unwrap_or_default()
}

fn status_json(status: &Status) -> Vec<u8> {
    let mut json = Vec::new();
    Writer::new(&mut json).as_server().object(status);
    json
}

/// The JSON of a stored object in the requested version.
pub fn json(resource: &Resource, object: &StoredObject) -> Bytes {
    let view = resource.custom.as_ref().and_then(|custom| custom.view(&object.tree()));
    if let Some(view) = view {
        return to_json(&served(resource, &view)).into();
    }
    if object.api_version() == &*resource.api_version {
        return object.bytes();
    }
    if resource.is_custom() {
        let mut out = Vec::with_capacity(object.json().len() + 16);
        write_head(&resource.api_version, &resource.kind, &mut out);
        out.extend_from_slice(object.json_after_kind());
        return out.into();
    }
    to_json(&served(resource, &object.tree())).into()
}

/// An object in the requested version.
pub fn served(resource: &Resource, value: &Value) -> Value {
    conversion::to_version(resource, value.clone())
}

/// An object as printers read it.
///
/// Printers of built-in kinds read the stored version, because some versions lack fields that
/// tables show.
pub fn printed(resource: &Resource, value: &Value) -> Value {
    if resource.is_custom() { served(resource, value) } else { value.clone() }
}

/// A table of [`printed`] objects. Objects in its rows are converted to the requested version.
pub fn table<'v>(
    resource: &Resource,
    metadata: &Value,
    objects: impl IntoIterator<Item = &'v Value>,
    columns: Option<Value>,
    options: &RowOptions,
) -> Value {
    let mut table = resource.printer.table(metadata, objects, columns, options);
    tree::items_mut(&mut table, "rows").iter_mut().for_each(|row| convert_row(resource, row, options));
    table
}

/// The table row of a [`printed`] object.
fn row(resource: &Resource, object: &Value, options: &RowOptions) -> Value {
    let mut row = resource.printer.row(object, options);
    convert_row(resource, &mut row, options);
    row
}

/// Converts the object in a row to the requested version.
fn convert_row(resource: &Resource, row: &mut Value, options: &RowOptions) {
    if options.include == Include::Object
        && !resource.is_custom()
        && let Some(object) = tree::field_mut(row, "object")
    {
        *object = conversion::to_version(resource, std::mem::take(object));
    }
}

fn wrong_shape(resource: &Resource, asked: &str, is: &str, suffix: &str) -> Rejection {
    let group = if resource.group.is_empty() { "core" } else { resource.group.split('.').next().unwrap_or_default() };
    let message =
        format!("you requested {asked}, but the requested object is {is} (*{group}.{}{suffix})", resource.kind);
    Status::failure(StatusReason::NotAcceptable, message).into()
}

fn write_pretty(value: &Value, indent: usize, out: &mut String) {
    let pad = |out: &mut String, indent: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', indent));
    };
    match value {
        Value::Array(items) if !items.is_empty() => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                pad(out, indent + 2);
                write_pretty(item, indent + 2, out);
            }
            pad(out, indent);
            out.push(']');
        }
        Value::Object(entries) if !entries.is_empty() => {
            out.push('{');
            for (index, (key, entry)) in entries.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                pad(out, indent + 2);
                out.push_str(&Value::from(key.clone()).to_string());
                out.push_str(": ");
                write_pretty(entry, indent + 2, out);
            }
            pad(out, indent);
            out.push('}');
        }
        other => out.push_str(&other.to_string()),
    }
}

/// The object of a bookmark: its kind and a revision.
pub fn bookmark(resource: &Resource, revision: u64, ends_initial_events: bool) -> Value {
    let mut value = resource.empty.clone();
    value.set_meta("resourceVersion", revision.to_string());
    if ends_initial_events {
        value.set_meta("annotations", tree::map([("k8s.io/initial-events-end", "true".into())]));
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_is_the_first_field_of_a_status() {
        let refusal = Status::from_code(404, "get", &Default::default(), "web", "no");
        let json = status(Wanted::JSON, &refusal);
        assert!(
            json.starts_with(br#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure""#),
            "{json:?}"
        );
        assert_eq!(Value::from_json(&json).unwrap(), status_tree(&refusal));
    }
}
