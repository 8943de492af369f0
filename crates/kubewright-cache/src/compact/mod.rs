//! Objects stored as encoded bytes and decoded on access.

mod draft;

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use kubewright_core::json::{Reader, Writer};
use kubewright_core::meta::v1::{ObjectMeta, OwnerReference, PartialObjectMetadata};
use kubewright_core::protobuf::{Encoder, Envelope, Wire, encode_message};
use kubewright_core::{
    DecodeError, Decoder, EncodedMap, GroupVersionKind, Kind, Object, ResourceInfo, Str, StringMap, Time,
};

use draft::Drafts;

/// Protobuf field numbers of `metadata` and of some of its fields.
const METADATA: u32 = 1;
const NAME: u32 = 1;
const NAMESPACE: u32 = 3;
const UID: u32 = 5;
const RESOURCE_VERSION: u32 = 6;
const LABELS: u32 = 11;
const ANNOTATIONS: u32 = 12;
const MANAGED_FIELDS: u32 = 17;

/// An object of type `T` stored as protobuf bytes without managed fields, for very large caches.
///
/// Key, uid, version, labels and annotations are read directly from the bytes. Everything else
/// needs [`decode`](Self::decode), which costs as much as decoding from the network. It implements
/// `Object`, so `factory.informer::<Compact<Pod>>()` returns an informer of compact pods. Index
/// functions run once, when an object enters the store. Types without protobuf are stored as JSON.
///
/// Objects of one stream are delta-encoded against one of them, except for the metadata. Similar
/// pods take half of their encoded size.
///
/// ```
/// # use kubewright_cache::Compact;
/// # use kubewright_core::{Kind, Object};
/// # fn example<Pod: Kind>(pod: &Pod) -> Result<(), kubewright_core::DecodeError> {
/// let small = Compact::new(pod)?;
/// assert_eq!(small.key(), pod.key());
/// let whole: Pod = small.decode()?;
/// # Ok(()) }
/// ```
pub struct Compact<T> {
    /// The metadata as a protobuf message, followed by the delta-encoded rest (or the delta-encoded
    /// JSON).
    bytes: Box<[u8]>,
    draft: Arc<[u8]>,
    metadata: u32,
    /// Positions of strings in the metadata: start and length.
    name: (u16, u16),
    namespace: (u16, u16),
    uid: (u16, u16),
    version: (u16, u16),
    objects: PhantomData<fn() -> T>,
}

impl<T: Kind> Compact<T> {
    /// Encodes an object.
    ///
    /// # Errors
    /// If its metadata is too large.
    pub fn new(object: &T) -> Result<Self, DecodeError> {
        Self::encode(object, &mut Drafts::default())
    }

    fn encode(object: &T, drafts: &mut Drafts) -> Result<Self, DecodeError> {
        match object.to_protobuf() {
            Some(bytes) => Self::from_message(Envelope::decode(&bytes)?.raw, drafts),
            None => {
                let json = object.to_json();
                let whole: PartialObjectMetadata = Decoder::new().skip_managed_fields().json(&json)?;
                let mut metadata = Vec::new();
                encode_message(&whole.metadata, &mut metadata);
                Self::from_parts(metadata, &json, drafts)
            }
        }
    }

    /// The object.
    ///
    /// # Errors
    /// If the bytes, which the server sent, do not encode a `T`.
    pub fn decode(&self) -> Result<T, DecodeError> {
        let mut decoder = Decoder::new();
        let rest = self.rest()?;
        if T::HAS_PROTOBUF {
            let mut bytes = Vec::with_capacity(self.metadata_bytes().len() + rest.len() + 8);
            Encoder { out: &mut bytes }.bytes(METADATA, self.metadata_bytes());
            bytes.extend_from_slice(&rest);
            if let Some(object) = T::from_protobuf(&bytes, &mut decoder) {
                return object;
            }
        }
        T::from_json(&mut Reader::new(&rest, &mut decoder))
    }

