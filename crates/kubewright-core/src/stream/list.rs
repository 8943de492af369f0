//! Decodes a list item by item.

use std::marker::PhantomData;

use super::Encoding;
use super::buffer::{Buffer, Extent};
use super::slot::Slot;
use crate::decode::{DecodeError, Decoder};
use crate::meta::v1::ListMeta;
use crate::protobuf::{MAGIC, varint};
use crate::{Object, Str};

/// No object is longer, by far: one that seems to be would never end.
const ITEM_MAX: usize = 128 << 20;

/// Turns the bytes of a list into its objects as they arrive.
///
/// ```
/// use kubewright_core::{Decoder, DynamicObject, Object, stream::{Encoding, ListDecoder}};
/// let mut list = ListDecoder::<DynamicObject>::new(Encoding::Json);
/// let mut decoder = Decoder::new();
/// list.push(br#"{"metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a"}},{"meta"#);
/// assert_eq!(list.next(&mut decoder)?.unwrap().name(), "a");
/// assert!(list.next(&mut decoder)?.is_none());
/// list.push(br#"data":{"name":"b"}}]}"#);
/// assert_eq!(list.next(&mut decoder)?.unwrap().name(), "b");
/// assert!(list.next(&mut decoder)?.is_none());
/// assert_eq!(list.finish()?.resource_version.as_deref(), Some("7"));
/// # Ok::<(), kubewright_core::DecodeError>(())
/// ```
#[derive(Debug)]
pub struct ListDecoder<T> {
    list: List,
    items: PhantomData<fn() -> T>,
}

/// A list of objects of whatever type.
#[derive(Debug)]
struct List {
    buffer: Buffer,
    state: State,
    metadata: ListMeta,
    /// Group and version, and the kind of the list, which Kubernetes writes before the items.
    type_: (Str, Str),
    count: usize,
    has_passed_over: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    JsonStart,
    /// At a key of the list, or its end.
    JsonKey {
        first: bool,
    },
    /// At the value of a key.
    JsonValue(Key),
    /// At the first item, or the end of the items.
    JsonItems,
    JsonItem,
    JsonAfterItem,
    JsonEnd,
    ProtobufMagic,
    /// At a field of the envelope.
    ProtobufEnvelope,
    /// At a field of the list, of which so many bytes remain.
    ProtobufList {
        remaining: usize,
    },
    /// At a field of the envelope after the list.
    ProtobufEnd,
}

/// What a list says under a key.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Key {
    ApiVersion,
    Kind,
    Metadata,
    Items,
    Other,
}

impl<T: Object> ListDecoder<T> {
    /// At the start of a list.
    pub fn new(encoding: Encoding) -> Self {
        ListDecoder { list: List::new(encoding), items: PhantomData }
    }

    /// Takes bytes that have arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        self.list.buffer.push(bytes);
    }

    /// The next object, or `None` until more bytes have come.
    ///
    /// # Errors
    /// If the list cannot be read. Where it [can go on](Self::can_go_on), it is one object that cannot, and the next call gives the
    /// one after it.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self, decoder: &mut Decoder) -> Result<Option<T>, DecodeError> {
        let mut item = None;
        self.list.next(decoder, &mut item)?;
        Ok(item)
    }

    /// Whether the last error was about one object, which has been passed over; otherwise the list is unusable.
    pub fn can_go_on(&self) -> bool {
        self.list.has_passed_over
    }

    /// The list's own metadata, as far as it has been seen. Kubernetes writes it before the items.
    pub fn metadata(&self) -> &ListMeta {
        &self.list.metadata
    }

    /// The list's own metadata, after its last byte; an error if it was not complete.
    pub fn finish(self) -> Result<ListMeta, DecodeError> {
        self.list.finish()
    }
}

impl List {
    fn new(encoding: Encoding) -> Self {
        let state = match encoding {
            Encoding::Json => State::JsonStart,
            Encoding::Protobuf => State::ProtobufMagic,
        };
        List {
            buffer: Buffer::default(),
            state,
            metadata: ListMeta::default(),
            type_: Default::default(),
            count: 0,
            has_passed_over: false,
        }
    }

