//! Decodes a list incrementally.

use std::marker::PhantomData;

use super::Encoding;
use super::buffer::{Buffer, Extent};
use super::slot::ObjectSlot;
use super::undecodable::{PartialIdentity, ReportedAs, StreamError};
use crate::codec::decoder::{DecodeError, Decoder};
use crate::codec::messages::{MAGIC, type_meta};
use crate::codec::protobuf::varint;
use crate::meta::v1::ListMeta;
use crate::{Object, Str};

/// Limit on the size of an object; a longer one never ends.
const ITEM_MAX: usize = 128 << 20;

/// Decodes the objects of a list as their bytes arrive.
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
    list: ErasedListDecoder,
    items: PhantomData<fn() -> T>,
}

/// The type-erased decoder.
#[derive(Debug)]
struct ErasedListDecoder {
    buffer: Buffer,
    state: ListState,
    metadata: ListMeta,
    /// Group and version, and the kind of the list, which Kubernetes writes before the items.
    type_: (Str, Str),
    count: usize,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum ListState {
    JsonStart,
    /// At a key of the list, or its end.
    JsonKey {
        first: bool,
    },
    /// At the value of a key.
    JsonValue(ListKey),
    /// At the first item, or the end of the items.
    JsonItems,
    JsonItem,
    JsonAfterItem,
    JsonEnd,
    ProtobufMagic,
    /// At a field of the envelope.
    ProtobufEnvelope,
    /// At a field of the list, with this many bytes remaining.
    ProtobufList {
        remaining: usize,
    },
    /// At a field of the envelope after the list.
    ProtobufEnd,
}

/// The keys of a list.
#[derive(Debug, Clone, Copy, PartialEq)]
enum ListKey {
    ApiVersion,
    Kind,
    Metadata,
    Items,
    Other,
}

impl<T: Object> ListDecoder<T> {
    /// A decoder at the start of a list.
    pub fn new(encoding: Encoding) -> Self {
        ListDecoder { list: ErasedListDecoder::new(encoding), items: PhantomData }
    }

    /// Appends received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.list.buffer.push(bytes);
    }

    /// The next object, or `None` until more bytes arrive.
    ///
    /// # Errors
    /// [`StreamError::Undecodable`] if one object cannot be decoded; the next call returns the
    /// object after it. Any other error makes the list unusable.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self, decoder: &mut Decoder) -> Result<Option<T>, StreamError> {
        let mut item = None;
        self.list.next(decoder, &mut item)?;
        Ok(item)
    }

    /// The list's metadata seen so far. Kubernetes writes it before the items.
    pub fn metadata(&self) -> &ListMeta {
        &self.list.metadata
    }

    /// The list's metadata, after the last byte; an error if the list is incomplete.
    pub fn finish(self) -> Result<ListMeta, DecodeError> {
        self.list.finish()
    }
}

impl ErasedListDecoder {
    fn new(encoding: Encoding) -> Self {
        let state = match encoding {
            Encoding::Json => ListState::JsonStart,
            Encoding::Protobuf => ListState::ProtobufMagic,
        };
        ErasedListDecoder {
            buffer: Buffer::default(),
            state,
            metadata: ListMeta::default(),
            type_: Default::default(),
            count: 0,
        }
    }

    /// Decodes the next object, if it is complete, into `slot`.
    fn next(&mut self, decoder: &mut Decoder, slot: &mut dyn ObjectSlot) -> Result<(), StreamError> {
        loop {
            let is_protobuf = matches!(
                self.state,
                ListState::ProtobufMagic
                    | ListState::ProtobufEnvelope
                    | ListState::ProtobufList { .. }
                    | ListState::ProtobufEnd
            );
            let step = if is_protobuf { self.protobuf(decoder, slot) } else { self.json(decoder, slot) };
            match step.map_err(|error| self.failed(error, is_protobuf, slot))? {
                Progress::Item => {
                    self.count += 1;
                    let (api_version, kind) = &self.type_;
                    if let Some(kind) = kind.strip_suffix("List").filter(|kind| !kind.is_empty()) {
                        slot.complete_type(api_version, kind);
                    }
                    return Ok(());
                }
                Progress::Going => {}
                // Protobuf parts have a length prefix.
                Progress::Waiting if !is_protobuf && self.buffer.bytes().len() > ITEM_MAX => {
                    return Err(StreamError::Unreadable(too_long()));
                }
                Progress::Waiting => return Ok(()),
            }
        }
    }

