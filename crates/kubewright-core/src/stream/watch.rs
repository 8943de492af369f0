//! Decodes a watch incrementally.

use std::marker::PhantomData;

use super::Encoding;
use super::buffer::{Buffer, Extent, is_space};
use super::slot::ObjectSlot;
use super::undecodable::{PartialIdentity, ReportedAs, StreamError};
use crate::codec::decoder::{DecodeError, Decoder};
use crate::codec::json::Reader;
use crate::codec::messages::Envelope;
use crate::codec::protobuf::WireFields;
use crate::meta::v1::{ObjectMeta, PartialObjectMetadata, Status};
use crate::{GroupVersion, GroupVersionKind, Object, Str};

/// Limit on the size of an event, as in Go: a longer one never ends, or the framing is lost.
const EVENT_MAX: usize = 16 << 20;

/// The annotation of the bookmark that ends the initial events.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// One event of a watch.
#[derive(Debug, Clone, PartialEq)]
pub enum WatchEvent<T> {
    /// An object was created, or starts to match.
    Added(T),
    /// An object was changed.
    Modified(T),
    /// An object was deleted, or no longer matches; this is its last state.
    Deleted(T),
    /// Nothing else happened up to the version of the bookmark.
    Bookmark(Box<Bookmark>),
    /// The watch has failed.
    Error(Box<Status>),
}

/// The progress of a watch: an object with kind and metadata only.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Bookmark {
    /// The stated kind, which is that of the watched objects. Empty if there is none.
    pub kind: GroupVersionKind,
    /// The metadata: the version, and possibly annotations.
    pub metadata: ObjectMeta,
}

impl Bookmark {
    /// The version up to which the watch has reported everything.
    pub fn resource_version(&self) -> &str {
        self.metadata.resource_version.as_deref().unwrap_or_default()
    }

    /// Whether it ends the initial events of a streaming list.
    pub fn ends_initial_events(&self) -> bool {
        self.metadata.annotations.get(INITIAL_EVENTS_END).is_some_and(|value| value == "true")
    }
}

/// Decodes the events of a watch as their bytes arrive.
#[derive(Debug)]
pub struct WatchDecoder<T> {
    watch: ErasedWatchDecoder,
    objects: PhantomData<fn() -> T>,
}

impl<T: Object> WatchDecoder<T> {
    /// A decoder at the start of a watch.
    pub fn new(encoding: Encoding) -> Self {
        WatchDecoder { watch: ErasedWatchDecoder { buffer: Buffer::default(), encoding }, objects: PhantomData }
    }

    /// Appends received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.watch.buffer.push(bytes);
    }

    /// The next event, or `None` until more bytes arrive.
    ///
    /// # Errors
    /// [`StreamError::Undecodable`] if the object of one event cannot be decoded, or states another
    /// kind than its type; the next call returns the event after it. Any other error makes the
    /// stream unusable.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self, decoder: &mut Decoder) -> Result<Option<WatchEvent<T>>, StreamError> {
        let mut object = None;
        let wrap: fn(T) -> WatchEvent<T> = match self.watch.next(decoder, &mut object)? {
            None => return Ok(None),
            Some(ErasedEvent::Added) => WatchEvent::Added,
            Some(ErasedEvent::Modified) => WatchEvent::Modified,
            Some(ErasedEvent::Deleted) => WatchEvent::Deleted,
            Some(ErasedEvent::Bookmark(object)) => return Ok(Some(WatchEvent::Bookmark(object))),
            Some(ErasedEvent::Error(status)) => return Ok(Some(WatchEvent::Error(status))),
        };
        Ok(object.map(wrap))
    }

    /// Whether an incomplete event is left, which means that the stream was cut.
    pub fn is_mid_event(&self) -> bool {
        self.watch.is_mid_event()
    }
}

/// The type-erased decoder.
#[derive(Debug)]
struct ErasedWatchDecoder {
    buffer: Buffer,
    encoding: Encoding,
}

/// An event; its object, if it has the watched type, is in a slot.
enum ErasedEvent {
    Added,
    Modified,
    Deleted,
    Bookmark(Box<Bookmark>),
    Error(Box<Status>),
}

impl ErasedWatchDecoder {
    fn next(&mut self, decoder: &mut Decoder, slot: &mut dyn ObjectSlot) -> Result<Option<ErasedEvent>, StreamError> {
        let event = match self.encoding {
            Encoding::Json if !self.buffer.may_hold_value() => Ok(None),
            Encoding::Json => self.buffer.read(decoder, Extent::Value, |reader| json_event(reader, slot)),
            Encoding::Protobuf => self.protobuf(decoder, slot),
        };
        match event {
            // A frame has a length prefix.
            Ok(None) if self.encoding == Encoding::Json && self.buffer.bytes().len() > EVENT_MAX => {
                Err(StreamError::Unreadable(too_long()))
            }
            Ok(event) => Ok(event),
            Err(error) => Err(self.failed(error, slot)),
        }
    }

