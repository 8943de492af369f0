//! Decoding: what a caller sets, what is kept between objects, and how it fails.

mod error;
mod lasting;
mod pool;
mod repeats;

pub use error::DecodeError;
pub use pool::StringPool;

use std::any::Any;
use std::fmt;

use crate::message::Message;
use crate::protobuf::{self, Envelope};
use crate::scheme::{FieldInfo, Flags};
use crate::shared::Sharing;
use crate::{Str, json};
pub(crate) use repeats::Missed;
use repeats::Repeats;

/// How deep objects may be nested in each other. The deepest real ones are schemas of custom resources.
const MAX_DEPTH: u32 = 100;

/// Unknown and duplicate fields that are reported, as in kube-apiserver. A body can have a million.
pub const MAX_FINDINGS: usize = 100;

/// How many bytes the path of a finding may have.
const MAX_FINDING_PATH: usize = 4096;

/// Turns bytes into objects.
///
/// One decoder serves one stream of objects: what it keeps between them is the pool of strings.
///
/// ```
/// use kubewright_core::{Decoder, meta::v1::PartialObjectMetadata};
/// let json = br#"{"metadata": {"name": "web", "managedFields": [{"manager": "kubectl"}]}}"#;
/// let object: PartialObjectMetadata = Decoder::new().skip_managed_fields().json(json)?;
/// assert_eq!(object.metadata.name.as_deref(), Some("web"));
/// assert!(object.metadata.managed_fields.is_empty());
/// # Ok::<(), kubewright_core::DecodeError>(())
/// ```
#[derive(Debug)]
pub struct Decoder {
    pool: Option<StringPool>,
    /// There is one where there is a pool, unless findings are collected, which a repeated value would not give again.
    repeats: Option<Repeats>,
    skip_managed_fields: bool,
    findings: Option<Vec<Finding>>,
    depth: u32,
    lengths: Lengths,
    memory: Memory,
}

/// Something that strict field validation reports and tolerant decoding passes over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// The type has no such field.
    UnknownField(String),
    /// The field occurs twice; the last one counts.
    DuplicateField(String),
}

/// How long lists were the last time, by field: from object to object they mostly stay the same, and a list that is
/// made at its right size is neither moved nor trimmed. Fields that share a place only mislead each other.
struct Lengths([u8; 256]);

impl fmt::Debug for Lengths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lengths")
    }
}

/// What a type of objects keeps; see [`Decoder::memory`].
#[derive(Default)]
struct Memory(Option<Box<dyn Any + Send + Sync>>);

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Memory")
    }
}

impl Default for Decoder {
    fn default() -> Self {
        Decoder::new()
    }
}

impl Decoder {
    /// A decoder without a pool, which keeps everything it knows.
    pub fn new() -> Self {
        Decoder {
            pool: None,
            repeats: None,
            skip_managed_fields: false,
            findings: None,
            depth: 0,
            lengths: Lengths([0; 256]),
            memory: Memory::default(),
        }
    }

    /// Stores long strings, lists and sub-objects that repeat once, for objects that are kept.
    #[must_use]
    pub fn pool(mut self, pool: StringPool) -> Self {
        self.pool = Some(pool);
        self.repeats = self.findings.is_none().then(Repeats::default);
        self
    }

    /// Passes over `metadata.managedFields` without allocating any of it.
    #[must_use]
    pub fn skip_managed_fields(mut self) -> Self {
        self.skip_managed_fields = true;
        self
    }

    /// Collects unknown and duplicate fields for [`take_findings`](Self::take_findings), instead of
    /// passing over the former and failing on the latter.
    #[must_use]
    #[inline]
    pub fn report_findings(mut self) -> Self {
        self.findings = Some(Vec::new());
        self.repeats = None;
        self
    }