    /// Puts the next object, if it has come, into `slot`.
    fn next(&mut self, decoder: &mut Decoder, slot: &mut dyn Slot) -> Result<(), DecodeError> {
        loop {
            let is_protobuf = matches!(
                self.state,
                State::ProtobufMagic | State::ProtobufEnvelope | State::ProtobufList { .. } | State::ProtobufEnd
            );
            let step = if is_protobuf { self.protobuf(decoder, slot)? } else { self.json(decoder, slot)? };
            match step {
                Step::Item => {
                    self.count += 1;
                    let (api_version, kind) = &self.type_;
                    if let Some(kind) = kind.strip_suffix("List").filter(|kind| !kind.is_empty()) {
                        slot.complete_type(api_version, kind);
                    }
                    return Ok(());
                }
                Step::Going => {}
                // Protobuf says beforehand how long a part is.
                Step::Waiting if !is_protobuf && self.buffer.bytes().len() > ITEM_MAX => return Err(self.too_long()),
                Step::Waiting => return Ok(()),
            }
        }
    }

    /// Gives the list up.
    #[cold]
    fn too_long(&mut self) -> DecodeError {
        self.has_passed_over = false;
        DecodeError::new(format!("a part of a list is longer than {ITEM_MAX} bytes"))
    }

    fn finish(self) -> Result<ListMeta, DecodeError> {
        match self.state {
            State::JsonEnd => Ok(self.metadata),
            State::ProtobufEnd if self.buffer.bytes().is_empty() => Ok(self.metadata),
            _ => Err(DecodeError::truncated()),
        }
    }

    fn json(&mut self, decoder: &mut Decoder, slot: &mut dyn Slot) -> Result<Step, DecodeError> {
        let (state, index) = (self.state, self.count);
        let (metadata, type_) = (&mut self.metadata, &mut self.type_);
        // Of the items only one at a time may be waited for, never all of them.
        let extent = match state {
            State::JsonItem | State::JsonValue(Key::ApiVersion | Key::Kind | Key::Metadata | Key::Other) => {
                Extent::Value
            }
            _ => Extent::Token,
        };
        let step = self.buffer.read(decoder, extent, |reader| match state {
            State::JsonStart => {
                reader.open(b'{', "object")?;
                Ok(State::JsonKey { first: true })
            }
            State::JsonKey { first } => {
                if first && reader.take(b'}') || !first && !reader.more(b'}')? {
                    return Ok(State::JsonEnd);
                }
                let mut escaped = Vec::new();
                let key = match reader.key(&mut escaped)? {
                    b"apiVersion" => Key::ApiVersion,
                    b"kind" => Key::Kind,
                    b"metadata" => Key::Metadata,
                    b"items" => Key::Items,
                    _ => Key::Other,
                };
                Ok(State::JsonValue(key))
            }
            State::JsonValue(Key::Items) => {
                if reader.null()? {
                    return Ok(State::JsonKey { first: false });
                }
                reader.open(b'[', "array").map_err(|error| error.within_field("items"))?;
                Ok(State::JsonItems)
            }
            State::JsonValue(key) => {
                match key {
                    _ if reader.null()? => {}
                    Key::Metadata => {
                        let mut found = ListMeta::default();
                        reader.message(&mut found).map_err(|error| error.within_field("metadata"))?;
                        *metadata = found;
                    }
                    Key::ApiVersion => type_.0 = reader.text().map_err(|error| error.within_field("apiVersion"))?,
                    Key::Kind => {
                        type_.1 = reader.text().map_err(|error| error.within_field("kind"))?;
                        check_kind(&type_.1)?;
                    }
                    _ => drop(reader.raw()?),
                }
                // A number ends only where something else begins.
                if reader.peek() == 0 {
                    return Err(reader.expected("a value"));
                }
                Ok(State::JsonKey { first: false })
            }
            State::JsonItems => match reader.peek() {
                0 => Err(reader.expected("a value")),
                _ if reader.take(b']') => Ok(State::JsonKey { first: false }),
                _ => Ok(State::JsonItem),
            },
            State::JsonItem => {
                let within = |error: DecodeError| error.within_item(index).within_field("items");
                slot.read_json(reader).map_err(within)?;
                Ok(State::JsonAfterItem)
            }
            State::JsonAfterItem => {
                let more = reader.more(b']')?;
                Ok(if more { State::JsonItem } else { State::JsonKey { first: false } })
            }
            _ => {
                reader.end()?;
                Ok(State::JsonEnd)
            }
        });
        let step = step.inspect_err(|_| {
            self.has_passed_over = state == State::JsonItem && self.buffer.has_passed_over();
            if self.has_passed_over {
                self.state = State::JsonAfterItem;
                self.count += 1;
            }
        })?;
        Ok(match step {
            None => Step::Waiting,
            Some(State::JsonEnd) if state == State::JsonEnd => Step::Waiting,
            Some(next) => {
                self.state = next;
                if state == State::JsonItem { Step::Item } else { Step::Going }
            }
        })
    }

