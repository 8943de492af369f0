//! The envelope of protobuf objects: four magic bytes and `runtime.Unknown`.

use crate::codec::decoder::{DecodeError, Decoder};
use crate::codec::message::Message;
use crate::codec::protobuf::{Encoder, WireFields};
use crate::{GroupVersionKind, Str};

/// The prefix of every enveloped object.
pub const MAGIC: [u8; 4] = *b"k8s\0";

/// An encoded object with its kind.
#[doc(alias = "Unknown")]
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Envelope<'a> {
    /// Group and version of the object.
    pub api_version: Str,
    /// Kind of the object.
    pub kind: Str,
    /// The object.
    pub raw: &'a [u8],
    /// The encoding of `raw`: protobuf if empty, or a media type.
    pub content_type: Str,
}

impl<'a> Envelope<'a> {
    /// Opens an envelope.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let body = match bytes.strip_prefix(&MAGIC) {
            Some(body) => body,
            None if MAGIC.starts_with(bytes) => return Err(DecodeError::truncated()),
            None => return Err(DecodeError::new("not a Kubernetes protobuf object: the bytes `k8s\\0` are missing")),
        };
        let mut envelope = Envelope::default();
        let mut decoder = Decoder::new();
        let mut fields = WireFields::new(body);
        while let Some((number, wire)) = fields.next()? {
            match number {
                1 => (envelope.api_version, envelope.kind) = type_meta(wire.bytes()?, &mut decoder)?,
                2 => envelope.raw = wire.bytes()?,
                3 if !wire.bytes()?.is_empty() => {
                    return Err(DecodeError::new("protobuf object has a content encoding, which is not supported"));
                }
                4 => envelope.content_type = decoder.text(wire.bytes()?)?,
                _ => {}
            }
        }
        Ok(envelope)
    }

    /// Fails if the envelope states another kind; an envelope without a kind matches any.
    pub fn check_kind(&self, wanted: &GroupVersionKind) -> Result<(), DecodeError> {
        let (group, version) = self.api_version.split_once('/').unwrap_or(("", &self.api_version));
        let is_kind = self.kind.is_empty() || self.kind == wanted.kind;
        if is_kind && (self.api_version.is_empty() || group == wanted.group && version == wanted.version) {
            return Ok(());
        }
        let (wanted, found) = ((wanted.api_version(), &wanted.kind), (&self.api_version, &self.kind));
        Err(DecodeError::new(format!("expected {} {}, found {} {}", wanted.0, wanted.1, found.0, found.1)))
    }

    /// Appends `message` in an envelope.
    pub fn encode(message: &dyn Message, out: &mut Vec<u8>) {
        let (api_version, kind) = match &message.scheme().kind {
            Some(info) => (info.api_version, info.kind),
            None => ("", ""),
        };
        Envelope::encode_with(api_version, kind, out, |encoder| encoder.message(message));
    }

    /// Appends an envelope with the object that `write` appends.
    pub fn encode_with(api_version: &str, kind: &str, out: &mut Vec<u8>, write: impl FnOnce(&mut Encoder<'_>)) {
        encode_type_meta(api_version, kind, out);
        Encoder { out }.delimited(2, write);
        Envelope::encode_end(out);
    }

    /// Appends what precedes an object of `length` bytes in its envelope.
    pub fn encode_start(api_version: &str, kind: &str, length: usize, out: &mut Vec<u8>) {
        encode_type_meta(api_version, kind, out);
        Encoder { out }.start(2, length);
    }

    /// Appends what follows an object in its envelope.
    pub fn encode_end(out: &mut Vec<u8>) {
        let mut encoder = Encoder { out };
        encoder.bytes(3, b"");
        encoder.bytes(4, b"");
    }
}

fn encode_type_meta(api_version: &str, kind: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(&MAGIC);
    Encoder { out }.delimited(1, |meta| {
        meta.bytes(1, api_version.as_bytes());
        meta.bytes(2, kind.as_bytes());
    });
}

/// `apiVersion` and `kind` of a `runtime.TypeMeta`.
pub(crate) fn type_meta(bytes: &[u8], decoder: &mut Decoder) -> Result<(Str, Str), DecodeError> {
    let mut fields = WireFields::new(bytes);
    let (mut api_version, mut kind) = (Str::new(), Str::new());
    while let Some((number, wire)) = fields.next()? {
        match number {
            1 => api_version = decoder.text(wire.bytes()?)?,
            2 => kind = decoder.text(wire.bytes()?)?,
            _ => {}
        }
    }
    Ok((api_version, kind))
}
