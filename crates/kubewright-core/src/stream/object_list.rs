//! A list response: metadata and objects.

use crate::codec::decoder::{DecodeError, Decoder};
use crate::codec::json::Writer;
use crate::meta::v1::ListMeta;
use crate::stream::{Encoding, ListDecoder};
use crate::{Kind, Object};

/// Objects of one kind, with the resource version of the collection.
///
/// ```
/// use kubewright_core::{DynamicObject, Decoder, ObjectList};
/// let json = br#"{"kind":"FooList","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a"}}]}"#;
/// let list: ObjectList<DynamicObject> = ObjectList::from_json(json, &mut Decoder::new())?;
/// assert_eq!(list.metadata.resource_version.as_deref(), Some("7"));
/// for object in list {
///     println!("{object:?}");
/// }
/// # Ok::<(), kubewright_core::DecodeError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectList<T> {
    /// Version, continue token and remaining item count.
    pub metadata: ListMeta,
    /// The objects.
    pub items: Vec<T>,
}

impl<T> Default for ObjectList<T> {
    fn default() -> Self {
        ObjectList { metadata: ListMeta::default(), items: Vec::new() }
    }
}

impl<T: Object> ObjectList<T> {
    /// Decodes a whole JSON list. [`ListDecoder`] decodes incrementally.
    pub fn from_json(bytes: &[u8], decoder: &mut Decoder) -> Result<Self, DecodeError> {
        Self::decode(Encoding::Json, bytes, decoder)
    }

    /// Decodes a whole protobuf list in its envelope.
    pub fn from_protobuf(bytes: &[u8], decoder: &mut Decoder) -> Result<Self, DecodeError> {
        Self::decode(Encoding::Protobuf, bytes, decoder)
    }

    fn decode(encoding: Encoding, bytes: &[u8], decoder: &mut Decoder) -> Result<Self, DecodeError> {
        let mut stream = ListDecoder::new(encoding);
        stream.push(bytes);
        let mut items = Vec::new();
        while let Some(item) = stream.next(decoder)? {
            items.push(item);
        }
        items.shrink_to_fit();
        Ok(ObjectList { metadata: stream.finish()?, items })
    }
}

impl<T: Kind> ObjectList<T> {
    /// The list as JSON.
    pub fn to_json(&self) -> Vec<u8> {
        let info = T::RESOURCE.kind;
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        let mut separator = b'{';
        writer.key(&mut separator, "kind");
        writer.string(&format!("{}List", info.kind));
        writer.key(&mut separator, "apiVersion");
        writer.string(info.api_version);
        writer.key(&mut separator, "metadata");
        writer.message(&self.metadata);
        writer.key(&mut separator, "items");
        writer.items(&self.items, |writer, item| item.write_json(writer));
        writer.close(separator);
        out
    }
}

impl<T> IntoIterator for ObjectList<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;
    fn into_iter(self) -> Self::IntoIter {
        self.items.into_iter()
    }
}

impl<'a, T> IntoIterator for &'a ObjectList<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.items.iter()
    }
}
