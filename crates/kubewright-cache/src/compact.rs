//! Objects that are kept as their bytes and decoded when they are read.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;

use kubewright_core::json::{Reader, Writer};
use kubewright_core::meta::v1::{ObjectMeta, OwnerReference, PartialObjectMetadata};
use kubewright_core::protobuf::{Encoder, Envelope, Wire, encode_message};
use kubewright_core::{
    DecodeError, Decoder, EncodedMap, GroupVersionKind, Kind, Object, ResourceInfo, Str, StringMap, Time,
};

/// The number of `metadata` in every object, and of some of its fields.
const METADATA: u32 = 1;
const NAME: u32 = 1;
const NAMESPACE: u32 = 3;
const UID: u32 = 5;
const RESOURCE_VERSION: u32 = 6;
const LABELS: u32 = 11;
const ANNOTATIONS: u32 = 12;
const MANAGED_FIELDS: u32 = 17;

/// An object of type `T` as its protobuf bytes, without managed fields: for very large caches.
///
/// Key, uid, version, labels and annotations are read from the bytes as they lie; everything else by [`decode`](Self::decode), which
/// costs as much as reading from the network does. It is an object like any other, so that `factory.informer::<Compact<Pod>>()`
/// makes a cache of such. Index functions run when an object comes in: what they decode is not decoded again.
/// Types without protobuf are kept as JSON.
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
    /// The object; after it, where that is not protobuf, its metadata once more as protobuf.
    bytes: Box<[u8]>,
    metadata: (u32, u32),
    /// Places of texts in the metadata: start and length.
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
    /// If its metadata is beyond all bounds.
    pub fn new(object: &T) -> Result<Self, DecodeError> {
        match object.to_protobuf() {
            Some(bytes) => Self::from_message(Envelope::decode(&bytes)?.raw),
            None => {
                let mut bytes = object.to_json();
                let whole: PartialObjectMetadata = Decoder::new().skip_managed_fields().json(&bytes)?;
                let start = bytes.len();
                encode_message(&whole.metadata, &mut bytes);
                Self::with_metadata(bytes, start..usize::MAX)
            }
        }
    }

    /// The object.
    ///
    /// # Errors
    /// If the bytes, which came from the server as they are, are not such an object.
    pub fn decode(&self) -> Result<T, DecodeError> {
        let mut decoder = Decoder::new();
        if T::HAS_PROTOBUF
            && let Some(object) = T::from_protobuf(&self.bytes, &mut decoder)
        {
            return object;
        }
        T::from_json(&mut Reader::new(&self.bytes[..self.metadata.0 as usize], &mut decoder))
    }

    /// How many bytes the object takes.
    pub fn byte_len(&self) -> usize {
        self.bytes.len() + size_of::<Self>()
    }

    /// Copies a message without its managed fields.
    fn from_message(message: &[u8]) -> Result<Self, DecodeError> {
        let mut bytes = Vec::with_capacity(message.len());
        let mut place = 0..0;
        for field in Wire::Bytes(message).fields()? {
            let (number, wire) = field?;
            if number != METADATA {
                copy(&mut Encoder { out: &mut bytes }, number, wire);
                continue;
            }
            let mut metadata = Vec::new();
            for field in wire.fields()? {
                let (number, wire) = field?;
                if number != MANAGED_FIELDS {
                    copy(&mut Encoder { out: &mut metadata }, number, wire);
                }
            }
            copy(&mut Encoder { out: &mut bytes }, number, Wire::Bytes(&metadata));
            place = bytes.len() - metadata.len()..bytes.len();
        }
        // Copied to an allocation of its size: cutting this one short would leave a hole behind each object.
        Self::with_metadata(bytes.as_slice().to_vec(), place)
    }

    /// Finds the places of what is read often.
    fn with_metadata(bytes: Vec<u8>, place: Range<usize>) -> Result<Self, DecodeError> {
        let place = place.start..place.end.min(bytes.len());
        let too_large = |_| DecodeError::new("metadata is too large to be kept");
        let metadata = &bytes[place.clone()];
        let mut places = [(0, 0); 4];
        for field in Wire::Bytes(metadata).fields()? {
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
        let start = u32::try_from(place.start).map_err(too_large)?;
        let length = u32::try_from(place.len()).map_err(too_large)?;
        let metadata = (start, length);
        Ok(Compact { bytes: bytes.into(), metadata, name, namespace, uid, version, objects: PhantomData })
    }

    fn metadata_bytes(&self) -> &[u8] {
        let (start, length) = self.metadata;
        &self.bytes[start as usize..][..length as usize]
    }

    fn text(&self, (start, length): (u16, u16)) -> &str {
        let bytes = &self.metadata_bytes()[usize::from(start)..][..usize::from(length)];
        std::str::from_utf8(bytes).unwrap_or_default()
    }

    /// The metadata, decoded; empty where it cannot be.
    pub fn metadata(&self) -> ObjectMeta {
        let mut metadata = ObjectMeta::default();
        match Decoder::new().protobuf_message_into(&mut metadata, self.metadata_bytes()) {
            Ok(()) => metadata,
            Err(_) => ObjectMeta::default(),
        }
    }

    /// Decodes, changes and encodes again; what cannot be decoded stays as it is.
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
        // No field of the API has this form.
        Wire::Fixed32(_) => {}
    }
}

impl<T: Kind> Kind for Compact<T> {
    const RESOURCE: &'static ResourceInfo = T::RESOURCE;
}

impl<T: Kind> Object for Compact<T> {
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

    fn from_json(reader: &mut Reader<'_, '_>) -> Result<Self, DecodeError> {
        Compact::new(&T::from_json(reader)?)
    }

    fn from_protobuf(bytes: &[u8], _: &mut Decoder) -> Option<Result<Self, DecodeError>> {
        T::HAS_PROTOBUF.then(|| Self::from_message(bytes))
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
        Compact { bytes: self.bytes.clone(), objects: PhantomData, ..*self }
    }
}

impl<T: Kind> PartialEq for Compact<T> {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl<T: Kind> fmt::Debug for Compact<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compact").field("key", &self.key()).field("bytes", &self.bytes.len()).finish()
    }
}