    /// Identifies the object of an error, if it concerns a single one.
    #[cold]
    fn failed(&self, error: DecodeError, is_protobuf: bool, slot: &dyn ObjectSlot) -> StreamError {
        let Some(bytes) = self.buffer.skipped() else { return StreamError::Unreadable(error) };
        let sketch = if is_protobuf { PartialIdentity::of_protobuf(bytes) } else { PartialIdentity::of_json(bytes) };
        sketch.into_error(ReportedAs::Listed, slot.static_kind().as_ref(), error)
    }

    fn finish(self) -> Result<ListMeta, DecodeError> {
        match self.state {
            ListState::JsonEnd => Ok(self.metadata),
            ListState::ProtobufEnd if self.buffer.bytes().is_empty() => Ok(self.metadata),
            _ => Err(DecodeError::truncated()),
        }
    }

    fn json(&mut self, decoder: &mut Decoder, slot: &mut dyn ObjectSlot) -> Result<Progress, DecodeError> {
        let (state, index) = (self.state, self.count);
        let (metadata, type_) = (&mut self.metadata, &mut self.type_);
        // Waits for one item at a time, never for all of them.
        let extent = match state {
            ListState::JsonItem
            | ListState::JsonValue(ListKey::ApiVersion | ListKey::Kind | ListKey::Metadata | ListKey::Other) => {
                Extent::Value
            }
            _ => Extent::Token,
        };
        let step = self.buffer.read(decoder, extent, |reader| match state {
            ListState::JsonStart => {
                reader.open(b'{', "object")?;
                Ok(ListState::JsonKey { first: true })
            }
            ListState::JsonKey { first } => {
                if first && reader.take(b'}') || !first && !reader.more(b'}')? {
                    return Ok(ListState::JsonEnd);
                }
                let mut escaped = Vec::new();
                let key = match reader.key(&mut escaped)? {
                    b"apiVersion" => ListKey::ApiVersion,
                    b"kind" => ListKey::Kind,
                    b"metadata" => ListKey::Metadata,
                    b"items" => ListKey::Items,
                    _ => ListKey::Other,
                };
                Ok(ListState::JsonValue(key))
            }
            ListState::JsonValue(ListKey::Items) => {
                if reader.null()? {
                    return Ok(ListState::JsonKey { first: false });
                }
                reader.open(b'[', "array").map_err(|error| error.within_field("items"))?;
                Ok(ListState::JsonItems)
            }
            ListState::JsonValue(key) => {
                match key {
                    _ if reader.null()? => {}
                    ListKey::Metadata => {
                        let mut found = ListMeta::default();
                        reader.message(&mut found).map_err(|error| error.within_field("metadata"))?;
                        *metadata = found;
                    }
                    ListKey::ApiVersion => type_.0 = reader.text().map_err(|error| error.within_field("apiVersion"))?,
                    ListKey::Kind => {
                        type_.1 = reader.text().map_err(|error| error.within_field("kind"))?;
                        check_kind(&type_.1)?;
                    }
                    _ => drop(reader.raw()?),
                }
                // A number ends only where something else begins.
                if reader.peek() == 0 {
                    return Err(reader.expected("a value"));
                }
                Ok(ListState::JsonKey { first: false })
            }
            ListState::JsonItems => match reader.peek() {
                0 => Err(reader.expected("a value")),
                _ if reader.take(b']') => Ok(ListState::JsonKey { first: false }),
                _ => Ok(ListState::JsonItem),
            },
            ListState::JsonItem => {
                let within = |error: DecodeError| error.within_item(index).within_field("items");
                slot.read_json(reader).map_err(within)?;
                Ok(ListState::JsonAfterItem)
            }
            ListState::JsonAfterItem => {
                let more = reader.more(b']')?;
                Ok(if more { ListState::JsonItem } else { ListState::JsonKey { first: false } })
            }
            _ => {
                reader.end()?;
                Ok(ListState::JsonEnd)
            }
        });
        let step = step.inspect_err(|_| match state {
            ListState::JsonItem if self.buffer.skipped().is_some() => {
                self.state = ListState::JsonAfterItem;
                self.count += 1;
            }
            // Only items can be skipped: a list without metadata is useless.
            _ => self.buffer.forget_skipped(),
        })?;
        Ok(match step {
            None => Progress::Waiting,
            Some(ListState::JsonEnd) if state == ListState::JsonEnd => Progress::Waiting,
            Some(next) => {
                self.state = next;
                if state == ListState::JsonItem { Progress::Item } else { Progress::Going }
            }
        })
    }

