//! The traits of all objects: metadata, kind and wire formats.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::resource::ResourceInfo;
use super::scope::ResourceScope;
use crate::codec::decoder::{DecodeError, Decoder};
use crate::codec::json::{Reader, Writer};
use crate::codec::protobuf::Wire;
use crate::meta::v1::OwnerReference;
use crate::{GroupVersionKind, Map, ObjectKey, Str, Time};

/// An API object, typed or dynamic.
///
/// Implemented by all generated types that have metadata, by
/// [`DynamicObject`](crate::DynamicObject), and with the feature `k8s-openapi` by that crate's
/// types.
pub trait Object: Clone + Send + Sync + 'static {
    /// Whether the type has a protobuf format, so that a client may request it. Generated types
    /// have one.
    const HAS_PROTOBUF: bool = false;

    /// [`Namespaced`](crate::Namespaced), [`ClusterScoped`](crate::ClusterScoped), or
    /// [`RuntimeScope`](crate::RuntimeScope) if objects of the type can be of any kind.
    type Scope: ResourceScope;

    /// Group, version and kind.
    #[doc(alias = "GVKForObject")]
    fn group_version_kind(&self) -> GroupVersionKind;

    /// The kind of all objects of this type; `None` for types such as
    /// [`DynamicObject`](crate::DynamicObject), whose objects can be of any kind.
    fn static_kind() -> Option<GroupVersionKind> {
        None
    }

    /// `metadata.name`, empty if unset.
    fn name(&self) -> &str;
    /// `metadata.namespace`; empty for cluster-scoped objects.
    fn namespace(&self) -> &str;
    /// `metadata.uid`, empty if unset.
    fn uid(&self) -> &str;
    /// `metadata.resourceVersion`, empty if unset.
    fn resource_version(&self) -> &str;
    /// `metadata.generation`, which counts spec changes.
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

    /// Reads an object from JSON text.
    fn from_json(reader: &mut Reader<'_, '_>) -> Result<Self, DecodeError>;
    /// Decodes a protobuf message without envelope; `None` if the type has no protobuf format.
    fn from_protobuf(bytes: &[u8], decoder: &mut Decoder) -> Option<Result<Self, DecodeError>>;
    /// Writes the object as JSON, with kind and version.
    fn write_json(&self, writer: &mut Writer<'_>);

    /// Sets the kind to that of the enclosing list, if the object has none.
    ///
    /// Servers omit the kind of list items. Typed objects know their kind, so only dynamic objects
    /// implement this.
    fn complete_type(&mut self, api_version: &str, kind: &str) {
        let _ = (api_version, kind);
    }

    /// The object as protobuf in its envelope; `None` if the type has no protobuf format.
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

/// An object whose resource is known at compile time.
pub trait Kind: Object {
    /// The resource: names, scope, verbs. Its `namespaced` agrees with [`Object::Scope`].
    const RESOURCE: &'static ResourceInfo;
}

/// Labels or annotations of any object.
#[derive(Debug, Clone, Copy)]
pub enum StringMap<'a> {
    /// The map of our types.
    Map(&'a Map<Str>),
    /// A standard map.
    BTreeMap(&'a BTreeMap<String, String>),
    /// A map in an encoded protobuf message.
    Encoded(EncodedMap<'a>),
    /// An empty map.
    Empty,
}

/// A string map in an encoded protobuf message.
#[derive(Debug, Clone, Copy)]
pub struct EncodedMap<'a> {
    message: &'a [u8],
    field: u32,
}

impl<'a> EncodedMap<'a> {
    /// The map in the field `field` of a message; malformed parts count as absent.
    pub fn new(message: &'a [u8], field: u32) -> Self {
        EncodedMap { message, field }
    }

    /// Keys and values in encoded order, which Kubernetes sorts.
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

    /// Number of entries.
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
