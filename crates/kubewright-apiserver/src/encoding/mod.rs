//! Objects, lists and errors into the bytes of an answer.
//!
//! JSON of stored objects is copied, never made again. All other forms start from the tree.

mod accept;
mod frame;
mod protobuf;
mod table;
pub(crate) mod yaml;

use bytes::Bytes;
use kubewright_core::json::Writer;
use kubewright_core::meta::v1::Status;
use kubewright_core::{Map, StatusReason, Str, Value};

pub(crate) use accept::{Format, Offer, Shape};
pub(crate) use frame::{Frames, Kind};

use crate::catalog::Resource;
use crate::conversion;
use crate::decoding::MediaType;
use crate::object::{Meta, StoredObject, to_json, tree, write_head};
use crate::rejection::Rejection;

/// What a list says of itself.
#[derive(Debug, Default, Clone)]
pub(crate) struct ListMeta {
    pub(crate) revision: u64,
    pub(crate) continue_token: Option<Str>,
    pub(crate) remaining: Option<usize>,
}

/// One object.
pub(crate) fn object(format: Format, resource: &Resource, object: &StoredObject) -> Result<Bytes, Rejection> {
    match (format.shape, format.media_type) {
        (Shape::Object, MediaType::Json) if !format.pretty => Ok(json(resource, object)),
        (Shape::Object, _) => self::tree(format, &served(resource, &object.value)),
        (Shape::Metadata, _) => self::tree(format, &metadata(&object.value)),
        (Shape::MetadataList, _) => Err(wrong_shape(resource, "PartialObjectMetadataList", "not a list", "")),
        (Shape::Table, _) => self::tree(format, &table::of_objects(resource, &[&object.value], None)?),
    }
}

/// Any tree that is an object by itself.
pub(crate) fn tree(format: Format, value: &Value) -> Result<Bytes, Rejection> {
    Ok(match format.media_type {
        MediaType::Json if format.pretty => {
            let mut out = String::new();
            write_pretty(value, 0, &mut out);
            out.push('\n');
            out.into()
        }
        MediaType::Json => to_json(value).into(),
        MediaType::Yaml => {
            let mut out = String::new();
            yaml::write(value, &mut out);
            out.into()
        }
        MediaType::Protobuf => protobuf::object(value)?.into(),
    })
}

/// A status object.
pub(crate) fn status(format: Format, status: &Status) -> Bytes {
    let value = status_tree(status);
    tree(Format { shape: Shape::Object, ..format }, &value).unwrap_or_else(|_| to_json(&value).into())
}

/// A status object as a tree.
pub(crate) fn status_tree(status: &Status) -> Value {
    let mut json = Vec::new();
    Writer::new(&mut json).as_server().object(status);
    Value::from_json(&json).unwrap_or_default()
}

/// A list of objects.
pub(crate) fn list<'a>(
    format: Format,
    resource: &Resource,
    meta: &ListMeta,
    objects: impl ExactSizeIterator<Item = &'a StoredObject>,
) -> Result<Bytes, Rejection> {
    match (format.shape, format.media_type) {
        (Shape::Object, MediaType::Json) if !format.pretty => Ok(json_list(resource, meta, objects)),
        (Shape::Object, MediaType::Protobuf) => protobuf::list(resource, meta, objects),
        (Shape::Object, _) => {
            let mut list = Value::from_json(&json_list(resource, meta, objects)).unwrap_or_default();
            // Go leaves a list of nothing empty, and so do we.
            tree::default(&mut list, "items", Value::Array([].into()));
            self::tree(format, &list)
        }
        (Shape::MetadataList, MediaType::Protobuf) => Ok(protobuf::metadata_list(meta, objects)),
        (Shape::MetadataList, _) => {
            let items: Vec<Value> = objects.map(|object| metadata(&object.value)).collect();
            let fields = [
                ("kind", Value::from("PartialObjectMetadataList")),
                ("apiVersion", Value::from("meta.k8s.io/v1")),
                ("metadata", list_metadata(resource, meta)),
                ("items", Value::from(items)),
            ];
            self::tree(format, &tree::map(fields))
        }
        (Shape::Metadata, _) => Err(wrong_shape(resource, "PartialObjectMetadata", "a list", "List")),
        (Shape::Table, _) => {
            let values: Vec<&Value> = objects.map(|object| &object.value).collect();
            self::tree(format, &table::of_objects(resource, &values, Some(list_metadata(resource, meta)))?)
        }
    }
}