    /// What was found since the last call.
    pub fn take_findings(&mut self) -> Vec<Finding> {
        self.findings.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Decodes one JSON object, with nothing but white space after it.
    pub fn json<T: Message + Default>(&mut self, bytes: &[u8]) -> Result<T, DecodeError> {
        let mut object = T::default();
        self.json_into(&mut object, bytes)?;
        Ok(object)
    }

    /// Decodes one JSON object over `object`, whose fields keep what the bytes don't mention.
    pub fn json_into(&mut self, object: &mut dyn Message, bytes: &[u8]) -> Result<(), DecodeError> {
        self.depth = 0;
        let mut reader = json::Reader::new(bytes, self);
        reader.message(object)?;
        reader.end()
    }

    /// Decodes one protobuf object in its envelope (`k8s\\0` and `runtime.Unknown`), as servers send it.
    pub fn protobuf<T: Message + Default>(&mut self, bytes: &[u8]) -> Result<T, DecodeError> {
        let mut object = T::default();
        self.protobuf_into(&mut object, bytes)?;
        Ok(object)
    }

    /// Decodes one protobuf object in its envelope over `object`.
    pub fn protobuf_into(&mut self, object: &mut dyn Message, bytes: &[u8]) -> Result<(), DecodeError> {
        let envelope = Envelope::decode(bytes)?;
        if let Some(info) = &object.scheme().kind {
            envelope.check_kind(&info.into())?;
        }
        self.protobuf_message_into(object, envelope.raw)
    }

    /// Decodes one protobuf message, without an envelope, over `message`.
    pub fn protobuf_message_into(&mut self, message: &mut dyn Message, bytes: &[u8]) -> Result<(), DecodeError> {
        self.depth = 0;
        protobuf::decode_message(message, bytes, self)
    }

    /// What objects of one type keep from each to the next, for types that are not decoded field by field. There is one such
    /// memory; another type begins it anew.
    pub fn memory<M: Any + Default + Send + Sync>(&mut self) -> &mut M {
        let memory = &mut self.memory.0;
        if memory.as_ref().is_none_or(|memory| !memory.is::<M>()) {
            *memory = None;
        }
        let memory = memory.get_or_insert_with(|| Box::new(M::default()));
        memory.downcast_mut().expect("another type was dropped above")
    }

    /// Decodes a message inside of another, for [`Scalar`](crate::message::Scalar)s that hold messages.
    #[inline]
    pub fn nested_message(&mut self, message: &mut dyn Message, bytes: &[u8]) -> Result<(), DecodeError> {
        protobuf::decode_message(message, bytes, self)
    }

    /// The text of `bytes`, from the pool where one is in use.
    pub fn text(&mut self, bytes: &[u8]) -> Result<Str, DecodeError> {
        let mut text = Str::new();
        self.set_text(&mut text, bytes)?;
        Ok(text)
    }

    /// Sets `place` to the text of `bytes`. As [`text`](Self::text), but the string is not moved about.
    #[inline]
    pub fn set_text(&mut self, place: &mut Str, bytes: &[u8]) -> Result<(), DecodeError> {
        match &mut self.pool {
            Some(pool) => pool.set(place, bytes),
            None => set_new_text(place, bytes),
        }
    }

    /// As [`set_text`](Self::set_text), for a field whose texts may be known not to repeat.
    #[inline]
    pub(crate) fn set_field(&mut self, place: &mut Str, bytes: &[u8], flags: u16) -> Result<(), DecodeError> {
        if flags & Flags::UNIQUE != 0 { set_new_text(place, bytes) } else { self.set_text(place, bytes) }
    }

    /// Where the length of a list of `field` is remembered.
    #[inline]
    pub(crate) fn length_of(&mut self, field: &FieldInfo) -> &mut u8 {
        let address = std::ptr::from_ref(field).addr();
        &mut self.lengths.0[(address / size_of::<FieldInfo>()) % 256]
    }

    /// What is remembered of the field `id`, if anything is.
    #[inline]
    pub(crate) fn field(&mut self, id: usize) -> Option<usize> {
        self.repeats.as_mut().map(|repeats| repeats.find(id))
    }

    /// Gives an empty `place` the value that a [`field`](Self::field) had when it was decoded from these `bytes`.
    #[inline]
    pub(crate) fn recall(
        &mut self,
        field: Option<usize>,
        place: &mut dyn Sharing,
        bytes: &[u8],
    ) -> Result<u32, Missed> {
        match (&mut self.repeats, field) {
            (Some(repeats), Some(field)) if Repeats::takes(bytes.len(), self.depth) => {
                repeats.recall(field, place, bytes)
            }
            _ => Err(Missed::IGNORED),
        }
    }

    /// Gives an empty `place` a value that the field `id` had, where the end of its bytes is yet to be found in `text`.
    #[inline]
    pub(crate) fn recall_start(&mut self, id: usize, place: &mut dyn Sharing, text: &[u8]) -> Result<u32, Missed> {
        match &mut self.repeats {
            Some(repeats) if Repeats::takes(text.len().min(64), self.depth) => repeats.recall_start(id, place, text),
            _ => Err(Missed::IGNORED),
        }
    }

    /// Remembers the value that a field, which could not be recalled, got from `bytes`.
    #[inline]
    pub(crate) fn remember(&mut self, missed: Missed, place: &mut dyn Sharing, bytes: &[u8]) {
        if let Some(repeats) = &mut self.repeats
            && Repeats::takes(bytes.len(), self.depth)
        {
            repeats.remember(missed, bytes, place);
        }
    }

    /// Whether the list of a [`field`](Self::field) that comes next is not to be recalled, because its lists never are: how many items it may
    /// have.
    #[inline]
    pub(crate) fn passes(&mut self, field: Option<usize>) -> Option<u8> {
        self.repeats.as_mut()?.passes(field?)
    }

    /// Notes how many items there were.
    #[inline]
    pub(crate) fn note_length(&mut self, field: Option<usize>, length: usize) {
        if let (Some(repeats), Some(field)) = (&mut self.repeats, field) {
            repeats.note_length(field, length);
        }
    }

    pub(crate) fn skips_managed_fields(&self) -> bool {
        self.skip_managed_fields
    }

    /// Goes one object deeper; the caller calls `leave` when it is done, unless decoding failed.
    #[inline]
    pub(crate) fn enter(&mut self) -> Result<(), DecodeError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(too_deep());
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn leave(&mut self) {
        self.depth -= 1;
    }

    pub(crate) fn unknown_field(&mut self, name: &str) {
        if let Some(findings) = self.findings.as_mut().filter(|findings| findings.len() < MAX_FINDINGS) {
            findings.push(Finding::UnknownField(name.to_owned()));
        }
    }

    /// Notes a field that occurs again, which is an error unless findings are collected.
    pub(crate) fn duplicate_field(&mut self, name: &str) -> Result<(), DecodeError> {
        match &mut self.findings {
            Some(findings) => {
                if findings.len() < MAX_FINDINGS {
                    findings.push(Finding::DuplicateField(name.to_owned()));
                }
                Ok(())
            }
            None => Err(DecodeError::new("duplicate field").within_field(name)),
        }
    }

    /// Notes the key of a map that occurs again; the path to it is that of its entry.
    pub(crate) fn duplicate_key(&mut self) -> Result<(), DecodeError> {
        match &mut self.findings {
            Some(findings) => {
                if findings.len() < MAX_FINDINGS {
                    findings.push(Finding::DuplicateField(String::new()));
                }
                Ok(())
            }
            None => Err(DecodeError::new("duplicate field")),
        }
    }

    /// How many findings there are; with [`prefix_findings`](Self::prefix_findings), how paths grow from the inside.
    pub(crate) fn finding_count(&self) -> usize {
        self.findings.as_ref().map_or(0, Vec::len)
    }

    /// Drops findings of an attempt that will be made again, and what it had entered.
    pub(crate) fn forget(&mut self, since: usize) {
        self.depth = 0;
        if let Some(findings) = &mut self.findings {
            findings.truncate(since);
        }
    }

    /// Puts `prefix` before the paths of the findings since `since`.
    ///
    /// A path that grows too long keeps its last part: the input chooses length and depth of the
    /// keys.
    pub(crate) fn prefix_findings(&mut self, since: usize, prefix: &dyn Fn() -> String) {
        let prefix = prefix();
        for finding in self.findings.iter_mut().flatten().skip(since) {
            let (Finding::UnknownField(path) | Finding::DuplicateField(path)) = finding;
            if prefix.len() + path.len() > MAX_FINDING_PATH {
                continue;
            }
            let dot = if path.is_empty() || path.starts_with('[') { "" } else { "." };
            *path = format!("{prefix}{dot}{path}");
        }
    }
}

#[cold]
fn too_deep() -> DecodeError {
    DecodeError::new(format!("nested deeper than {MAX_DEPTH} objects"))
}

fn set_new_text(place: &mut Str, bytes: &[u8]) -> Result<(), DecodeError> {
    match std::str::from_utf8(bytes) {
        Ok(text) => {
            *place = Str::from(text);
            Ok(())
        }
        Err(error) => Err(DecodeError::utf8(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Value;
    use crate::json::Reader;
    use crate::meta::v1::PartialObjectMetadata;

    #[test]
    fn findings_name_the_path_once() {
        let mut decoder = Decoder::new().report_findings();
        let json = br#"{"metadata": {"labels": {"a": "1", "a": "2"}, "name": "x", "name": "y", "nope": 1}}"#;
        let object: PartialObjectMetadata = decoder.json(json).expect("duplicates are no errors here");
        assert_eq!(object.metadata.labels.get("a").map(Str::as_str), Some("2"));
        let duplicate = |path: &str| Finding::DuplicateField(path.to_owned());
        let unknown = Finding::UnknownField("metadata.nope".to_owned());
        assert_eq!(decoder.take_findings(), [duplicate("metadata.labels.a"), duplicate("metadata.name"), unknown]);

        Reader::new(br#"{"spec": [{"k": 1, "k": 2}]}"#, &mut decoder).tree().expect("valid JSON");
        assert_eq!(decoder.take_findings(), [duplicate("spec[0].k")]);
        let error = Value::from_json(br#"{"spec": {"k": 1, "k": 2}}"#).expect_err("without findings it is an error");
        assert_eq!(error.path(), "spec.k");
    }
}
