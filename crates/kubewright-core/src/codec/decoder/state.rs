//! The decoder: its options, and the state it keeps between objects.

use std::any::Any;
use std::fmt;

use super::error::DecodeError;
use super::pool::StringPool;
use super::text::set_new_text;
use super::value_cache::{CacheMiss, ValueCache};
use crate::Str;
use crate::codec::scheme::{FieldInfo, Flags};
use crate::codec::sharing::Sharing;

/// Maximum nesting of objects. The deepest real ones are CRD schemas.
const MAX_DEPTH: u32 = 100;

/// Maximum number of reported unknown and duplicate fields, as in kube-apiserver. A body can
/// contain a million.
pub const MAX_FINDINGS: usize = 100;

/// Maximum length of the path of a finding, in bytes.
const MAX_FINDING_PATH: usize = 4096;

/// Decodes objects.
///
/// Use one decoder per stream of objects: it keeps a string pool between them.
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
    /// Set if there is a pool, unless findings are collected: a value taken from the cache reports
    /// none.
    value_cache: Option<ValueCache>,
    skip_managed_fields: bool,
    findings: Option<Vec<Finding>>,
    pub(in crate::codec) depth: u32,
    lengths: Lengths,
    memory: Memory,
}

/// A problem that strict field validation reports and lenient decoding ignores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// The type has no such field.
    UnknownField(String),
    /// The field is repeated; the last value wins.
    DuplicateField(String),
}

/// The last length of each list field. Lengths rarely change between objects, and a list allocated
/// at its exact size is neither moved nor shrunk. Hash collisions only give wrong estimates.
struct Lengths([u8; 256]);

impl fmt::Debug for Lengths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lengths")
    }
}