/// The JSON of a stored object in the version that was asked for.
pub(crate) fn json(resource: &Resource, object: &StoredObject) -> Bytes {
    if object.value.get("apiVersion").and_then(Value::as_str) == Some(&resource.api_version) {
        return object.json().clone();
    }
    if resource.is_custom() {
        let mut out = Vec::with_capacity(object.json().len() + 16);
        write_head(&resource.api_version, &resource.kind, &mut out);
        out.extend_from_slice(object.json_after_kind());
        return out.into();
    }
    to_json(&served(resource, &object.value)).into()
}

/// An object in the version that was asked for.
pub(crate) fn served(resource: &Resource, value: &Value) -> Value {
    conversion::to_version(resource, value.clone())
}

/// The metadata of an object, as an object of its own.
pub(crate) fn metadata(value: &Value) -> Value {
    let metadata = value.get("metadata").cloned().unwrap_or_default();
    tree::map([
        ("kind", Value::from("PartialObjectMetadata")),
        ("apiVersion", Value::from("meta.k8s.io/v1")),
        ("metadata", metadata),
    ])
}

fn json_list<'a>(
    resource: &Resource,
    meta: &ListMeta,
    objects: impl ExactSizeIterator<Item = &'a StoredObject>,
) -> Bytes {
    let mut out = Vec::with_capacity(256 + objects.len() * 512);
    write_head(&resource.api_version, &resource.list_kind, &mut out);
    out.extend_from_slice(br#","metadata":"#);
    list_metadata(resource, meta).encode_json(&mut Writer::new(&mut out));
    out.extend_from_slice(br#","items":["#);
    for (index, object) in objects.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        let is_stored_version = object.value.get("apiVersion").and_then(Value::as_str) == Some(&resource.api_version);
        if resource.is_custom() || !is_stored_version {
            // Custom objects carry their kind in lists too.
            let mut value = json(resource, object);
            if !resource.is_custom() {
                let mut bare = served(resource, &object.value);
                tree::remove(&mut bare, &["kind"]);
                tree::remove(&mut bare, &["apiVersion"]);
                value = to_json(&bare).into();
            }
            out.extend_from_slice(&value);
        } else {
            let (brace, rest) = object.json_without_kind();
            out.extend_from_slice(brace);
            out.extend_from_slice(rest);
        }
    }
    out.extend_from_slice(b"]}");
    out.into()
}

fn list_metadata(resource: &Resource, meta: &ListMeta) -> Value {
    let mut fields = Map::new();
    fields.insert("resourceVersion", Value::from(meta.revision.to_string()));
    match &meta.continue_token {
        Some(token) => drop(fields.insert("continue", token.clone().into())),
        None if resource.is_custom() => drop(fields.insert("continue", "".into())),
        None => {}
    }
    if let Some(remaining) = meta.remaining {
        fields.insert("remainingItemCount", Value::Int(remaining as i64));
    }
    Value::Object(fields)
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

/// What a bookmark shows of an object: its kind and a revision.
pub(crate) fn bookmark(resource: &Resource, revision: u64, ends_initial_events: bool) -> Value {
    let mut value = resource.empty.clone();
    value.set_meta("resourceVersion", revision.to_string());
    if ends_initial_events {
        value.set_meta("annotations", tree::map([("k8s.io/initial-events-end", "true".into())]));
    }
    value
}