    fn protobuf(&mut self, decoder: &mut Decoder, slot: &mut dyn Slot) -> Result<Step, DecodeError> {
        let bytes = self.buffer.bytes();
        if self.state == State::ProtobufMagic {
            let length = bytes.len().min(MAGIC.len());
            if bytes[..length] != MAGIC[..length] {
                return Err(DecodeError::new("not a Kubernetes protobuf object: the bytes `k8s\\0` are missing"));
            }
            if length < MAGIC.len() {
                return Ok(Step::Waiting);
            }
            self.buffer.consume(MAGIC.len());
            self.state = State::ProtobufEnvelope;
            return Ok(Step::Going);
        }
        if self.state == (State::ProtobufList { remaining: 0 }) {
            self.state = State::ProtobufEnd;
            return Ok(Step::Going);
        }
        // All fields of the envelope and of a list are length-delimited.
        let Some((tag, tag_length)) = varint(bytes)? else { return Ok(Step::Waiting) };
        let Some((length, length_length)) = varint(&bytes[tag_length..])? else { return Ok(Step::Waiting) };
        if tag & 7 != 2 {
            return Err(DecodeError::new(format!("unexpected wire type {} in a list", tag & 7)));
        }
        let (head, length) = (tag_length + length_length, usize::try_from(length).unwrap_or(usize::MAX));
        if (self.state, tag >> 3) == (State::ProtobufEnvelope, 2) {
            self.buffer.consume(head);
            self.state = State::ProtobufList { remaining: length };
            return Ok(Step::Going);
        }
        let field = match (self.state, head.checked_add(length)) {
            (_, None) => return Err(DecodeError::new("length of a field is out of range")),
            (State::ProtobufList { remaining }, Some(end)) if end > remaining => {
                return Err(DecodeError::new("a field reaches beyond the end of its list"));
            }
            _ if length > ITEM_MAX => return Err(self.too_long()),
            (_, Some(end)) if bytes.len() < end => return Ok(Step::Waiting),
            (_, Some(end)) => &bytes[head..end],
        };
        self.has_passed_over = false;
        let mut step = Ok(Step::Going);
        match (self.state, tag >> 3) {
            (State::ProtobufEnvelope, 1) => check_kind(&crate::protobuf::type_meta(field, decoder)?.1)?,
            (State::ProtobufList { .. }, 1) => decoder
                .protobuf_message_into(&mut self.metadata, field)
                .map_err(|error| error.within_field("metadata"))?,
            (State::ProtobufList { .. }, 2) => {
                let item = slot
                    .read_protobuf(field, decoder)
                    .ok_or_else(|| DecodeError::new("the type has no protobuf form"))?
                    .map_err(|error| error.within_item(self.count).within_field("items"));
                step = item.map(|()| Step::Item);
            }
            _ => {}
        }
        let end = head + length;
        self.buffer.consume(end);
        if let State::ProtobufList { remaining } = &mut self.state {
            *remaining -= end;
        }
        step.inspect_err(|_| {
            self.has_passed_over = true;
            self.count += 1;
        })
    }
}

enum Step {
    /// An object is in the slot.
    Item,
    Going,
    Waiting,
}

