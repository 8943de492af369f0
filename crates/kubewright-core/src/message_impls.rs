//! What generated types share beyond their fields: `Debug` and the object traits.

use std::fmt;

use crate::Str;
use crate::json::Writer;
use crate::message::{Message, Ref};
use crate::scheme::Flags;

/// Prints the fields that are set. Secrets are not shown.
pub fn debug(message: &dyn Message, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let scheme = message.scheme();
    let mut out = f.debug_struct(scheme.name.rsplit('.').next().unwrap_or_default());
    for (index, field) in scheme.fields.iter().enumerate() {
        match message.get(index) {
            Ref::Absent => {}
            _ if field.flags.has(Flags::SECRET) => {
                out.field(field.name, &format_args!("<redacted>"));
            }
            value => {
                out.field(field.name, &value);
            }
        }
    }
    out.finish()
}

/// Whether two messages of one type are equal, field by field. Written once here rather than derived for each type,
/// because derived code is a tenth of what the types cost to compile.
pub fn equal(a: &dyn Message, b: &dyn Message) -> bool {
    (0..a.scheme().fields.len()).all(|field| match (a.get(field), b.get(field)) {
        (Ref::Absent, Ref::Absent) => true,
        (Ref::Bool(a), Ref::Bool(b)) => a == b,
        (Ref::Int(a), Ref::Int(b)) => a == b,
        (Ref::Str(a), Ref::Str(b)) => a == b,
        (Ref::Strs(a), Ref::Strs(b)) => a == b,
        (Ref::StrMap(a), Ref::StrMap(b)) => a == b,
        (Ref::Message(a), Ref::Message(b)) => equal(a, b),
        (Ref::Messages(a), Ref::Messages(b)) => {
            a.len() == b.len() && (0..a.len()).all(|index| equal(a.get(index), b.get(index)))
        }
        (Ref::MessageMap(a), Ref::MessageMap(b)) => {
            let same = |index| {
                let ((key, a), (other, b)) = (a.get(index), b.get(index));
                key == other && equal(a, b)
            };
            a.len() == b.len() && (0..a.len()).all(same)
        }
        (Ref::Scalar(a), Ref::Scalar(b)) => a.equals(b),
        _ => false,
    })
}

impl fmt::Debug for Ref<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ref::Absent => f.write_str("absent"),
            Ref::Bool(value) => value.fmt(f),
            Ref::Int(value) => value.fmt(f),
            Ref::Str(text) => text.fmt(f),
            Ref::Strs(list) => list.fmt(f),
            Ref::StrMap(map) => map.fmt(f),
            Ref::Message(message) => debug(*message, f),
            Ref::Messages(list) => {
                f.debug_list().entries((0..list.len()).map(|index| Ref::Message(list.get(index)))).finish()
            }
            Ref::MessageMap(map) => {
                let entries = (0..map.len()).map(|index| map.get(index));
                f.debug_map().entries(entries.map(|(key, message)| (key, Ref::Message(message)))).finish()
            }
            Ref::Scalar(scalar) => {
                let mut out = Vec::new();
                scalar.encode_json(&mut Writer::new(&mut out));
                f.write_str(&String::from_utf8_lossy(&out))
            }
        }
    }
}

/// `Some` of a text, `None` if it is empty.
pub fn non_empty(text: &str) -> Option<Str> {
    (!text.is_empty()).then(|| text.into())
}

/// `Debug`, equality, serde and schemars for a generated type.
#[doc(hidden)]
#[macro_export]
macro_rules! message_impls {
    ($type:ty) => {
        impl ::std::fmt::Debug for $type {
            #[inline]
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                $crate::message_impls::debug(self, f)
            }
        }
        impl PartialEq for $type {
            #[inline]
            fn eq(&self, other: &Self) -> bool {
                $crate::message_impls::equal(self, other)
            }
        }
        $crate::serde_impls!($type);
        $crate::schema_impls!($type);
    };
}

/// Makes a generated type dereference to its rare fields, which are given as they are while unset.
#[doc(hidden)]
#[macro_export]
macro_rules! rare_fields {
    ($type:ty, $rare:ident { $($field:ident: $unset:expr),* $(,)? }) => {
        impl ::std::ops::Deref for $type {
            type Target = $rare;
            #[inline]
            fn deref(&self) -> &$rare {
                &self.rare
            }
        }
        impl ::std::ops::DerefMut for $type {
            #[inline]
            fn deref_mut(&mut self) -> &mut $rare {
                &mut self.rare
            }
        }
        impl $crate::message::RareFields for $rare {
            #[inline]
            fn unset() -> &'static Self {
                // A constant, since for a static rustc compiles how to drop it.
                const UNSET: &$rare = &$rare { $($field: $unset),* };
                UNSET
            }
        }
    };
}