    /// Size of the object in bytes, without the shared draft.
    pub fn byte_len(&self) -> usize {
        self.bytes.len() + size_of::<Self>()
    }

    /// Encodes a protobuf message without its managed fields.
    fn from_message(message: &[u8], drafts: &mut Drafts) -> Result<Self, DecodeError> {
        let (mut metadata, mut rest) = (Vec::new(), Vec::with_capacity(message.len()));
        for field in Wire::Bytes(message).fields()? {
            let (number, wire) = field?;
            if number != METADATA {
                copy(&mut Encoder { out: &mut rest }, number, wire);
                continue;
            }
            for field in wire.fields()? {
                let (number, wire) = field?;
                if number != MANAGED_FIELDS {
                    copy(&mut Encoder { out: &mut metadata }, number, wire);
                }
            }
        }
        Self::from_parts(metadata, &rest, drafts)
    }

    /// Records the positions of frequently read fields.
    fn from_parts(metadata: Vec<u8>, rest: &[u8], drafts: &mut Drafts) -> Result<Self, DecodeError> {
        let too_large = |_| DecodeError::new("metadata is too large");
        let mut places = [(0, 0); 4];
        for field in Wire::Bytes(&metadata).fields()? {
            let (number, wire) = field?;
            let Some(at) = [NAME, NAMESPACE, UID, RESOURCE_VERSION].iter().position(|known| *known == number) else {
                continue;
            };
            let text = wire.bytes()?;
            std::str::from_utf8(text).map_err(|_| DecodeError::new("metadata is not UTF-8"))?;
            let start = text.as_ptr().addr() - metadata.as_ptr().addr();
            places[at] = (u16::try_from(start).map_err(too_large)?, u16::try_from(text.len()).map_err(too_large)?);
        }
        let [name, namespace, uid, version] = places;
        let (differences, draft) = drafts.differences(rest);
        Ok(Compact {
            // Allocated at the exact size: shrinking a larger buffer would fragment the heap.
            bytes: [&metadata, differences].concat().into(),
            draft,
            metadata: u32::try_from(metadata.len()).map_err(too_large)?,
            name,
            namespace,
            uid,
            version,
            objects: PhantomData,
        })
    }

    fn metadata_bytes(&self) -> &[u8] {
        &self.bytes[..self.metadata as usize]
    }

    /// The delta-encoded part.
    fn differences(&self) -> &[u8] {
        &self.bytes[self.metadata as usize..]
    }

    /// Everything except the metadata, or the whole JSON.
    fn rest(&self) -> Result<Vec<u8>, DecodeError> {
        let mut rest = Vec::with_capacity(self.draft.len() + self.differences().len());
        draft::restore(self.differences(), &self.draft, &mut rest)?;
        Ok(rest)
    }

    fn text(&self, (start, length): (u16, u16)) -> &str {
        let bytes = &self.metadata_bytes()[usize::from(start)..][..usize::from(length)];
        std::str::from_utf8(bytes).unwrap_or_default()
    }

    /// The decoded metadata; empty if it cannot be decoded.
    pub fn metadata(&self) -> ObjectMeta {
        let mut metadata = ObjectMeta::default();
        match Decoder::new().protobuf_message_into(&mut metadata, self.metadata_bytes()) {
            Ok(()) => metadata,
            Err(_) => ObjectMeta::default(),
        }
    }

    /// Decodes, changes and encodes the object. If decoding fails, the object stays as it is.
    fn change(&mut self, change: impl FnOnce(&mut T)) {
        if let Ok(mut object) = self.decode() {
            change(&mut object);
            if let Ok(changed) = Compact::new(&object) {
                *self = changed;
            }
        }
    }
}

