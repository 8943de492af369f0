//! Decodes a watch event by event.

use std::marker::PhantomData;

use super::Encoding;
use super::buffer::{Buffer, Extent, is_space};
use super::slot::Slot;
use crate::Object;
use crate::decode::{DecodeError, Decoder};
use crate::json::Reader;
use crate::meta::v1::{PartialObjectMetadata, Status};
use crate::protobuf::{Envelope, Fields};

/// No event is longer, as in Go: a stream that seems to have such a one has lost the thread, or never ends it.
const EVENT_MAX: usize = 16 << 20;

/// One event of a watch.
#[derive(Debug, Clone, PartialEq)]
pub enum WatchEvent<T> {
    /// An object came to be, or came to match.
    Added(T),
    /// An object changed.
    Modified(T),
    /// An object went, or no longer matches; this is its last state.
    Deleted(T),
    /// Nothing happened up to the version of this object, which has nothing but metadata.
    Bookmark(Box<PartialObjectMetadata>),
    /// The watch has failed.
    Error(Box<Status>),
}

/// Turns the bytes of a watch into its events as they arrive.
#[derive(Debug)]
pub struct WatchDecoder<T> {
    watch: Watch,
    objects: PhantomData<fn() -> T>,
}

impl<T: Object> WatchDecoder<T> {
    /// At the start of a watch.
    pub fn new(encoding: Encoding) -> Self {
        WatchDecoder { watch: Watch { buffer: Buffer::default(), encoding }, objects: PhantomData }
    }

    /// Takes bytes that have arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        self.watch.buffer.push(bytes);
    }

    /// The next event, or `None` until more bytes have come.
    ///
    /// # Errors
    /// If an event cannot be read. Where [`can_go_on`](Self::can_go_on), the next call gives the one after it.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self, decoder: &mut Decoder) -> Result<Option<WatchEvent<T>>, DecodeError> {
        let mut object = None;
        let wrap: fn(T) -> WatchEvent<T> = match self.watch.next(decoder, &mut object)? {
            None => return Ok(None),
            Some(Event::Added) => WatchEvent::Added,
            Some(Event::Modified) => WatchEvent::Modified,
            Some(Event::Deleted) => WatchEvent::Deleted,
            Some(Event::Bookmark(object)) => return Ok(Some(WatchEvent::Bookmark(object))),
            Some(Event::Error(status)) => return Ok(Some(WatchEvent::Error(status))),
        };
        Ok(object.map(wrap))
    }

    /// Whether the last error was about one event, which has been passed over; otherwise the stream is unusable.
    pub fn can_go_on(&self) -> bool {
        self.watch.buffer.has_passed_over()
    }

    /// Whether bytes of an incomplete event are left, which means that the stream was cut.
    pub fn is_mid_event(&self) -> bool {
        self.watch.is_mid_event()
    }
}

/// A watch of objects of whatever type.
#[derive(Debug)]
struct Watch {
    buffer: Buffer,
    encoding: Encoding,
}

/// An event whose object, if it is of the type that is watched, is in a slot.
enum Event {
    Added,
    Modified,
    Deleted,
    Bookmark(Box<PartialObjectMetadata>),
    Error(Box<Status>),
}

impl Watch {
    fn next(&mut self, decoder: &mut Decoder, slot: &mut dyn Slot) -> Result<Option<Event>, DecodeError> {
        let event = match self.encoding {
            Encoding::Json if !self.buffer.may_hold_value() => Ok(None),
            Encoding::Json => self.buffer.read(decoder, Extent::Value, |reader| json_event(reader, slot)),
            Encoding::Protobuf => self.protobuf(decoder, slot),
        };
        match (event, self.encoding) {
            // A frame says beforehand how long it is.
            (Ok(None), Encoding::Json) if self.buffer.bytes().len() > EVENT_MAX => Err(self.too_long()),
            (event, _) => event,
        }
    }

    /// Gives the stream up.
    #[cold]
    fn too_long(&mut self) -> DecodeError {
        self.buffer.pass_over(false);
        DecodeError::new(format!("an event is longer than {EVENT_MAX} bytes"))
    }