/// The object trait for a generated type with metadata.
#[doc(hidden)]
#[macro_export]
macro_rules! object_impls {
    ($type:ty) => {
        impl $crate::Object for $type {
            const HAS_PROTOBUF: bool = true;
            #[inline]
            fn group_version_kind(&self) -> $crate::GroupVersionKind {
                let info = $crate::message::Message::scheme(self).kind.as_ref();
                info.map(Into::into).unwrap_or_default()
            }
            #[inline]
            fn static_kind() -> Option<$crate::GroupVersionKind> {
                let info = $crate::message::Message::scheme(&Self::default()).kind.as_ref();
                info.map(Into::into)
            }
            $crate::object_metadata!();
            #[inline]
            fn from_json(reader: &mut $crate::json::Reader<'_, '_>) -> Result<Self, $crate::DecodeError> {
                let mut object = Self::default();
                reader.message(&mut object)?;
                Ok(object)
            }
            #[inline]
            fn from_protobuf(bytes: &[u8], decoder: &mut $crate::Decoder) -> Option<Result<Self, $crate::DecodeError>> {
                let mut object = Self::default();
                Some(decoder.protobuf_message_into(&mut object, bytes).map(|()| object))
            }
            #[inline]
            fn write_json(&self, writer: &mut $crate::json::Writer<'_>) {
                writer.object(self);
            }
            #[inline]
            fn to_protobuf(&self) -> Option<Vec<u8>> {
                let mut out = Vec::new();
                $crate::protobuf::Envelope::encode(self, &mut out);
                Some(out)
            }
        }
    };
}

/// The methods of [`Object`](crate::Object) for types with a field `metadata: ObjectMeta`.
#[doc(hidden)]
#[macro_export]
macro_rules! object_metadata {
    () => {
        #[inline]
        fn name(&self) -> &str {
            self.metadata.name.as_deref().unwrap_or_default()
        }
        #[inline]
        fn namespace(&self) -> &str {
            self.metadata.namespace.as_deref().unwrap_or_default()
        }
        #[inline]
        fn uid(&self) -> &str {
            self.metadata.uid.as_deref().unwrap_or_default()
        }
        #[inline]
        fn resource_version(&self) -> &str {
            self.metadata.resource_version.as_deref().unwrap_or_default()
        }
        // Shares the texts, where the default copies them.
        #[inline]
        fn key(&self) -> $crate::ObjectKey {
            let (namespace, name) = (self.metadata.namespace.clone(), self.metadata.name.clone());
            $crate::ObjectKey::namespaced(namespace.unwrap_or_default(), name.unwrap_or_default())
        }
        #[inline]
        fn generation(&self) -> Option<i64> {
            self.metadata.generation
        }
        #[inline]
        fn creation_timestamp(&self) -> Option<$crate::Time> {
            self.metadata.creation_timestamp
        }
        #[inline]
        fn deletion_timestamp(&self) -> Option<$crate::Time> {
            self.metadata.deletion_timestamp
        }
        #[inline]
        fn labels(&self) -> $crate::StringMap<'_> {
            $crate::StringMap::Map(&self.metadata.labels)
        }
        #[inline]
        fn annotations(&self) -> $crate::StringMap<'_> {
            $crate::StringMap::Map(&self.metadata.annotations)
        }
        #[inline]
        fn owner_references(&self) -> ::std::borrow::Cow<'_, [$crate::meta::v1::OwnerReference]> {
            ::std::borrow::Cow::Borrowed(&self.metadata.owner_references)
        }
        #[inline]
        fn finalizers(&self) -> ::std::borrow::Cow<'_, [$crate::Str]> {
            ::std::borrow::Cow::Borrowed(&self.metadata.finalizers)
        }
        #[inline]
        fn set_name(&mut self, name: &str) {
            self.metadata.name = $crate::message_impls::non_empty(name);
        }
        #[inline]
        fn set_namespace(&mut self, namespace: &str) {
            self.metadata.namespace = $crate::message_impls::non_empty(namespace);
        }
        #[inline]
        fn set_resource_version(&mut self, version: &str) {
            self.metadata.resource_version = $crate::message_impls::non_empty(version);
        }
        #[inline]
        fn set_owner_references(&mut self, references: Vec<$crate::meta::v1::OwnerReference>) {
            self.metadata.owner_references = references.into_iter().collect();
        }
    };
}

/// The resource of a generated type.
#[doc(hidden)]
#[macro_export]
macro_rules! kind_impls {
    ($type:ty, $resource:ident) => {
        impl $crate::Kind for $type {
            const RESOURCE: &'static $crate::ResourceInfo = &$resource;
        }
    };
}
