//! Objects that could not be decoded: their identity and the error.
//!
//! A consumer must know the key of such an object, or it would consider the object deleted. So key,
//! uid and version are read separately from the same bytes, ignoring all other fields.

use std::fmt;

use crate::codec::decoder::{DecodeError, Decoder};
use crate::codec::json::Reader;
use crate::codec::messages::Envelope;
use crate::codec::protobuf::WireFields;
use crate::{GroupVersion, GroupVersionKind, Object, ObjectKey, ResourceVersion, Str};

/// How the server reported an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReportedAs {
    /// As an item of a list.
    Listed,
    /// As an `ADDED` event.
    Added,
    /// As a `MODIFIED` event.
    Modified,
    /// As a `DELETED` event.
    Deleted,
}

/// The metadata that identifies an object and one state of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ObjectIdentity {
    /// Namespace and name.
    pub key: ObjectKey,
    /// `metadata.uid`; empty if missing or unreadable.
    pub uid: Str,
    /// `metadata.resourceVersion`; empty if missing or unreadable.
    pub resource_version: ResourceVersion,
}

impl ObjectIdentity {
    /// The identity of `object`.
    pub fn of<T: Object>(object: &T) -> Self {
        ObjectIdentity {
            key: object.key(),
            uid: object.uid().into(),
            resource_version: object.resource_version().into(),
        }
    }

    /// Whether `uid` belongs to another object: both uids are set and differ.
    pub fn is_other_than(&self, uid: &str) -> bool {
        !self.uid.is_empty() && !uid.is_empty() && self.uid != *uid
    }
}

/// A received object that could not be decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undecodable {
    /// How the server reported the object.
    pub verb: ReportedAs,
    /// The identity of the object. The name is empty only if
    /// [`is_other_kind`](Self::is_other_kind).
    pub identity: ObjectIdentity,
    /// The object states another kind, so its key may be that of another object.
    pub is_other_kind: bool,
    /// Why it could not be decoded.
    pub error: DecodeError,
}

impl fmt::Display for Undecodable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot decode object {}", self.identity.key)
    }
}

impl std::error::Error for Undecodable {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// Why the next object of a list or the next event of a watch is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamError {
    /// One object cannot be decoded. The next call returns the object after it.
    Undecodable(Box<Undecodable>),
    /// The stream is unreadable: malformed bytes, or an object without a readable name.
    Unreadable(DecodeError),
}

impl StreamError {
    /// Whether the next call continues after the error.
    pub fn can_go_on(&self) -> bool {
        matches!(self, StreamError::Undecodable(_))
    }

    /// The error in the bytes.
    pub fn decode_error(&self) -> &DecodeError {
        match self {
            StreamError::Undecodable(object) => &object.error,
            StreamError::Unreadable(error) => error,
        }
    }
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StreamError::Undecodable(object) => object.fmt(f),
            StreamError::Unreadable(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StreamError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            StreamError::Undecodable(object) => object.source(),
            StreamError::Unreadable(_) => None,
        }
    }
}

impl From<StreamError> for DecodeError {
    fn from(error: StreamError) -> Self {
        match error {
            StreamError::Undecodable(object) => object.error,
            StreamError::Unreadable(error) => error,
        }
    }
}

/// The readable fields of an object.
#[derive(Debug, Default)]
pub(super) struct PartialIdentity {
    api_version: Str,
    kind: Str,
    /// The metadata was read completely, so that a missing namespace does not exist.
    is_complete: bool,
    name: Str,
    namespace: Str,
    uid: Str,
    resource_version: Str,
}

impl PartialIdentity {
    /// Reads the object at the start of `bytes`.
    pub(super) fn of_json(bytes: &[u8]) -> Self {
        let mut sketch = PartialIdentity::default();
        let mut decoder = Decoder::new();
        // Uses the fields before the first syntax error.
        let _ = Reader::new(bytes, &mut decoder).entries(|reader, key| match key {
            b"apiVersion" => optional_text(reader, &mut sketch.api_version),
            b"kind" => optional_text(reader, &mut sketch.kind),
            b"metadata" => {
                sketch.is_complete = false;
                reader.entries(|reader, key| match key {
                    b"name" => required_text(reader, &mut sketch.name),
                    b"namespace" => required_text(reader, &mut sketch.namespace),
                    b"uid" => optional_text(reader, &mut sketch.uid),
                    b"resourceVersion" => optional_text(reader, &mut sketch.resource_version),
                    _ => reader.skip(),
                })?;
                sketch.is_complete = true;
                Ok(())
            }
            _ => reader.skip(),
        });
        sketch
    }