/// A server that fails answers with a Status, which must not pass for an empty list.
fn check_kind(kind: &str) -> Result<(), DecodeError> {
    if kind.is_empty() || kind.ends_with("List") {
        return Ok(());
    }
    Err(DecodeError::new(format!("expected a list, found {kind}")).within_field("kind"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::v1::PartialObjectMetadata;

    #[test]
    fn an_object_without_end_is_not_waited_for() {
        let mut list = ListDecoder::<PartialObjectMetadata>::new(Encoding::Protobuf);
        list.push(&MAGIC);
        // In a list of two gigabytes an object of one.
        list.push(&[0x12, 0x80, 0x80, 0x80, 0x80, 0x08, 0x12, 0x80, 0x80, 0x80, 0x80, 0x04]);
        assert!(
            list.next(&mut Decoder::new()).is_err() && !list.can_go_on(),
            "its length is known, nothing is collected"
        );
        let (mut list, mut decoder) = (ListDecoder::<PartialObjectMetadata>::new(Encoding::Json), Decoder::new());
        list.push(br#"{"items":[{"metadata":{"name":""#);
        let piece = vec![b'a'; 1 << 20];
        let pieces = (0..1024).take_while(|_| {
            list.push(&piece);
            list.next(&mut decoder).is_ok()
        });
        assert_eq!(pieces.count(), 127);
        assert!(!list.can_go_on());
    }

    #[test]
    fn the_longest_object_is_taken_in_one_piece_and_in_several() {
        // In a list of 128 MiB and five bytes an object of 128 MiB, of which all but the head is one field that nobody knows.
        let mut bytes = MAGIC.to_vec();
        bytes.extend([0x12, 0x85, 0x80, 0x80, 0x40, 0x12, 0x80, 0x80, 0x80, 0x40, 0x7a, 0xfb, 0xff, 0xff, 0x3f]);
        let length = bytes.len() - 5 + ITEM_MAX;
        bytes.resize(length, 0);
        for size in [length, length - 1] {
            let (mut list, mut decoder) =
                (ListDecoder::<PartialObjectMetadata>::new(Encoding::Protobuf), Decoder::new());
            let mut count = 0;
            for piece in bytes.chunks(size) {
                list.push(piece);
                count += usize::from(list.next(&mut decoder).expect("it is not too long").is_some());
            }
            assert_eq!(count, 1, "in pieces of {size}");
        }
    }

    #[test]
    fn space_or_a_key_without_end_is_refused() {
        for (start, piece) in [("", b' '), ("{", b'\n'), ("{\"items\":[", b' '), ("{\"", b'k')] {
            let (mut list, mut decoder) = (ListDecoder::<PartialObjectMetadata>::new(Encoding::Json), Decoder::new());
            list.push(start.as_bytes());
            let is_refused = (0..100).any(|_| {
                list.push(&[piece; 1024]);
                list.next(&mut decoder).is_err()
            });
            assert!(is_refused, "{start}");
        }
    }

    #[test]
    fn an_object_that_cannot_be_read_is_passed_over() {
        let text = br#"{"kind":"FooList","metadata":{"resourceVersion":"7"},"items":[
            {"metadata":{"name":"a"}}, {"metadata":{"name":1}}, {"metadata":{"name":"b"}}, {"metadata":[]}]}"#;
        for size in 1..text.len() {
            let (mut list, mut decoder) = (ListDecoder::<PartialObjectMetadata>::new(Encoding::Json), Decoder::new());
            let (mut names, mut errors) = (Vec::new(), Vec::new());
            for piece in text.chunks(size) {
                list.push(piece);
                loop {
                    match list.next(&mut decoder) {
                        Ok(Some(object)) => names.extend(object.metadata.name),
                        Ok(None) => break,
                        Err(error) => {
                            assert!(list.can_go_on());
                            errors.push(error.path().to_owned());
                        }
                    }
                }
            }
            assert_eq!(names, ["a", "b"], "in pieces of {size}");
            assert_eq!(errors, ["items[1].metadata.name", "items[3].metadata"]);
            assert_eq!(list.finish().unwrap().resource_version.as_deref(), Some("7"));
        }
        let mut list = ListDecoder::<PartialObjectMetadata>::new(Encoding::Json);
        list.push(br#"{"kind":"Status"}"#);
        assert!(list.next(&mut Decoder::new()).is_err() && !list.can_go_on());
    }
}