/// State that a type keeps between objects; see [`Decoder::memory`].
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
    /// A decoder without a pool, which decodes all fields.
    pub fn new() -> Self {
        Decoder {
            pool: None,
            value_cache: None,
            skip_managed_fields: false,
            findings: None,
            depth: 0,
            lengths: Lengths([0; 256]),
            memory: Memory::default(),
        }
    }

    /// Interns repeated long strings, lists and sub-objects, for objects that are stored.
    #[must_use]
    pub fn pool(mut self, pool: StringPool) -> Self {
        self.pool = Some(pool);
        self.value_cache = self.findings.is_none().then(ValueCache::default);
        self
    }

    /// Skips `metadata.managedFields` without allocating.
    #[must_use]
    pub fn skip_managed_fields(mut self) -> Self {
        self.skip_managed_fields = true;
        self
    }

    /// Collects unknown and duplicate fields for [`take_findings`](Self::take_findings). By default
    /// unknown fields are ignored, and duplicate fields are an error.
    #[must_use]
    #[inline]
    pub fn report_findings(mut self) -> Self {
        self.findings = Some(Vec::new());
        self.value_cache = None;
        self
    }

    /// The findings since the last call.
    pub fn take_findings(&mut self) -> Vec<Finding> {
        self.findings.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// State that one type keeps between objects, for types that are not decoded field by field.
    /// There is one such value; a different type replaces it.
    pub fn memory<M: Any + Default + Send + Sync>(&mut self) -> &mut M {
        let memory = &mut self.memory.0;
        if memory.as_ref().is_none_or(|memory| !memory.is::<M>()) {
            *memory = None;
        }
        let memory = memory.get_or_insert_with(|| Box::new(M::default()));
        memory.downcast_mut().expect("another type was dropped above")
    }

    /// The string of `bytes`, interned if there is a pool.
    pub fn text(&mut self, bytes: &[u8]) -> Result<Str, DecodeError> {
        let mut text = Str::new();
        self.set_text(&mut text, bytes)?;
        Ok(text)
    }

    /// Sets `place` to the string of `bytes`. Like [`text`](Self::text), without moving the string.
    #[inline]
    pub fn set_text(&mut self, place: &mut Str, bytes: &[u8]) -> Result<(), DecodeError> {
        match &mut self.pool {
            Some(pool) => pool.set(place, bytes),
            None => set_new_text(place, bytes),
        }
    }

    /// Like [`set_text`](Self::set_text), without interning for a field whose values never repeat.
    #[inline]
    pub(crate) fn set_field(&mut self, place: &mut Str, bytes: &[u8], flags: u16) -> Result<(), DecodeError> {
        if flags & Flags::UNIQUE != 0 { set_new_text(place, bytes) } else { self.set_text(place, bytes) }
    }

    /// The slot for the last length of the list `field`.
    #[inline]
    pub(crate) fn length_of(&mut self, field: &FieldInfo) -> &mut u8 {
        let address = std::ptr::from_ref(field).addr();
        &mut self.lengths.0[(address / size_of::<FieldInfo>()) % 256]
    }

    /// The index of the field `id` in the cache of repeated values, if there is one.
    #[inline]
    pub(crate) fn field(&mut self, id: usize) -> Option<usize> {
        self.value_cache.as_mut().map(|value_cache| value_cache.find(id))
    }

    /// Sets an empty `place` to the cached value of a [`field`](Self::field) for these `bytes`, on
    /// a hit.
    #[inline]
    pub(crate) fn recall(
        &mut self,
        field: Option<usize>,
        place: &mut dyn Sharing,
        bytes: &[u8],
    ) -> Result<u32, CacheMiss> {
        match (&mut self.value_cache, field) {
            (Some(value_cache), Some(field)) if ValueCache::takes(bytes.len(), self.depth) => {
                value_cache.recall(field, place, bytes)
            }
            _ => Err(CacheMiss::IGNORED),
        }
    }

    /// Sets an empty `place` to a cached value of the field `id`, if `text` starts with its bytes.
    #[inline]
    pub(crate) fn recall_start(&mut self, id: usize, place: &mut dyn Sharing, text: &[u8]) -> Result<u32, CacheMiss> {
        match &mut self.value_cache {
            Some(value_cache) if ValueCache::takes(text.len().min(64), self.depth) => {
                value_cache.recall_start(id, place, text)
            }
            _ => Err(CacheMiss::IGNORED),
        }
    }

    /// Caches the value that a field was decoded to after a miss.
    #[inline]
    pub(crate) fn remember(&mut self, missed: CacheMiss, place: &mut dyn Sharing, bytes: &[u8]) {
        if let Some(value_cache) = &mut self.value_cache
            && ValueCache::takes(bytes.len(), self.depth)
        {
            value_cache.remember(missed, bytes, place);
        }
    }

    /// Whether to skip the lookup for the next list of a [`field`](Self::field), because its lists
    /// never repeat. Returns its expected length.
    #[inline]
    pub(crate) fn passes(&mut self, field: Option<usize>) -> Option<u8> {
        self.value_cache.as_mut()?.passes(field?)
    }

    /// Records the length of a list.
    #[inline]
    pub(crate) fn note_length(&mut self, field: Option<usize>, length: usize) {
        if let (Some(value_cache), Some(field)) = (&mut self.value_cache, field) {
            value_cache.note_length(field, length);
        }
    }

    pub(crate) fn skips_managed_fields(&self) -> bool {
        self.skip_managed_fields
    }

    /// Enters a nested object; the caller calls `leave` afterwards, unless decoding failed.
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

    /// Reports a duplicate field, which is an error unless findings are collected.
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

    /// Reports a duplicate map key; its path is that of its entry.
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

    /// The number of findings; used with [`prefix_findings`](Self::prefix_findings) to build paths
    /// from the inside out.
    pub(crate) fn finding_count(&self) -> usize {
        self.findings.as_ref().map_or(0, Vec::len)
    }

    /// Drops the findings and the nesting depth of an attempt that will be repeated.
    pub(crate) fn forget(&mut self, since: usize) {
        self.depth = 0;
        if let Some(findings) = &mut self.findings {
            findings.truncate(since);
        }
    }

    /// Prepends `prefix` to the paths of the findings after the first `since`.
    ///
    /// A path that becomes too long keeps its last part: the input controls the length and depth of
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
