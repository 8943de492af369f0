//! Lists of objects.
//!
//! A large list in plain JSON is encoded while it is sent. Many clients that read slowly then share
//! the stored text of the objects, instead of holding a copy each. The other forms are encoded
//! whole.

use std::sync::Arc;
use std::vec::IntoIter;

use bytes::Bytes;
use kubewright_core::json::Writer;
use kubewright_core::{Map, Str, Value};

use super::{Wanted, json, printed, protobuf, served, table, wrong_shape};
use crate::accept::{Form, Format};
use crate::catalog::Resource;
use crate::object::{StoredObject, to_json, tree, write_head};
use crate::rejection::Rejection;
use crate::table::partial_object_metadata_list;

/// Lists of fewer bytes are encoded whole.
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

/// An encoded list, or one that is encoded when it is sent.
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
    let body = match (wanted.form, wanted.format) {
        (Form::Object, Format::Json) if !wanted.pretty => {
            let list = JsonList::new(resource, meta, objects);
            if list.length() >= STREAMED {
                return Ok(ListBody::Streamed(list));
            }
            list.whole()
        }
        (Form::Object, Format::Protobuf) => protobuf::list(resource, meta, stored())?,
        (Form::Object | Form::AggregatedDiscovery, _) => {
            let list = JsonList::new(resource, meta, objects).whole();
            super::tree(wanted, &Value::from_json(&list).unwrap_or_default())?
        }
        (Form::MetadataList(_), Format::Protobuf) => protobuf::metadata_list(meta, stored()),
        (Form::MetadataList(version), _) => {
            let values = stored().map(StoredObject::tree);
            super::tree(wanted, &partial_object_metadata_list(&list_metadata(resource, meta), values, version))?
        }
        (Form::Metadata(_), _) => return Err(wrong_shape(resource, "PartialObjectMetadata", "a list", "List")),
        (Form::Table(version), _) => {
            let values: Vec<Value> = stored().map(|object| printed(resource, &object.tree())).collect();
            let (columns, metadata) = (Some(resource.printer.columns()), list_metadata(resource, meta));
            super::tree(wanted, &table(resource, &metadata, &values, columns, &wanted.rows(version)))?
        }
    };
    Ok(ListBody::Whole(body))
}

/// A list in plain JSON, encoded in chunks.
pub(crate) struct JsonList {
    resource: Arc<Resource>,
    objects: IntoIter<Arc<StoredObject>>,
    /// The start of the next chunk.
    out: Vec<u8>,
    needs_comma: bool,
    is_end: bool,
    length: usize,
}

impl JsonList {
    fn new(resource: &Arc<Resource>, meta: &ListMeta, objects: Vec<Arc<StoredObject>>) -> Self {
        let length = objects.iter().map(|object| object.json().len()).sum();
        let mut out = Vec::with_capacity(CHUNK.min(length) + 256);
        write_head(&resource.api_version, &resource.list_kind, &mut out);
        out.extend_from_slice(br#","metadata":"#);
        list_metadata(resource, meta).encode_json(&mut Writer::new(&mut out));
        out.extend_from_slice(br#","items":["#);
        let (resource, objects) = (Arc::clone(resource), objects.into_iter());
        JsonList { resource, objects, out, needs_comma: false, is_end: false, length }
    }

    /// The approximate length of the list, from the stored text of its objects.
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
            self.out.extend_from_slice(b"]}");
            self.is_end = true;
            return;
        };
        if std::mem::replace(&mut self.needs_comma, true) {
            self.out.push(b',');
        }
        let resource = &*self.resource;
        if resource.is_custom() {
            // Custom objects carry their kind in lists too.
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
