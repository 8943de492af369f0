//! Encodes lists of objects.
//!
//! A large list in plain JSON (of objects, rows or metadata) is encoded while it is sent. Slow
//! clients then share the stored text of the objects instead of holding a copy each. Protobuf lists
//! are encoded as a whole, because their envelope starts with the length. YAML and indented JSON
//! are encoded as a whole, too.

use std::sync::Arc;
use std::vec::IntoIter;

use bytes::Bytes;
use kubewright_core::json::Writer;
use kubewright_core::{Map, Str, Value};

use super::{Wanted, json, printed, protobuf, row, served, wrong_shape};
use crate::object::{StoredObject, to_json, tree};
use crate::rejection::Rejection;
use kubewright_printers::{RowOptions, common_list_metadata, partial_object_metadata};
use kubewright_resources::accept::{Form, Format, MetaVersion};
use kubewright_resources::catalog::Resource;

/// Smaller lists are encoded as a whole.
const STREAMED: usize = 64 << 10;
/// The size at which a chunk is complete.
const CHUNK: usize = 32 << 10;

/// The metadata of a list.
#[derive(Debug, Default, Clone)]
pub(crate) struct ListMeta {
    pub(crate) revision: u64,
    pub(crate) continue_token: Option<Str>,
    pub(crate) remaining: Option<usize>,
}

/// An encoded list, or one that is encoded while it is sent.
pub(crate) enum ListBody {
    Whole(Bytes),
    Streamed(JsonList),
}

/// A list of objects.
pub(crate) fn list(
    wanted: Wanted,
    resource: &Arc<Resource>,
    meta: &ListMeta,
    objects: Vec<Arc<StoredObject>>,
) -> Result<ListBody, Rejection> {
    let stored = || objects.iter().map(|object| &**object);
    let items = match (wanted.form, wanted.format) {
        (Form::Object, Format::Protobuf) => {
            return Ok(ListBody::Whole(protobuf::list(resource, meta, stored())?));
        }
        (Form::MetadataList(_), Format::Protobuf) => {
            return Ok(ListBody::Whole(protobuf::metadata_list(meta, stored())?));
        }
        (Form::Metadata(_), _) => return Err(wrong_shape(resource, "PartialObjectMetadata", "a list", "List")),
        (Form::Object | Form::AggregatedDiscovery, _) => Items::Objects,
        (Form::MetadataList(version), _) => Items::Metadata(version),
        (Form::Table(version), _) => Items::Rows(wanted.rows(version)),
    };
    let list = JsonList::new(resource, meta, items, objects);
    let is_plain = wanted.format == Format::Json && !wanted.pretty;
    if is_plain && list.length() >= STREAMED {
        return Ok(ListBody::Streamed(list));
    }
    let json = list.whole();
    if is_plain {
        return Ok(ListBody::Whole(json));
    }
    Ok(ListBody::Whole(super::tree(wanted, &Value::from_json(&json).unwrap_or_default())?))
}

/// The form of the items.
enum Items {
    Objects,
    Metadata(MetaVersion),
    Rows(RowOptions),
}

/// A list in plain JSON, with a final newline, as an iterator of chunks.
pub(crate) struct JsonList {
    resource: Arc<Resource>,
    items: Items,
    objects: IntoIter<Arc<StoredObject>>,
    /// The beginning of the next chunk.
    out: Vec<u8>,
    needs_comma: bool,
    is_end: bool,
    length: usize,
}

impl JsonList {
    fn new(resource: &Arc<Resource>, meta: &ListMeta, items: Items, mut objects: Vec<Arc<StoredObject>>) -> Self {
        let length = objects.iter().map(|object| object.json().len()).sum();
        let mut out = Vec::with_capacity(CHUNK.min(length) + 256);
        let metadata = list_metadata(resource, meta);
        let mut write = |text: &str, value: &Value| {
            out.extend_from_slice(text.as_bytes());
            value.encode_json(&mut Writer::new(&mut out));
        };
        // Go leaves these lists unset when they are empty.
        let is_null = match &items {
            Items::Metadata(_) => objects.is_empty(),
            Items::Rows(_) => objects.is_empty() && resource.printer.writes_null_rows(),
            Items::Objects => false,
        };
        match &items {
            Items::Objects => {
                write(r#"{"kind":"#, &resource.list_kind.clone().into());
                write(r#","apiVersion":"#, &resource.api_version.clone().into());
                write(r#","metadata":"#, &metadata);
            }
            Items::Metadata(version) => {
                write(r#"{"kind":"PartialObjectMetadataList","apiVersion":"#, &version.api_version().into());
                write(r#","metadata":"#, &common_list_metadata(&metadata));
            }
            Items::Rows(options) => {
                resource.printer.sort(&mut objects, |object| object.tree());
                write(r#"{"kind":"Table","apiVersion":"#, &options.version.api_version().into());
                write(r#","metadata":"#, &common_list_metadata(&metadata));
                write(r#","columnDefinitions":"#, &resource.printer.columns());
            }
        }
        out.extend_from_slice(if matches!(items, Items::Rows(_)) { br#","rows":"# } else { br#","items":"# });
        out.extend_from_slice(if is_null { b"null}\n" } else { b"[" });
        let (resource, objects) = (Arc::clone(resource), objects.into_iter());
        JsonList { resource, items, objects, out, needs_comma: false, is_end: is_null, length }
    }

    /// The approximate length of the list, by the stored text of its objects.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    pub(crate) fn is_end(&self) -> bool {
        self.is_end
    }

    fn whole(mut self) -> Bytes {
        while !self.is_end {
            self.push();
        }
        self.out.into()
    }

    /// Encodes the next object, or the end of the list.
    fn push(&mut self) {
        let Some(object) = self.objects.next() else {
            self.out.extend_from_slice(b"]}\n");
            self.is_end = true;
            return;
        };
        if std::mem::replace(&mut self.needs_comma, true) {
            self.out.push(b',');
        }
        let resource = &*self.resource;
        match &self.items {
            Items::Objects => {}
            Items::Metadata(version) => {
                let metadata = partial_object_metadata(&object.tree(), *version);
                return metadata.encode_json(&mut Writer::new(&mut self.out));
            }
            Items::Rows(options) => {
                let row = row(resource, &printed(resource, &object.tree()), options);
                return row.encode_json(&mut Writer::new(&mut self.out));
            }
        }
        if resource.is_custom() {
            // Items of custom resources include kind and version.
            self.out.extend_from_slice(&json(resource, &object));
        } else if object.api_version() == &*resource.api_version {
            let (brace, rest) = object.json_without_kind();
            self.out.extend_from_slice(brace);
            self.out.extend_from_slice(rest);
        } else {
            let mut bare = served(resource, &object.tree());
            tree::remove(&mut bare, &["kind"]);
            tree::remove(&mut bare, &["apiVersion"]);
            self.out.extend_from_slice(&to_json(&bare));
        }
    }
}

impl Iterator for JsonList {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.is_end {
            return None;
        }
        while self.out.len() < CHUNK && !self.is_end {
            self.push();
        }
        let next = if self.is_end { Vec::new() } else { Vec::with_capacity(CHUNK + (CHUNK >> 2)) };
        Some(std::mem::replace(&mut self.out, next).into())
    }
}

pub(super) fn list_metadata(resource: &Resource, meta: &ListMeta) -> Value {
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
