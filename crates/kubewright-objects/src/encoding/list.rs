//! Encodes lists of objects.
//!
//! A large list is encoded while it is sent, in every format. Slow clients then share the stored
//! text of the objects instead of holding a copy each.

use std::sync::Arc;
use std::vec::IntoIter;

use bytes::Bytes;
use kubewright_core::json::Writer;
use kubewright_core::meta::v1::Status;
use kubewright_core::{Map, Str, Value};
use kubewright_yaml as yaml;

use super::protobuf::{self, ItemForm};
use super::{Wanted, json, printed, row, served, write_pretty, wrong_shape};
use crate::object::{StoredObject, to_json, tree};
use crate::rejection::Rejection;
use kubewright_printers::{RowOptions, common_list_metadata, partial_object_metadata};
use kubewright_resources::accept::{Form, Format, MetaVersion};
use kubewright_resources::catalog::Resource;

/// Smaller lists are encoded as a whole.
const STREAMED: usize = 64 << 10;
/// The size at which a chunk is complete.
const CHUNK: usize = 32 << 10;
/// A chunk is also complete when this many bytes of stored text were read for it. A row of a table
/// is small, but a whole object has to be parsed for it.
const CHUNK_INPUT: usize = 256 << 10;

/// The metadata of a list.
#[derive(Debug, Default, Clone)]
pub struct ListMeta {
    /// The revision that the list shows: `metadata.resourceVersion`.
    pub revision: u64,
    /// The token of the next page: `metadata.continue`.
    pub continue_token: Option<Str>,
    /// Number of objects after this page: `metadata.remainingItemCount`.
    pub remaining: Option<usize>,
}

/// An encoded list, or one that is encoded while it is sent.
pub enum ListBody {
    /// All of its bytes.
    Whole(Bytes),
    /// Encoded in chunks.
    Streamed(ListEncoder),
}

/// A list of objects.
pub fn list(
    wanted: Wanted,
    resource: &Arc<Resource>,
    meta: &ListMeta,
    objects: Vec<Arc<StoredObject>>,
) -> Result<ListBody, Rejection> {
    let items = match wanted.form {
        Form::Metadata(_) => return Err(wrong_shape(resource, "PartialObjectMetadata", "a list", "List")),
        Form::Object | Form::AggregatedDiscovery => ListedItems::Objects,
        Form::MetadataList(version) => ListedItems::Metadata(version),
        Form::Table(version) => ListedItems::Rows(wanted.rows(version)),
    };
    let list = match wanted.format {
        Format::Protobuf => ListEncoder::protobuf(resource, meta, items, objects)?,
        Format::Json if !wanted.pretty => ListEncoder::json(resource, meta, items, objects),
        Format::Json => ListEncoder::indented(Syntax::IndentedJson, resource, meta, items, objects),
        Format::Yaml => ListEncoder::indented(Syntax::Yaml, resource, meta, items, objects),
    };
    Ok(if list.length() >= STREAMED { ListBody::Streamed(list) } else { ListBody::Whole(list.whole()) })
}

/// The form of the items.
#[derive(Clone, Copy)]
enum ListedItems {
    Objects,
    Metadata(MetaVersion),
    Rows(RowOptions),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Syntax {
    Json,
    IndentedJson,
    Yaml,
    Protobuf,
}

/// A list as an iterator of chunks. Plain JSON ends with a newline.
pub struct ListEncoder {
    resource: Arc<Resource>,
    items: ListedItems,
    syntax: Syntax,
    objects: IntoIter<Arc<StoredObject>>,
    /// The beginning of the next chunk.
    out: Vec<u8>,
    /// The text between two items.
    separator: &'static str,
    needs_separator: bool,
    /// The text after the last item.
    end: Vec<u8>,
    is_end: bool,
    length: usize,
}

impl ListEncoder {
    /// A list that starts with `out`, for the formats to complete.
    fn new(
        syntax: Syntax,
        resource: &Arc<Resource>,
        items: ListedItems,
        mut objects: Vec<Arc<StoredObject>>,
        out: Vec<u8>,
    ) -> Self {
        if matches!(items, ListedItems::Rows(_)) {
            resource.printer.sort(&mut objects, |object| object.tree());
        }
        ListEncoder {
            length: objects.iter().map(|object| object.json().len()).sum(),
            resource: Arc::clone(resource),
            items,
            syntax,
            objects: objects.into_iter(),
            out,
            separator: "",
            needs_separator: false,
            end: Vec::new(),
            is_end: false,
        }
    }

