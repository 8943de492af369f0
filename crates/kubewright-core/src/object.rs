//! What all objects have in common: metadata, a kind, and wire forms.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::decode::{DecodeError, Decoder};
use crate::json::{Reader, Writer};
use crate::meta::v1::OwnerReference;
use crate::protobuf::Wire;
use crate::resource::ResourceInfo;
use crate::{GroupVersionKind, Map, ObjectKey, Str, Time};

/// An object of the API, typed or not.
///
/// Implemented by all generated types that have metadata, by [`DynamicObject`](crate::DynamicObject),
/// and with the feature `k8s-openapi` by that crate's types.
pub trait Object: Clone + Send + Sync + 'static {
    /// Whether the type has a protobuf form, so that a client may ask for it. Generated types have one.
    const HAS_PROTOBUF: bool = false;

    /// Group, version and kind.
    #[doc(alias = "GVKForObject")]
    fn group_version_kind(&self) -> GroupVersionKind;

    /// The kind that all objects of this type have; none for types such as
    /// [`DynamicObject`](crate::DynamicObject), whose objects can be of any kind.
    fn static_kind() -> Option<GroupVersionKind> {
        None
    }

    /// `metadata.name`, empty if unset.
    fn name(&self) -> &str;
    /// `metadata.namespace`, empty for objects of the cluster.
    fn namespace(&self) -> &str;
    /// `metadata.uid`, empty if unset.
    fn uid(&self) -> &str;
    /// `metadata.resourceVersion`, empty if unset.
    fn resource_version(&self) -> &str;
    /// `metadata.generation`, which counts changes of the specification.
    fn generation(&self) -> Option<i64>;
    /// `metadata.creationTimestamp`.
    fn creation_timestamp(&self) -> Option<Time>;
    /// `metadata.deletionTimestamp`, set while the object waits for its finalizers.
    fn deletion_timestamp(&self) -> Option<Time>;
    /// `metadata.labels`.
    fn labels(&self) -> StringMap<'_>;
    /// `metadata.annotations`.
    fn annotations(&self) -> StringMap<'_>;
    /// `metadata.ownerReferences`.
    fn owner_references(&self) -> Cow<'_, [OwnerReference]>;
    /// `metadata.finalizers`.
    fn finalizers(&self) -> Cow<'_, [Str]>;

    /// Sets `metadata.name`.
    fn set_name(&mut self, name: &str);
    /// Sets `metadata.namespace`.
    fn set_namespace(&mut self, namespace: &str);
    /// Sets `metadata.resourceVersion`; empty removes it.
    fn set_resource_version(&mut self, version: &str);
    /// Sets `metadata.ownerReferences`.
    fn set_owner_references(&mut self, references: Vec<OwnerReference>);

    /// Takes an object from JSON text.
    fn from_json(reader: &mut Reader<'_, '_>) -> Result<Self, DecodeError>;
    /// Takes an object from a protobuf message without envelope, or `None` if the type has no such form.
    fn from_protobuf(bytes: &[u8], decoder: &mut Decoder) -> Option<Result<Self, DecodeError>>;
    /// Writes the object as JSON, with kind and version.
    fn write_json(&self, writer: &mut Writer<'_>);

    /// Takes group, version and kind of the list that the object was in, where it does not know its own.
    ///
    /// Servers leave them out in lists. Types have them by nature, so that only dynamic objects do anything.
    fn complete_type(&mut self, api_version: &str, kind: &str) {
        let _ = (api_version, kind);
    }

    /// The object as protobuf in its envelope, or `None` if the type has no such form.
    fn to_protobuf(&self) -> Option<Vec<u8>> {
        None
    }

    /// `namespace/name`, which identifies the object among those of its resource.
    #[doc(alias = "MetaNamespaceKeyFunc")]
    fn key(&self) -> ObjectKey {
        ObjectKey::namespaced(self.namespace(), self.name())
    }

    /// Whether the object is being deleted.
    fn is_being_deleted(&self) -> bool {
        self.deletion_timestamp().is_some()
    }

    /// The object as JSON.
    fn to_json(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write_json(&mut Writer::new(&mut out));
        out
    }
}

/// An object whose resource is known when the program is compiled.
pub trait Kind: Object {
    /// The resource: names, scope, verbs.
    const RESOURCE: &'static ResourceInfo;
}

/// Labels or annotations of any object.
#[derive(Debug, Clone, Copy)]
pub enum StringMap<'a> {
    /// Of one of our types.
    Map(&'a Map<Str>),
    /// Of a type that uses the standard library's.
    BTreeMap(&'a BTreeMap<String, String>),
    /// Of an object that is kept as protobuf.
    Encoded(EncodedMap<'a>),
    /// None at all.
    Empty,
}

/// A map of texts as it lies in a protobuf message.
#[derive(Debug, Clone, Copy)]
pub struct EncodedMap<'a> {
    message: &'a [u8],
    field: u32,
}

impl<'a> EncodedMap<'a> {
    /// The map in the field of this number of a message; what is not well-formed counts as absent.
    pub fn new(message: &'a [u8], field: u32) -> Self {
        EncodedMap { message, field }
    }

    /// Keys and values in the order in which they were written, which Kubernetes sorts.
    fn iter(self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let fields = Wire::Bytes(self.message).fields().into_iter().flatten();
        let entries = fields.map_while(Result::ok).filter(move |(number, _)| *number == self.field);
        entries.filter_map(|(_, entry)| {
            let (mut key, mut value) = ("", "");
            for (number, wire) in entry.fields().ok()?.map_while(Result::ok) {
                let text = std::str::from_utf8(wire.bytes().ok()?).ok()?;
                match number {
                    1 => key = text,
                    2 => value = text,
                    _ => {}
                }
            }
            Some((key, value))
        })
    }
}

impl<'a> StringMap<'a> {
    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&'a str> {
        match self {
            StringMap::Map(map) => map.get(key).map(Str::as_str),
            StringMap::BTreeMap(map) => map.get(key).map(String::as_str),
            StringMap::Encoded(map) => map.iter().find(|(other, _)| *other == key).map(|(_, value)| value),
            StringMap::Empty => None,
        }
    }

    /// How many entries there are.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            StringMap::Map(map) => map.len(),
            StringMap::BTreeMap(map) => map.len(),
            StringMap::Encoded(map) => map.iter().count(),
            StringMap::Empty => 0,
        }
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keys and values in key order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let (ours, theirs, encoded) = match *self {
            StringMap::Map(map) => (Some(map), None, None),
            StringMap::BTreeMap(map) => (None, Some(map), None),
            StringMap::Encoded(map) => (None, None, Some(map)),
            StringMap::Empty => (None, None, None),
        };
        let ours = ours.into_iter().flat_map(|map| map.iter().map(|(key, value)| (key.as_str(), value.as_str())));
        let theirs = theirs.into_iter().flat_map(|map| map.iter().map(|(key, value)| (key.as_str(), value.as_str())));
        ours.chain(theirs).chain(encoded.into_iter().flat_map(EncodedMap::iter))
    }
}