    fn protobuf(&mut self, decoder: &mut Decoder, slot: &mut dyn ObjectSlot) -> Result<Progress, DecodeError> {
        self.buffer.forget_skipped();
        let bytes = self.buffer.bytes();
        if self.state == ListState::ProtobufMagic {
            let length = bytes.len().min(MAGIC.len());
            if bytes[..length] != MAGIC[..length] {
                return Err(DecodeError::new("not a Kubernetes protobuf object: the bytes `k8s\\0` are missing"));
            }
            if length < MAGIC.len() {
                return Ok(Progress::Waiting);
            }
            self.buffer.consume(MAGIC.len());
            self.state = ListState::ProtobufEnvelope;
            return Ok(Progress::Going);
        }
        if self.state == (ListState::ProtobufList { remaining: 0 }) {
            self.state = ListState::ProtobufEnd;
            return Ok(Progress::Going);
        }
        // All fields of the envelope and of a list are length-delimited.
        let Some((tag, tag_length)) = varint(bytes)? else { return Ok(Progress::Waiting) };
        let Some((length, length_length)) = varint(&bytes[tag_length..])? else { return Ok(Progress::Waiting) };
        if tag & 7 != 2 {
            return Err(DecodeError::new(format!("unexpected wire type {} in a list", tag & 7)));
        }
        let (head, length) = (tag_length + length_length, usize::try_from(length).unwrap_or(usize::MAX));
        if (self.state, tag >> 3) == (ListState::ProtobufEnvelope, 2) {
            self.buffer.consume(head);
            self.state = ListState::ProtobufList { remaining: length };
            return Ok(Progress::Going);
        }
        let field = match (self.state, head.checked_add(length)) {
            (_, None) => return Err(DecodeError::new("length of a field is out of range")),
            (ListState::ProtobufList { remaining }, Some(end)) if end > remaining => {
                return Err(DecodeError::new("a field reaches beyond the end of its list"));
            }
            _ if length > ITEM_MAX => return Err(too_long()),
            (_, Some(end)) if bytes.len() < end => return Ok(Progress::Waiting),
            (_, Some(end)) => &bytes[head..end],
        };
        let mut step = Ok(Progress::Going);
        match (self.state, tag >> 3) {
            (ListState::ProtobufEnvelope, 1) => check_kind(&type_meta(field, decoder)?.1)?,
            (ListState::ProtobufList { .. }, 1) => decoder
                .protobuf_message_into(&mut self.metadata, field)
                .map_err(|error| error.within_field("metadata"))?,
            (ListState::ProtobufList { .. }, 2) => {
                let item = slot
                    .read_protobuf(field, decoder)
                    .ok_or_else(|| DecodeError::new("the type has no protobuf form"))?
                    .map_err(|error| error.within_item(self.count).within_field("items"));
                step = item.map(|()| Progress::Item);
            }
            _ => {}
        }
        let end = head + length;
        match step {
            Ok(_) => self.buffer.consume(end),
            Err(_) => {
                self.buffer.skip_object(head..end);
                self.count += 1;
            }
        }
        if let ListState::ProtobufList { remaining } = &mut self.state {
            *remaining -= end;
        }
        step
    }
}

#[cold]
fn too_long() -> DecodeError {
    DecodeError::new(format!("a part of a list is longer than {ITEM_MAX} bytes"))
}

enum Progress {
    /// An object is in the slot.
    Item,
    Going,
    Waiting,
}