    /// A list in plain JSON.
    fn json(resource: &Arc<Resource>, meta: &ListMeta, items: ListedItems, objects: Vec<Arc<StoredObject>>) -> Self {
        let mut out = Vec::with_capacity(512);
        let metadata = list_metadata(resource, meta);
        let mut write = |text: &str, value: &Value| {
            out.extend_from_slice(text.as_bytes());
            value.encode_json(&mut Writer::new(&mut out));
        };
        // Go leaves these lists unset when they are empty.
        let is_null = match &items {
            ListedItems::Metadata(_) => objects.is_empty(),
            ListedItems::Rows(_) => objects.is_empty() && resource.printer.writes_null_rows(),
            ListedItems::Objects => false,
        };
        match &items {
            ListedItems::Objects => {
                write(r#"{"kind":"#, &resource.list_kind.clone().into());
                write(r#","apiVersion":"#, &resource.api_version.clone().into());
                write(r#","metadata":"#, &metadata);
            }
            ListedItems::Metadata(version) => {
                write(r#"{"kind":"PartialObjectMetadataList","apiVersion":"#, &version.api_version().into());
                write(r#","metadata":"#, &common_list_metadata(&metadata));
            }
            ListedItems::Rows(options) => {
                write(r#"{"kind":"Table","apiVersion":"#, &options.version.api_version().into());
                write(r#","metadata":"#, &common_list_metadata(&metadata));
                write(r#","columnDefinitions":"#, &resource.printer.columns());
            }
        }
        out.extend_from_slice(if matches!(items, ListedItems::Rows(_)) { br#","rows":"# } else { br#","items":"# });
        out.extend_from_slice(if is_null { b"null" } else { b"[" });
        let end = if is_null { "}\n" } else { "]}\n" };
        let list = ListEncoder::new(Syntax::Json, resource, items, objects, out);
        ListEncoder { separator: ",", end: end.into(), ..list }
    }

    /// A list in indented JSON or YAML, whose keys are sorted.
    fn indented(
        syntax: Syntax,
        resource: &Arc<Resource>,
        meta: &ListMeta,
        items: ListedItems,
        objects: Vec<Arc<StoredObject>>,
    ) -> Self {
        let field = if matches!(items, ListedItems::Rows(_)) { "rows" } else { "items" };
        let empty = ListEncoder::json(resource, meta, items, Vec::new()).whole();
        let mut frame = Value::from_json(&empty).unwrap_or_default();
        if !objects.is_empty() {
            tree::set(&mut frame, &[field], Value::Array([Value::Null].into_iter().collect()));
        }
        let mut text = String::new();
        write(syntax, &frame, &mut text);
        // The place of the only item. Only the frame itself has keys at this depth, and no string
        // contains a line break in JSON or an unindented line in YAML.
        let (before, item, separator) = match syntax {
            Syntax::Yaml => (format!("\n{field}:\n"), "- null\n", ""),
            _ => (format!("\n  \"{field}\": [\n    "), "null", ",\n    "),
        };
        let at = text.find(&format!("{before}{item}")).map(|at| at + before.len());
        let (start, end) = match at {
            Some(at) => (&text[..at], &text[at + item.len()..]),
            None => (&*text, ""),
        };
        let list = ListEncoder::new(syntax, resource, items, objects, start.as_bytes().to_vec());
        ListEncoder { separator, end: end.into(), ..list }
    }

    /// A list in protobuf.
    ///
    /// Its envelope starts with the length. Therefore a large list is encoded twice: here to
    /// measure it, and then while it is sent.
    fn protobuf(
        resource: &Arc<Resource>,
        meta: &ListMeta,
        items: ListedItems,
        objects: Vec<Arc<StoredObject>>,
    ) -> Result<Self, Rejection> {
        let form = match &items {
            ListedItems::Objects => ItemForm::Objects,
            ListedItems::Metadata(_) => ItemForm::Metadata,
            ListedItems::Rows(_) => return Err(Status::not_acceptable(&Format::ALL.map(Format::media_type)).into()),
        };
        let (mut encoded, mut measured) = (Vec::new(), 0);
        for object in &objects {
            if encoded.len() >= STREAMED {
                measured += encoded.len();
                encoded.clear();
            }
            protobuf::list_item(resource, form, object, &mut encoded)?;
        }
        let mut out = Vec::new();
        protobuf::list_start(resource, form, meta, measured + encoded.len(), &mut out);
        let mut list = ListEncoder::new(Syntax::Protobuf, resource, items, objects, out);
        protobuf::list_end(&mut list.end);
        if measured == 0 {
            list.out.append(&mut encoded);
            list.objects = Vec::new().into_iter();
        }
        Ok(list)
    }

    /// The approximate length of the list, by the stored text of its objects.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Whether the whole list is encoded.
    pub fn is_end(&self) -> bool {
        self.is_end
    }

    /// The memory that this list takes besides the stored objects.
    pub fn private_length(&self) -> usize {
        self.objects.len() * size_of::<Arc<StoredObject>>()
    }

    fn whole(mut self) -> Bytes {
        while !self.is_end {
            self.push();
        }
        self.out.into()
    }

    /// Encodes the next object, or the end of the list. Returns the length of the text it has read.
    fn push(&mut self) -> usize {
        let Some(object) = self.objects.next() else {
            self.out.append(&mut self.end);
            self.is_end = true;
            return 0;
        };
        if std::mem::replace(&mut self.needs_separator, true) {
            self.out.extend_from_slice(self.separator.as_bytes());
        }
        match self.syntax {
            Syntax::Json => json_item(&self.resource, &self.items, &object, &mut self.out),
            Syntax::IndentedJson | Syntax::Yaml => {
                let mut item = Vec::new();
                json_item(&self.resource, &self.items, &object, &mut item);
                let (item, mut text) = (Value::from_json(&item).unwrap_or_default(), String::new());
                match self.syntax {
                    Syntax::Yaml => yaml::write(&Value::Array([item].into_iter().collect()), &mut text),
                    _ => write_pretty(&item, 4, &mut text),
                }
                self.out.extend_from_slice(text.as_bytes());
            }
            Syntax::Protobuf => {
                let form = match self.items {
                    ListedItems::Metadata(_) => ItemForm::Metadata,
                    _ => ItemForm::Objects,
                };
                let encoded = protobuf::list_item(&self.resource, form, &object, &mut self.out);
                // Nothing else could keep the length that has been sent.
                assert!(encoded.is_ok(), "it was encoded to measure it");
            }
        }
        object.json().len()
    }
}

/// Appends an item in plain JSON.
fn json_item(resource: &Resource, items: &ListedItems, object: &StoredObject, out: &mut Vec<u8>) {
    match items {
        ListedItems::Objects => {}
        ListedItems::Metadata(version) => {
            return partial_object_metadata(&object.tree(), *version).encode_json(&mut Writer::new(out));
        }
        ListedItems::Rows(options) => {
            return row(resource, &printed(resource, &object.tree()), options).encode_json(&mut Writer::new(out));
        }
    }
    if resource.is_custom() {
        // Items of custom resources include kind and version.
        out.extend_from_slice(&json(resource, object));
    } else if object.api_version() == &*resource.api_version {
        let (brace, rest) = object.json_without_kind();
        out.extend_from_slice(brace);
        out.extend_from_slice(rest);
    } else {
        let mut bare = served(resource, &object.tree());
        tree::remove(&mut bare, &["kind"]);
        tree::remove(&mut bare, &["apiVersion"]);
        out.extend_from_slice(&to_json(&bare));
    }
}

/// Appends a document in indented JSON or YAML.
fn write(syntax: Syntax, value: &Value, out: &mut String) {
    match syntax {
        Syntax::Yaml => yaml::write(value, out),
        _ => write_pretty(value, 0, out),
    }
}

impl Iterator for ListEncoder {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.is_end {
            return None;
        }
        let mut input = 0;
        while self.out.len() < CHUNK && input < CHUNK_INPUT && !self.is_end {
            input += self.push();
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
