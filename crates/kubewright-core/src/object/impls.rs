//! The object traits of types with a field `metadata`.

use crate::Str;

/// `Some` of a string, `None` if it is empty.
pub fn non_empty(text: &str) -> Option<Str> {
    (!text.is_empty()).then(|| text.into())
}

/// The object trait for a generated type with metadata.
#[doc(hidden)]
#[macro_export]
macro_rules! object_impls {
    ($type:ty, $scope:ident) => {
        impl $crate::Object for $type {
            const HAS_PROTOBUF: bool = true;
            type Scope = $crate::$scope;
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
        // Shares the strings; the default implementation copies them.
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
            self.metadata.name = $crate::generated_support::non_empty(name);
        }
        #[inline]
        fn set_namespace(&mut self, namespace: &str) {
            self.metadata.namespace = $crate::generated_support::non_empty(namespace);
        }
        #[inline]
        fn set_resource_version(&mut self, version: &str) {
            self.metadata.resource_version = $crate::generated_support::non_empty(version);
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