    /// Reads only apiVersion and kind, and stops at the first other field: servers write these
    /// first.
    pub(super) fn of_json_type(bytes: &[u8], decoder: &mut Decoder) -> Self {
        let mut sketch = PartialIdentity::default();
        let mut reader = Reader::new(bytes, decoder);
        let mut escaped = Vec::new();
        let mut has_more = reader.open(b'{', "object").is_ok();
        while has_more {
            let place = match reader.key(&mut escaped) {
                Ok(b"apiVersion") => &mut sketch.api_version,
                Ok(b"kind") => &mut sketch.kind,
                _ => break,
            };
            has_more = optional_text(&mut reader, place).is_ok() && reader.more(b'}').unwrap_or(false);
        }
        sketch
    }

    /// Reads a message without an envelope: metadata is field 1 of every object.
    pub(super) fn of_protobuf(bytes: &[u8]) -> Self {
        let mut sketch = PartialIdentity::default();
        let mut fields = WireFields::new(bytes);
        while let Ok(Some((number, wire))) = fields.next() {
            if number == 1 {
                sketch.is_complete = wire.bytes().and_then(|bytes| sketch.read_metadata(bytes)).is_ok();
            }
        }
        sketch
    }

    fn read_metadata(&mut self, bytes: &[u8]) -> Result<(), DecodeError> {
        let text = |bytes| std::str::from_utf8(bytes).map(Str::from).map_err(DecodeError::utf8);
        let mut fields = WireFields::new(bytes);
        while let Some((number, wire)) = fields.next()? {
            match number {
                1 => self.name = text(wire.bytes()?)?,
                3 => self.namespace = text(wire.bytes()?)?,
                5 => self.uid = wire.bytes().and_then(text).unwrap_or_default(),
                7 => self.resource_version = wire.bytes().and_then(text).unwrap_or_default(),
                _ => {}
            }
        }
        Ok(())
    }

    /// Like [`of_protobuf`](Self::of_protobuf), with the kind of the envelope.
    pub(super) fn of_envelope(envelope: &Envelope<'_>) -> Self {
        let sketch = Self::of_protobuf(envelope.raw);
        PartialIdentity { api_version: envelope.api_version.clone(), kind: envelope.kind.clone(), ..sketch }
    }

    /// Whether the object states another kind. An object without a kind may be of any.
    pub(super) fn is_other_kind(&self, wanted: &GroupVersionKind) -> bool {
        let is_kind = self.kind.is_empty() || self.kind == wanted.kind;
        let version: GroupVersion = self.api_version.parse().unwrap_or_default();
        let is_version =
            self.api_version.is_empty() || version.group == wanted.group && version.version == wanted.version;
        !is_kind || !is_version
    }

    /// The stream error: about this object if its name is known, otherwise about the whole stream.
    pub(super) fn into_error(
        self,
        verb: ReportedAs,
        wanted: Option<&GroupVersionKind>,
        error: DecodeError,
    ) -> StreamError {
        let is_other_kind = wanted.is_some_and(|wanted| self.is_other_kind(wanted));
        if !is_other_kind && (!self.is_complete || self.name.is_empty()) {
            return StreamError::Unreadable(error);
        }
        let identity = ObjectIdentity {
            key: ObjectKey::namespaced(self.namespace, self.name),
            uid: self.uid,
            resource_version: self.resource_version.into(),
        };
        StreamError::Undecodable(Box::new(Undecodable { verb, identity, is_other_kind, error }))
    }
}

/// Reads a string; any other value leaves the place empty.
fn optional_text(reader: &mut Reader<'_, '_>, place: &mut Str) -> Result<(), DecodeError> {
    if reader.peek() == b'"' { required_text(reader, place) } else { reader.skip() }
}

/// Reads a string or null.
fn required_text(reader: &mut Reader<'_, '_>, place: &mut Str) -> Result<(), DecodeError> {
    if !reader.null()? {
        *place = reader.text()?;
    }
    Ok(())
}