/// A failed server sends a Status, which must not be taken for an empty list.
fn check_kind(kind: &str) -> Result<(), DecodeError> {
    if kind.is_empty() || kind.ends_with("List") {
        return Ok(());
    }
    Err(DecodeError::new(format!("expected a list, found {kind}")).within_field("kind"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ObjectKey;
    use crate::meta::v1::PartialObjectMetadata;
    use crate::stream::Undecodable;

    #[test]
    fn an_object_without_end_is_not_waited_for() {
        let mut list = ListDecoder::<PartialObjectMetadata>::new(Encoding::Protobuf);
        list.push(&MAGIC);
        // A list of two gigabytes with an object of one.
        list.push(&[0x12, 0x80, 0x80, 0x80, 0x80, 0x08, 0x12, 0x80, 0x80, 0x80, 0x80, 0x04]);
        let error = list.next(&mut Decoder::new()).expect_err("its length is known, nothing is collected");
        assert!(!error.can_go_on());
        let (mut list, mut decoder) = (ListDecoder::<PartialObjectMetadata>::new(Encoding::Json), Decoder::new());
        list.push(br#"{"items":[{"metadata":{"name":""#);
        let piece = vec![b'a'; 1 << 20];
        let pieces = (0..1024).take_while(|_| {
            list.push(&piece);
            let next = list.next(&mut decoder);
            next.inspect_err(|error| assert!(!error.can_go_on())).is_ok()
        });
        assert_eq!(pieces.count(), 127);
    }

    #[test]
    fn the_longest_object_is_taken_in_one_piece_and_in_several() {
        // A list of 128 MiB and five bytes with an object of 128 MiB, most of which is one unknown
        // field.
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

    /// Names of the objects, and the identities of undecodable ones.
    fn decode_in_pieces(encoding: Encoding, bytes: &[u8], size: usize) -> (Vec<Str>, Vec<Undecodable>, ListMeta) {
        let mut list = ListDecoder::<PartialObjectMetadata>::new(encoding);
        let mut decoder = Decoder::new();
        let mut names = Vec::new();
        let mut undecodable = Vec::new();
        for piece in bytes.chunks(size) {
            list.push(piece);
            loop {
                match list.next(&mut decoder) {
                    Ok(Some(object)) => names.extend(object.metadata.name),
                    Ok(None) => break,
                    Err(StreamError::Undecodable(object)) => undecodable.push(*object),
                    Err(error) => panic!("{error}"),
                }
            }
        }
        (names, undecodable, list.finish().expect("it has come whole"))
    }

    #[test]
    fn an_undecodable_object_is_named_and_the_others_follow() {
        let text = br#"{"kind":"FooList","metadata":{"resourceVersion":"7"},"items":[
            {"metadata":{"name":"a"}},
            {"metadata":{"labels":1,"name":"bad","namespace":"n","resourceVersion":"5","uid":"u"}},
            {"metadata":{"name":"b"}},
            {"metadata":{"name":"cluster","generation":"x"}}]}"#;
        for size in 1..text.len() {
            let (names, undecodable, metadata) = decode_in_pieces(Encoding::Json, text, size);
            assert_eq!(names, ["a", "b"], "in pieces of {size}");
            assert_eq!(metadata.resource_version.as_deref(), Some("7"));
            let [bad, cluster] = &undecodable[..] else { panic!("{undecodable:?}") };
            assert_eq!((bad.verb, bad.error.path().as_str()), (ReportedAs::Listed, "items[1].metadata.labels"));
            assert_eq!(bad.identity.key, ObjectKey::namespaced("n", "bad"));
            assert_eq!((bad.identity.uid.as_str(), bad.identity.resource_version.as_str()), ("u", "5"));
            assert_eq!(cluster.identity.key, ObjectKey::cluster("cluster"));
        }
        let mut list = ListDecoder::<PartialObjectMetadata>::new(Encoding::Json);
        list.push(br#"{"kind":"Status"}"#);
        assert!(list.next(&mut Decoder::new()).is_err_and(|error| !error.can_go_on()));
    }

    #[test]
    fn an_undecodable_protobuf_object_is_named_and_the_others_follow() {
        let field = |tag: u8, bytes: &[u8]| [&[tag, bytes.len() as u8], bytes].concat();
        // Field 4 of the second object's metadata is a number instead of a string.
        let metadata = [field(0x0a, b"bad"), field(0x1a, b"n"), vec![0x20, 1], field(0x2a, b"u"), field(0x3a, b"5")];
        let bad = field(0x12, &field(0x0a, &metadata.concat()));
        let good = field(0x12, &field(0x0a, &field(0x0a, b"a")));
        let list = [field(0x0a, &field(0x12, b"7")), bad, good].concat();
        let bytes = [&MAGIC[..], &field(0x12, &list)].concat();
        for size in 1..bytes.len() {
            let (names, undecodable, metadata) = decode_in_pieces(Encoding::Protobuf, &bytes, size);
            assert_eq!((&names[..], metadata.resource_version.as_deref()), (&["a".into()][..], Some("7")));
            let [bad] = &undecodable[..] else { panic!("{undecodable:?}") };
            assert_eq!(bad.identity.key, ObjectKey::namespaced("n", "bad"));
            assert_eq!((bad.identity.uid.as_str(), bad.identity.resource_version.as_str()), ("u", "5"));
        }
    }

    #[test]
    fn a_list_with_an_object_that_cannot_be_named_is_unreadable() {
        for item in [
            r#"{"metadata":[]}"#,
            r#"{"metadata":{"name":1}}"#,
            r#"{"metadata":{"labels":1}}"#,
            r#"{"metadata":{"labels":1,"name":"a","namespace":1}}"#,
            r#"{"metadata":{"labels":1,"name":"a","annotations":?}}"#,
        ] {
            let mut list = ListDecoder::<PartialObjectMetadata>::new(Encoding::Json);
            list.push(format!(r#"{{"items":[{item},{{"metadata":{{"name":"b"}}}}]}}"#).as_bytes());
            assert!(list.next(&mut Decoder::new()).is_err_and(|error| !error.can_go_on()), "{item}");
        }
    }
}
