//! Encodes watch events as frames of the response stream.

use kubewright_core::Value;
use kubewright_core::json::Writer;
use kubewright_core::meta::v1::Status;
use kubewright_core::protobuf::Encoder;

use super::{Wanted, json, printed, protobuf, status_tree, table};
use crate::object::StoredObject;
use kubewright_printers::partial_object_metadata;
use kubewright_resources::accept::{Form, Format};
use kubewright_resources::catalog::Resource;

/// The type of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameType {
    /// An object that matches the selection for the first time.
    Added,
    /// A change of an object that matched before.
    Modified,
    /// An object that was deleted, or no longer matches.
    Deleted,
}

impl FrameType {
    const fn as_str(self) -> &'static str {
        match self {
            FrameType::Added => "ADDED",
            FrameType::Modified => "MODIFIED",
            FrameType::Deleted => "DELETED",
        }
    }
}

/// Encodes events in one format and form.
#[derive(Debug)]
pub struct Frames {
    wanted: Wanted,
    /// Whether the table columns have been sent, which happens once.
    has_columns: bool,
}

impl Frames {
    /// An encoder for this format and form.
    pub fn new(wanted: Wanted) -> Self {
        Frames { wanted, has_columns: false }
    }

    /// The `Content-Type` of the stream.
    pub fn content_type(&self) -> &'static str {
        match self.wanted.format {
            Format::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
            Format::Json | Format::Yaml => "application/json",
        }
    }

    /// The format, if the encoding of an event depends on nothing else.
    pub fn shared_format(&self) -> Option<Format> {
        (self.wanted.form == Form::Object).then_some(self.wanted.format)
    }

    /// Appends an event about an object.
    pub fn object(&mut self, kind: FrameType, resource: &Resource, object: &StoredObject, out: &mut Vec<u8>) {
        match (self.wanted.form, self.wanted.format) {
            (Form::Object, Format::Json | Format::Yaml) => {
                json_frame(kind.as_str(), out, |out| out.extend_from_slice(&json(resource, object)));
            }
            (Form::Object, Format::Protobuf) => {
                // Negotiation allows protobuf only for objects that can be encoded.
                if let Ok(object) = protobuf::stored(resource, object) {
                    protobuf_frame(kind.as_str(), &object, out);
                }
            }
            _ => {
                let value = self.shaped(resource, &printed(resource, &object.tree()));
                self.tree(kind.as_str(), &value, out);
            }
        }
    }

    /// Appends a bookmark, given as an object.
    pub fn bookmark(&mut self, resource: &Resource, value: &Value, out: &mut Vec<u8>) {
        let value = self.shaped(resource, value);
        self.tree("BOOKMARK", &value, out);
    }

    fn shaped(&mut self, resource: &Resource, value: &Value) -> Value {
        match self.wanted.form {
            Form::Object | Form::AggregatedDiscovery => value.clone(),
            Form::Metadata(version) | Form::MetadataList(version) => partial_object_metadata(value, version),
            Form::Table(version) => {
                let columns = (!std::mem::replace(&mut self.has_columns, true)).then(|| resource.printer.columns());
                let metadata = value.get("metadata").cloned().unwrap_or_default();
                table(resource, &metadata, [value], columns, &self.wanted.rows(version))
            }
        }
    }

    /// Appends the error that ends a watch.
    pub fn error(&self, status: &Status, out: &mut Vec<u8>) {
        self.tree("ERROR", &status_tree(status), out);
    }

    fn tree(&self, kind: &str, value: &Value, out: &mut Vec<u8>) {
        match self.wanted.format {
            Format::Json | Format::Yaml => json_frame(kind, out, |out| value.encode_json(&mut Writer::new(out))),
            Format::Protobuf => {
                let Ok(object) = protobuf::object(value) else { return };
                protobuf_frame(kind, &object, out);
            }
        }
    }
}

fn protobuf_frame(kind: &str, object: &[u8], out: &mut Vec<u8>) {
    let mut frame = Vec::with_capacity(object.len() + 32);
    let mut encoder = Encoder { out: &mut frame };
    encoder.bytes(1, kind.as_bytes());
    encoder.delimited(2, |extension| extension.bytes(1, object));
    out.extend_from_slice(&(frame.len() as u32).to_be_bytes());
    out.extend_from_slice(&frame);
}

fn json_frame(kind: &str, out: &mut Vec<u8>, object: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(br#"{"type":""#);
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(br#"","object":"#);
    object(out);
    out.extend_from_slice(b"}\n");
}
