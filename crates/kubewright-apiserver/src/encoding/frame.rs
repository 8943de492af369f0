//! Events of a watch into the frames of its stream.

use kubewright_core::Value;
use kubewright_core::json::Writer;
use kubewright_core::meta::v1::Status;
use kubewright_core::protobuf::Encoder;

use super::{Format, Shape, json, metadata, protobuf, served, status_tree};
use crate::catalog::Resource;
use crate::decoding::MediaType;
use crate::object::StoredObject;

/// What an event says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Added,
    Modified,
    Deleted,
}

impl Kind {
    const fn as_str(self) -> &'static str {
        match self {
            Kind::Added => "ADDED",
            Kind::Modified => "MODIFIED",
            Kind::Deleted => "DELETED",
        }
    }
}

/// Writes events in one form.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frames {
    pub(crate) format: Format,
}

impl Frames {
    /// The `Content-Type` of the stream.
    pub(crate) fn content_type(self) -> &'static str {
        match self.format.media_type {
            MediaType::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
            MediaType::Json | MediaType::Yaml => "application/json",
        }
    }

    /// Appends an event about an object.
    pub(crate) fn object(self, kind: Kind, resource: &Resource, object: &StoredObject, out: &mut Vec<u8>) {
        match (self.format.shape, self.format.media_type) {
            (Shape::Object, MediaType::Json | MediaType::Yaml) => {
                json_frame(kind.as_str(), out, |out| out.extend_from_slice(&json(resource, object)));
            }
            (Shape::Object, MediaType::Protobuf) => self.tree(kind.as_str(), &served(resource, &object.value), out),
            (Shape::Metadata | Shape::MetadataList | Shape::Table, _) => {
                self.tree(kind.as_str(), &metadata(&object.value), out);
            }
        }
    }

    /// Appends a bookmark, given as an object.
    pub(crate) fn bookmark(self, value: &Value, out: &mut Vec<u8>) {
        match self.format.shape {
            Shape::Object => self.tree("BOOKMARK", value, out),
            Shape::Metadata | Shape::MetadataList | Shape::Table => self.tree("BOOKMARK", &metadata(value), out),
        }
    }

    /// Appends the error that ends a watch.
    pub(crate) fn error(self, status: &Status, out: &mut Vec<u8>) {
        self.tree("ERROR", &status_tree(status), out);
    }

    fn tree(self, kind: &str, value: &Value, out: &mut Vec<u8>) {
        match self.format.media_type {
            MediaType::Json | MediaType::Yaml => json_frame(kind, out, |out| value.encode_json(&mut Writer::new(out))),
            MediaType::Protobuf => {
                // Only objects that have this form are asked for in it.
                let Ok(object) = protobuf::object(value) else { return };
                let mut frame = Vec::with_capacity(object.len() + 32);
                let mut encoder = Encoder { out: &mut frame };
                encoder.bytes(1, kind.as_bytes());
                encoder.delimited(2, |extension| extension.bytes(1, &object));
                out.extend_from_slice(&(frame.len() as u32).to_be_bytes());
                out.extend_from_slice(&frame);
            }
        }
    }
}

fn json_frame(kind: &str, out: &mut Vec<u8>, object: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(br#"{"type":""#);
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(br#"","object":"#);
    object(out);
    out.extend_from_slice(b"}\n");
}