fn copy(encoder: &mut Encoder<'_>, number: u32, wire: Wire<'_>) {
    match wire {
        Wire::Varint(value) => encoder.varint(number, value),
        Wire::Fixed64(value) => encoder.fixed64(number, value),
        Wire::Bytes(bytes) => encoder.bytes(number, bytes),
        // No API field has this wire type.
        Wire::Fixed32(_) => {}
    }
}

impl<T: Kind> Kind for Compact<T> {
    const RESOURCE: &'static ResourceInfo = T::RESOURCE;
}

impl<T: Kind> Object for Compact<T> {
    type Scope = T::Scope;

    const HAS_PROTOBUF: bool = T::HAS_PROTOBUF;

    fn group_version_kind(&self) -> GroupVersionKind {
        (&T::RESOURCE.kind).into()
    }

    fn name(&self) -> &str {
        self.text(self.name)
    }

    fn namespace(&self) -> &str {
        self.text(self.namespace)
    }

    fn uid(&self) -> &str {
        self.text(self.uid)
    }

    fn resource_version(&self) -> &str {
        self.text(self.version)
    }

    fn generation(&self) -> Option<i64> {
        self.metadata().generation
    }

    fn creation_timestamp(&self) -> Option<Time> {
        self.metadata().creation_timestamp
    }

    fn deletion_timestamp(&self) -> Option<Time> {
        self.metadata().deletion_timestamp
    }

    fn labels(&self) -> StringMap<'_> {
        StringMap::Encoded(EncodedMap::new(self.metadata_bytes(), LABELS))
    }

    fn annotations(&self) -> StringMap<'_> {
        StringMap::Encoded(EncodedMap::new(self.metadata_bytes(), ANNOTATIONS))
    }

    fn owner_references(&self) -> Cow<'_, [OwnerReference]> {
        Cow::Owned(self.metadata().owner_references.to_vec())
    }

    fn finalizers(&self) -> Cow<'_, [Str]> {
        Cow::Owned(self.metadata().finalizers.to_vec())
    }

    fn set_name(&mut self, name: &str) {
        self.change(|object| object.set_name(name));
    }

    fn set_namespace(&mut self, namespace: &str) {
        self.change(|object| object.set_namespace(namespace));
    }

    fn set_resource_version(&mut self, version: &str) {
        self.change(|object| object.set_resource_version(version));
    }

    fn set_owner_references(&mut self, references: Vec<OwnerReference>) {
        self.change(|object| object.set_owner_references(references));
    }

    fn static_kind() -> Option<GroupVersionKind> {
        T::static_kind()
    }

    fn from_json(reader: &mut Reader<'_, '_>) -> Result<Self, DecodeError> {
        let object = T::from_json(reader)?;
        Self::encode(&object, reader.decoder().memory())
    }

    fn from_protobuf(bytes: &[u8], decoder: &mut Decoder) -> Option<Result<Self, DecodeError>> {
        T::HAS_PROTOBUF.then(|| Self::from_message(bytes, decoder.memory()))
    }

    fn write_json(&self, writer: &mut Writer<'_>) {
        if let Ok(object) = self.decode() {
            object.write_json(writer);
        }
    }

    fn to_protobuf(&self) -> Option<Vec<u8>> {
        self.decode().ok()?.to_protobuf()
    }
}

impl<T> Clone for Compact<T> {
    fn clone(&self) -> Self {
        Compact { bytes: self.bytes.clone(), draft: Arc::clone(&self.draft), objects: PhantomData, ..*self }
    }
}

impl<T: Kind> PartialEq for Compact<T> {
    fn eq(&self, other: &Self) -> bool {
        // Equal objects may be encoded against different drafts.
        let same = Arc::ptr_eq(&self.draft, &other.draft) && self.differences() == other.differences();
        self.metadata_bytes() == other.metadata_bytes()
            && (same || self.rest().is_ok_and(|rest| other.rest().is_ok_and(|others| rest == others)))
    }
}

impl<T: Kind> fmt::Debug for Compact<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compact").field("key", &self.key()).field("bytes", &self.bytes.len()).finish()
    }
}