    /// Identifies the object of an error, if it concerns a single one.
    #[cold]
    fn failed(&self, error: DecodeError, slot: &dyn ObjectSlot) -> StreamError {
        let sketch = self.buffer.skipped().and_then(|bytes| match self.encoding {
            Encoding::Json => json_sketch(bytes),
            Encoding::Protobuf => protobuf_sketch(bytes),
        });
        match sketch {
            Some((verb, sketch)) => sketch.into_error(verb, slot.static_kind().as_ref(), error),
            None => StreamError::Unreadable(error),
        }
    }

    fn is_mid_event(&self) -> bool {
        let mut left = self.buffer.bytes().iter();
        match self.encoding {
            Encoding::Json => left.any(|byte| !is_space(byte)),
            Encoding::Protobuf => left.next().is_some(),
        }
    }

    /// Frames have a length prefix of four bytes.
    fn protobuf(
        &mut self,
        decoder: &mut Decoder,
        slot: &mut dyn ObjectSlot,
    ) -> Result<Option<ErasedEvent>, DecodeError> {
        self.buffer.forget_skipped();
        let bytes = self.buffer.bytes();
        let Some((length, rest)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_be_bytes(*length) as usize;
        if length > EVENT_MAX {
            return Err(too_long());
        }
        let Some(frame) = rest.get(..length) else { return Ok(None) };
        let event = protobuf_event(frame, decoder, slot);
        match event {
            Ok(_) => self.buffer.consume(4 + length),
            Err(_) => self.buffer.skip_object(4..4 + length),
        }
        event.map(Some)
    }
}

#[cold]
fn too_long() -> DecodeError {
    DecodeError::new(format!("an event is longer than {EVENT_MAX} bytes"))
}

/// Reads verb and identity of an event with an undecodable object. `None` if the event has no
/// object.
#[cold]
fn json_sketch(event: &[u8]) -> Option<(ReportedAs, PartialIdentity)> {
    let mut verb = None;
    let mut object = None;
    let mut decoder = Decoder::new();
    // Uses the fields before the first syntax error.
    let _ = Reader::new(event, &mut decoder).entries(|reader, key| match key {
        b"type" => {
            verb = verb_of(&reader.string()?);
            Ok(())
        }
        b"object" => {
            object = Some(reader.rest());
            reader.skip()
        }
        _ => reader.skip(),
    });
    Some((verb?, PartialIdentity::of_json(object?)))
}

/// Like [`json_sketch`], for a protobuf frame.
#[cold]
fn protobuf_sketch(frame: &[u8]) -> Option<(ReportedAs, PartialIdentity)> {
    let (kind, object) = event_parts(frame).ok()?;
    let envelope = Envelope::decode(object?).ok()?;
    Some((verb_of(kind)?, PartialIdentity::of_envelope(&envelope)))
}

fn verb_of(kind: &str) -> Option<ReportedAs> {
    match kind {
        "ADDED" => Some(ReportedAs::Added),
        "MODIFIED" => Some(ReportedAs::Modified),
        "DELETED" => Some(ReportedAs::Deleted),
        _ => None,
    }
}

fn json_event(reader: &mut Reader<'_, '_>, slot: &mut dyn ObjectSlot) -> Result<ErasedEvent, DecodeError> {
    let (mut kind, mut event, mut early) = (None, None, None);
    reader.entries(|reader, key| {
        match (key, &kind) {
            (b"type", _) => kind = Some(reader.string()?.into_owned()),
            (b"object", Some(kind)) => event = Some(json_object(kind, reader, slot)?),
            // Servers write the type first, but are not required to.
            (b"object", None) => early = Some(reader.raw()?.to_owned()),
            _ => reader.skip()?,
        }
        Ok(())
    })?;
    let kind = kind.ok_or_else(|| DecodeError::new("event has no type"))?;
    match (event, early) {
        (Some(event), _) => Ok(event),
        (None, Some(json)) => json_object(&kind, &mut Reader::new(json.as_bytes(), reader.decoder), slot),
        (None, None) => Err(DecodeError::new("event has no object")),
    }
}

fn json_object(kind: &str, reader: &mut Reader<'_, '_>, slot: &mut dyn ObjectSlot) -> Result<ErasedEvent, DecodeError> {
    if kind == "ERROR" {
        let mut status = Box::<Status>::default();
        reader.message(&mut *status)?;
        return Ok(ErasedEvent::Error(status));
    }
    if kind == "BOOKMARK" {
        let mut bookmark = Box::<Bookmark>::default();
        let mut api_version = Default::default();
        reader.entries(|reader, key| {
            match key {
                b"metadata" => reader.message(&mut bookmark.metadata)?,
                b"apiVersion" => api_version = reader.text()?,
                b"kind" => bookmark.kind.kind = reader.text()?,
                _ => reader.skip()?,
            }
            Ok(())
        })?;
        let kind = std::mem::take(&mut bookmark.kind.kind);
        bookmark.kind = kind_of(&api_version, kind);
        return Ok(ErasedEvent::Bookmark(bookmark));
    }
    let event = event_of(kind)?;
    let object = reader.rest();
    slot.read_json(reader)?;
    let decoded = slot.kind();
    match decoded.filter(|decoded| PartialIdentity::of_json_type(object, reader.decoder()).is_other_kind(decoded)) {
        Some(wanted) => Err(DecodeError::new(format!("expected an object of kind {wanted}"))),
        None => Ok(event),
    }
}

fn kind_of(api_version: &str, kind: Str) -> GroupVersionKind {
    let version: GroupVersion = api_version.parse().unwrap_or_default();
    version.with_kind(kind)
}

/// The type and the object of a `WatchEvent`: field 1, and in field 2 a `RawExtension` with an
/// enveloped object.
fn event_parts(frame: &[u8]) -> Result<(&str, Option<&[u8]>), DecodeError> {
    let (mut kind, mut object) = ("", None);
    let mut fields = WireFields::new(frame);
    while let Some((number, wire)) = fields.next()? {
        match number {
            1 => kind = std::str::from_utf8(wire.bytes()?).map_err(DecodeError::utf8)?,
            2 => {
                let mut extension = WireFields::new(wire.bytes()?);
                while let Some((number, wire)) = extension.next()? {
                    if number == 1 {
                        object = Some(wire.bytes()?);
                    }
                }
            }
            _ => {}
        }
    }
    Ok((kind, object))
}

fn protobuf_event(frame: &[u8], decoder: &mut Decoder, slot: &mut dyn ObjectSlot) -> Result<ErasedEvent, DecodeError> {
    let (kind, object) = event_parts(frame)?;
    let object = object.ok_or_else(|| DecodeError::new("event has no object"))?;
    if kind == "ERROR" {
        return decoder.protobuf(object).map(|status| ErasedEvent::Error(Box::new(status)));
    }
    let envelope = Envelope::decode(object)?;
    if kind == "BOOKMARK" {
        // All objects have their metadata at the same place; a user-defined type may not be
        // decodable without the rest.
        let mut metadata = Box::<PartialObjectMetadata>::default();
        return match decoder.protobuf_message_into(&mut *metadata, envelope.raw) {
            Ok(()) => {
                let kind = kind_of(&envelope.api_version, envelope.kind);
                Ok(ErasedEvent::Bookmark(Box::new(Bookmark { kind, metadata: metadata.metadata })))
            }
            Err(error) => Err(error.within_field("object")),
        };
    }
    let event = event_of(kind)?;
    let read = slot
        .read_protobuf(envelope.raw, decoder)
        .ok_or_else(|| DecodeError::new("the type has no protobuf form"))?
        .and_then(|()| slot.kind().map_or(Ok(()), |kind| envelope.check_kind(&kind)));
    read.map(|()| event).map_err(|error| error.within_field("object"))
}

fn event_of(kind: &str) -> Result<ErasedEvent, DecodeError> {
    Ok(match kind {
        "ADDED" => ErasedEvent::Added,
        "MODIFIED" => ErasedEvent::Modified,
        "DELETED" => ErasedEvent::Deleted,
        other => return Err(DecodeError::new(format!("unknown type of event {other:?}"))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DynamicObject, ObjectKey};

    #[test]
    fn an_object_that_cannot_be_decoded_is_named_and_the_next_event_follows() {
        let stream = br#"{"type":"DELETED","object":{"metadata":{"name":"bad","namespace":"n","labels":1,"x":"}{"}}}
            {"object":{"metadata":{"uid":"u","resourceVersion":"5","name":"late","generation":"x"}},"type":"MODIFIED"}
            {"type":"ADDED","object":{"metadata":{"name":"a"}}}"#;
        for size in 1..stream.len() {
            let (mut watch, mut decoder) = (WatchDecoder::<PartialObjectMetadata>::new(Encoding::Json), Decoder::new());
            let (mut names, mut undecodable) = (Vec::new(), Vec::new());
            for piece in stream.chunks(size) {
                watch.push(piece);
                loop {
                    match watch.next(&mut decoder) {
                        Ok(Some(WatchEvent::Added(object))) => names.extend(object.metadata.name),
                        Ok(_) => break,
                        Err(StreamError::Undecodable(object)) => undecodable.push(*object),
                        Err(error) => panic!("{error}"),
                    }
                }
            }
            assert_eq!(names, ["a"], "in pieces of {size}");
            let [bad, late] = &undecodable[..] else { panic!("{undecodable:?}") };
            assert_eq!((bad.verb, &bad.identity.key), (ReportedAs::Deleted, &ObjectKey::namespaced("n", "bad")));
            assert_eq!((late.verb, &late.identity.key), (ReportedAs::Modified, &ObjectKey::cluster("late")));
            assert_eq!((late.identity.uid.as_str(), late.identity.resource_version.as_str()), ("u", "5"));
        }
    }

    #[test]
    fn a_stream_with_an_event_that_names_no_object_is_unreadable() {
        for text in [
            "<html> {} ",
            r#"{"type":"ADDED","object":{"metadata":{"name":1}}}"#,
            r#"{"type":"ADDED","object":{"metadata":{"labels":1}}}"#,
            r#"{"type":"ADDED"}"#,
            r#"{"type":"SURPRISE","object":{"metadata":{"name":"a"}}}"#,
            r#"{"type":"BOOKMARK","object":{"metadata":{"labels":1,"name":"a"}}}"#,
        ] {
            let mut watch = WatchDecoder::<PartialObjectMetadata>::new(Encoding::Json);
            watch.push(text.as_bytes());
            assert!(watch.next(&mut Decoder::new()).is_err_and(|error| !error.can_go_on()), "{text}");
        }
    }

    // RE-15
    #[test]
    fn an_object_that_states_another_kind_is_not_taken_for_one_of_ours() {
        for text in [
            r#"{"type":"ADDED","object":{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{},"rows":[]}}"#,
            r#"{"type":"ADDED","object":{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"}}}"#,
            r#"{"type":"ADDED","object":{"kind":"Secret","metadata":{"name":"a","labels":1}}}"#,
        ] {
            let mut watch = WatchDecoder::<PartialObjectMetadata>::new(Encoding::Json);
            watch.push(text.as_bytes());
            let error = watch.next(&mut Decoder::new()).expect_err("of another kind");
            assert!(matches!(error, StreamError::Undecodable(object) if object.is_other_kind), "{text}");
            let mut watch = WatchDecoder::<DynamicObject>::new(Encoding::Json);
            watch.push(text.replace("\"labels\":1", "\"labels\":{}").as_bytes());
            assert!(watch.next(&mut Decoder::new()).is_ok(), "a dynamic object may be of any kind");
        }
    }

    #[test]
    fn events_are_decoded_with_and_without_line_breaks() {
        let event = |name: &str| format!(r#"{{"type":"ADDED","object":{{"metadata":{{"name":"{name}"}}}}}}"#);
        for separators in [["\n", "\n"], ["\n", ""], ["", "\n"], ["", ""], ["\r\n", "\n\n"]] {
            let [first, second] = separators;
            let stream = [&event("a"), first, &event("b"), second, &event("c")].concat();
            for size in 1..stream.len() {
                let (mut watch, mut decoder) = (WatchDecoder::new(Encoding::Json), Decoder::new());
                let mut names = Vec::new();
                for piece in stream.as_bytes().chunks(size) {
                    watch.push(piece);
                    while let Some(event) = watch.next(&mut decoder).expect("well formed") {
                        let WatchEvent::Added(object) = event else { panic!("{event:?}") };
                        names.push(PartialObjectMetadata::name(&object).to_owned());
                    }
                }
                assert_eq!(names, ["a", "b", "c"], "{separators:?} in pieces of {size}");
            }
        }
    }

    #[test]
    fn a_bookmark_is_decoded_for_any_object_type() {
        let mut watch = WatchDecoder::<crate::meta::v1::PartialObjectMetadata>::new(Encoding::Json);
        watch.push(
            br#"{"type":"BOOKMARK","object":{"kind":"Foo","apiVersion":"a.b/v1","metadata":{"resourceVersion":"7"}}}"#,
        );
        let event = watch.next(&mut Decoder::new());
        let Ok(Some(WatchEvent::Bookmark(bookmark))) = event else { panic!("{event:?}") };
        assert_eq!((bookmark.resource_version(), bookmark.ends_initial_events()), ("7", false));
        assert_eq!(bookmark.kind, GroupVersionKind::new("a.b", "v1", "Foo"));
    }

    #[test]
    fn an_event_without_end_is_not_waited_for() {
        let mut watch = WatchDecoder::<PartialObjectMetadata>::new(Encoding::Protobuf);
        watch.push(&[0xff; 4]);
        let error = watch.next(&mut Decoder::new()).expect_err("four gigabytes are not collected");
        assert!(!error.can_go_on());
        for first in [&b""[..], b"{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\"}}}\n"] {
            let (mut watch, mut decoder) = (WatchDecoder::<PartialObjectMetadata>::new(Encoding::Json), Decoder::new());
            watch.push(first);
            assert_eq!(watch.next(&mut decoder).expect("well formed").is_some(), !first.is_empty());
            watch.push(b"{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"");
            let pieces = (0..64).take_while(|_| {
                watch.push(&[b'a'; 1 << 20]);
                watch.next(&mut decoder).inspect_err(|error| assert!(!error.can_go_on())).is_ok()
            });
            assert_eq!(pieces.count(), 15);
        }
    }

    #[test]
    fn the_longest_frame_is_taken_in_one_piece_and_in_several() {
        // A type, and an unknown field that fills the frame.
        let mut event = b"\x0a\x05ADDED\x12\x0a\x0a\x08k8s\0\x12\x02\x0a\x00".to_vec();
        let filled = EVENT_MAX - event.len() - 5;
        event.push(0x1a);
        event.extend([0, 7, 14, 21].map(|shift| (filled >> shift) as u8 & 0x7f | if shift < 21 { 0x80 } else { 0 }));
        event.resize(EVENT_MAX, 0);
        let stream = [&(EVENT_MAX as u32).to_be_bytes()[..], &event].concat();
        for size in [stream.len(), stream.len() - 1, 1 << 20] {
            let mut watch = WatchDecoder::<PartialObjectMetadata>::new(Encoding::Protobuf);
            let mut decoder = Decoder::new();
            let mut found = Vec::new();
            for piece in stream.chunks(size) {
                watch.push(piece);
                found.extend(watch.next(&mut decoder).expect("it is not too long"));
            }
            assert!(matches!(&found[..], [WatchEvent::Added(_)]), "in pieces of {size}");
        }
    }

    #[test]
    fn a_frame_with_an_undecodable_object_is_named() {
        let field = |tag: u8, bytes: &[u8]| [&[tag, bytes.len() as u8], bytes].concat();
        // Field 4 of the metadata is a number instead of a string.
        let metadata = [field(0x0a, b"bad"), field(0x1a, b"n"), vec![0x20, 1], field(0x3a, b"5")].concat();
        let raw = field(0x12, &field(0x0a, &metadata));
        let object = [&b"k8s\0"[..], &raw].concat();
        let event = [field(0x0a, b"DELETED"), field(0x12, &field(0x0a, &object))].concat();
        let mut watch = WatchDecoder::<PartialObjectMetadata>::new(Encoding::Protobuf);
        watch.push(&[&(event.len() as u32).to_be_bytes()[..], &event, &[0, 0, 0, 2, 0x0a, 0x09]].concat());
        let error = watch.next(&mut Decoder::new()).expect_err("cannot be decoded");
        let StreamError::Undecodable(object) = error else { panic!("{error}") };
        assert_eq!((object.verb, object.identity.key), (ReportedAs::Deleted, ObjectKey::namespaced("n", "bad")));
        let error = watch.next(&mut Decoder::new()).expect_err("the next frame is malformed");
        assert!(!error.can_go_on());
    }

    #[test]
    fn trailing_input_is_an_incomplete_event_unless_it_is_whitespace() {
        for (encoding, bytes, is_mid) in [
            (Encoding::Json, " \r\n\t", false),
            // Not white space in JSON, unlike in Rust.
            (Encoding::Json, "\u{c}", true),
            (Encoding::Json, "{", true),
            (Encoding::Protobuf, "\n", true),
        ] {
            let mut watch = WatchDecoder::<PartialObjectMetadata>::new(encoding);
            let mut decoder = Decoder::new();
            // Nothing was received yet.
            watch.push(b"");
            assert!(matches!(watch.next(&mut decoder), Ok(None)) && !watch.is_mid_event());
            watch.push(bytes.as_bytes());
            assert!(matches!(watch.next(&mut decoder), Ok(None)), "{bytes:?}");
            assert_eq!(watch.is_mid_event(), is_mid, "{encoding:?} {bytes:?}");
        }
    }
}