    fn is_mid_event(&self) -> bool {
        let mut left = self.buffer.bytes().iter();
        match self.encoding {
            Encoding::Json => left.any(|byte| !is_space(byte)),
            Encoding::Protobuf => left.next().is_some(),
        }
    }

    /// Frames have four bytes of length before them.
    fn protobuf(&mut self, decoder: &mut Decoder, slot: &mut dyn Slot) -> Result<Option<Event>, DecodeError> {
        let bytes = self.buffer.bytes();
        let Some((length, rest)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_be_bytes(*length) as usize;
        if length > EVENT_MAX {
            return Err(self.too_long());
        }
        let Some(frame) = rest.get(..length) else { return Ok(None) };
        let event = protobuf_event(frame, decoder, slot);
        self.buffer.consume(4 + length);
        self.buffer.pass_over(event.is_err());
        event.map(Some)
    }
}

fn json_event(reader: &mut Reader<'_, '_>, slot: &mut dyn Slot) -> Result<Event, DecodeError> {
    let (mut kind, mut event, mut early) = (None, None, None);
    reader.entries(|reader, key| {
        match (key, &kind) {
            (b"type", _) => kind = Some(reader.string()?.into_owned()),
            (b"object", Some(kind)) => event = Some(json_object(kind, reader, slot)?),
            // Servers write the type first, but nothing obliges them to.
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

fn json_object(kind: &str, reader: &mut Reader<'_, '_>, slot: &mut dyn Slot) -> Result<Event, DecodeError> {
    if kind == "ERROR" {
        let mut status = Box::<Status>::default();
        reader.message(&mut *status)?;
        return Ok(Event::Error(status));
    }
    if kind == "BOOKMARK" {
        // The object says that it is of the kind that is watched, of which nothing else is there.
        let mut object = Box::<PartialObjectMetadata>::default();
        reader.entries(|reader, key| match key {
            b"metadata" => reader.message(&mut object.metadata),
            _ => reader.skip(),
        })?;
        return Ok(Event::Bookmark(object));
    }
    let event = event_of(kind)?;
    slot.read_json(reader).map(|()| event)
}

/// `WatchEvent`: the type as field 1, and as field 2 a `RawExtension` with an enveloped object.
fn protobuf_event(frame: &[u8], decoder: &mut Decoder, slot: &mut dyn Slot) -> Result<Event, DecodeError> {
    let (mut kind, mut object) = ("", None);
    let mut fields = Fields::new(frame);
    while let Some((number, wire)) = fields.next()? {
        match number {
            1 => kind = std::str::from_utf8(wire.bytes()?).map_err(DecodeError::utf8)?,
            2 => {
                let mut extension = Fields::new(wire.bytes()?);
                while let Some((number, wire)) = extension.next()? {
                    if number == 1 {
                        object = Some(wire.bytes()?);
                    }
                }
            }
            _ => {}
        }
    }
    let object = object.ok_or_else(|| DecodeError::new("event has no object"))?;
    if kind == "ERROR" {
        return decoder.protobuf(object).map(|status| Event::Error(Box::new(status)));
    }
    let envelope = Envelope::decode(object)?;
    if kind == "BOOKMARK" {
        // Metadata has the same place in all objects; a user's own type may not be readable without the rest.
        let mut metadata = Box::<PartialObjectMetadata>::default();
        return match decoder.protobuf_message_into(&mut *metadata, envelope.raw) {
            Ok(()) => Ok(Event::Bookmark(metadata)),
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

fn event_of(kind: &str) -> Result<Event, DecodeError> {
    Ok(match kind {
        "ADDED" => Event::Added,
        "MODIFIED" => Event::Modified,
        "DELETED" => Event::Deleted,
        other => return Err(DecodeError::new(format!("unknown type of event {other:?}"))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_that_cannot_be_read_is_passed_over() {
        let stream = br#"{"type":"ADDED","object":{"metadata":{"name":1,"x":"}{"}}}
            {"type":"ADDED","object":{"metadata":{"name":"a"}}}"#;
        for size in 1..stream.len() {
            let (mut watch, mut decoder) = (WatchDecoder::<PartialObjectMetadata>::new(Encoding::Json), Decoder::new());
            let (mut names, mut errors) = (Vec::new(), 0);
            for piece in stream.chunks(size) {
                watch.push(piece);
                loop {
                    match watch.next(&mut decoder) {
                        Ok(Some(WatchEvent::Added(object))) => names.extend(object.metadata.name),
                        Ok(_) => break,
                        Err(_) => {
                            assert!(watch.can_go_on());
                            errors += 1;
                        }
                    }
                }
            }
            assert_eq!((&names[..], errors), (&["a".into()][..], 1), "in pieces of {size}");
        }
        let mut watch = WatchDecoder::<PartialObjectMetadata>::new(Encoding::Json);
        watch.push(b"<html> {} ");
        assert!(watch.next(&mut Decoder::new()).is_err() && !watch.can_go_on());
    }

    #[test]
    fn events_come_with_or_without_lines_of_their_own() {
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
    fn a_bookmark_is_read_whatever_the_type_of_objects() {
        let mut watch = WatchDecoder::<crate::meta::v1::PartialObjectMetadata>::new(Encoding::Json);
        watch.push(
            br#"{"type":"BOOKMARK","object":{"kind":"Foo","apiVersion":"a.b/v1","metadata":{"resourceVersion":"7"}}}"#,
        );
        let event = watch.next(&mut Decoder::new());
        assert!(matches!(event, Ok(Some(WatchEvent::Bookmark(object))) if object.resource_version() == "7"));
    }

    #[test]
    fn an_event_without_end_is_not_waited_for() {
        let mut watch = WatchDecoder::<PartialObjectMetadata>::new(Encoding::Protobuf);
        watch.push(&[0xff; 4]);
        assert!(watch.next(&mut Decoder::new()).is_err() && !watch.can_go_on(), "four gigabytes are not collected");
        for first in [&b""[..], b"{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\"}}}\n"] {
            let (mut watch, mut decoder) = (WatchDecoder::<PartialObjectMetadata>::new(Encoding::Json), Decoder::new());
            watch.push(first);
            assert_eq!(watch.next(&mut decoder).expect("well formed").is_some(), !first.is_empty());
            watch.push(b"{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"");
            let pieces = (0..64).take_while(|_| {
                watch.push(&[b'a'; 1 << 20]);
                watch.next(&mut decoder).is_ok()
            });
            assert_eq!(pieces.count(), 15);
            assert!(!watch.can_go_on());
        }
    }

    #[test]
    fn the_longest_frame_is_taken_in_one_piece_and_in_several() {
        // A type, and a field that nobody knows, which fills the frame.
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
    fn a_frame_that_cannot_be_read_is_passed_over() {
        let mut watch = WatchDecoder::<PartialObjectMetadata>::new(Encoding::Protobuf);
        watch.push(&[0, 0, 0, 2, 0x0a, 0x09, 0, 0, 0, 1]);
        assert!(watch.next(&mut Decoder::new()).is_err() && watch.can_go_on());
        assert!(matches!(watch.next(&mut Decoder::new()), Ok(None)));
    }

    #[test]
    fn what_is_left_is_an_event_unless_it_is_space_between_them() {
        for (encoding, bytes, is_mid) in [
            (Encoding::Json, " \r\n\t", false),
            // No space in JSON, though Rust calls it so.
            (Encoding::Json, "\u{c}", true),
            (Encoding::Json, "{", true),
            (Encoding::Protobuf, "\n", true),
        ] {
            let mut watch = WatchDecoder::<PartialObjectMetadata>::new(encoding);
            let mut decoder = Decoder::new();
            // Nothing has come yet.
            watch.push(b"");
            assert!(matches!(watch.next(&mut decoder), Ok(None)) && !watch.is_mid_event());
            watch.push(bytes.as_bytes());
            assert!(matches!(watch.next(&mut decoder), Ok(None)), "{bytes:?}");
            assert_eq!(watch.is_mid_event(), is_mid, "{encoding:?} {bytes:?}");
        }
    }
}
