//! Object traits for all types of the k8s-openapi crate, so that its users can switch without a
//! rewrite.
//!
//! Decoding uses serde_json: no string pool, no protobuf. The program chooses the Kubernetes
//! version with a feature of k8s-openapi.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{ClusterResourceScope, Metadata, NamespaceResourceScope, Resource, SubResourceScope};
use serde_core::Serialize;
use serde_core::de::DeserializeOwned;

use crate::codec::decoder::DecodeError;
use crate::codec::json::{Reader, Writer};
use crate::codec::scheme::KindInfo;
use crate::meta::v1::OwnerReference;
use crate::{ClusterScoped, GroupVersionKind, Kind, Namespaced, Object, ResourceInfo, ResourceScope, RuntimeScope};

/// The methods of [`Object`] for types with k8s-openapi metadata.
#[doc(hidden)]
#[macro_export]
macro_rules! openapi_object {
    ($self:ident, $metadata:expr, $metadata_mut:expr, $managed_fields:expr) => {
        fn name(&$self) -> &str {
            $metadata.name.as_deref().unwrap_or_default()
        }
        fn namespace(&$self) -> &str {
            $metadata.namespace.as_deref().unwrap_or_default()
        }
        fn uid(&$self) -> &str {
            $metadata.uid.as_deref().unwrap_or_default()
        }
        fn resource_version(&$self) -> &str {
            $metadata.resource_version.as_deref().unwrap_or_default()
        }
        fn generation(&$self) -> Option<i64> {
            $metadata.generation
        }
        fn creation_timestamp(&$self) -> Option<$crate::Time> {
            $metadata.creation_timestamp.as_ref().map(|time| time.0.into())
        }
        fn deletion_timestamp(&$self) -> Option<$crate::Time> {
            $metadata.deletion_timestamp.as_ref().map(|time| time.0.into())
        }
        fn labels(&$self) -> $crate::StringMap<'_> {
            $metadata.labels.as_ref().map_or($crate::StringMap::Empty, $crate::StringMap::BTreeMap)
        }
        fn annotations(&$self) -> $crate::StringMap<'_> {
            $metadata.annotations.as_ref().map_or($crate::StringMap::Empty, $crate::StringMap::BTreeMap)
        }
        fn owner_references(&$self) -> ::std::borrow::Cow<'_, [$crate::meta::v1::OwnerReference]> {
            ::std::borrow::Cow::Owned($metadata.owner_references.iter().flatten().map(Into::into).collect())
        }
        fn finalizers(&$self) -> ::std::borrow::Cow<'_, [$crate::Str]> {
            let names = $metadata.finalizers.iter().flatten();
            ::std::borrow::Cow::Owned(names.map(|name| name.as_str().into()).collect())
        }
        fn set_name(&mut $self, name: &str) {
            $metadata_mut.name = (!name.is_empty()).then(|| name.into());
        }
        fn set_namespace(&mut $self, namespace: &str) {
            $metadata_mut.namespace = (!namespace.is_empty()).then(|| namespace.into());
        }
        fn set_resource_version(&mut $self, version: &str) {
            $metadata_mut.resource_version = (!version.is_empty()).then(|| version.into());
        }
        fn set_owner_references(&mut $self, references: Vec<$crate::meta::v1::OwnerReference>) {
            let references = references.into_iter().map(Into::into).collect::<Vec<_>>();
            $metadata_mut.owner_references = (!references.is_empty()).then_some(references);
        }

        /// Errors lack the path of the field, because serde_json does not track it.
        fn from_json(
            reader: &mut $crate::json::Reader<'_, '_>,
        ) -> ::std::result::Result<Self, $crate::DecodeError> {
            reader.openapi_object($managed_fields)
        }

        fn from_protobuf(
            _: &[u8],
            _: &mut $crate::Decoder,
        ) -> Option<::std::result::Result<Self, $crate::DecodeError>> {
            None
        }

        fn write_json(&$self, writer: &mut $crate::json::Writer<'_>) {
            writer.openapi_object($self);
        }
    };
}

impl<T> Object for T
where
    T: Metadata<Ty = ObjectMeta, Scope: OpenapiScope> + Serialize + DeserializeOwned + Clone + Send + Sync + 'static,
{
    type Scope = <<T as Resource>::Scope as OpenapiScope>::Ours;

    fn group_version_kind(&self) -> GroupVersionKind {
        GroupVersionKind::from_static(T::GROUP, T::VERSION, T::KIND)
    }
    fn static_kind() -> Option<GroupVersionKind> {
        Some(GroupVersionKind::from_static(T::GROUP, T::VERSION, T::KIND))
    }
    openapi_object!(self, self.metadata(), self.metadata_mut(), |object: &mut T| {
        object.metadata_mut().managed_fields = None;
    });
}

/// Implements [`Object`] and [`Kind`] for a type with k8s-openapi metadata and serde, but without
/// that crate's traits, such as the output of kube's `#[derive(CustomResource)]`. Repeat the values
/// of its attribute.
///
/// ```text
/// #[derive(kube::CustomResource, …)]
/// #[kube(group = "example.com", version = "v1", kind = "Foo", namespaced)]
/// struct FooSpec { … }
///
/// kubewright::interop!(Foo { group: "example.com", version: "v1", kind: "Foo", plural: "foos", namespaced: true });
/// ```
#[macro_export]
macro_rules! interop {
    ($type:ty {
        group: $group:literal, version: $version:literal, kind: $kind:literal, plural: $plural:literal,
        namespaced: $namespaced:tt $(,)?
    }) => {
        impl $crate::Object for $type {
            type Scope = $crate::interop_scope!($namespaced);

            fn group_version_kind(&self) -> $crate::GroupVersionKind {
                $crate::GroupVersionKind::from_static($group, $version, $kind)
            }
            fn static_kind() -> Option<$crate::GroupVersionKind> {
                Some($crate::GroupVersionKind::from_static($group, $version, $kind))
            }
            $crate::openapi_object!(self, self.metadata, self.metadata, |object: &mut $type| {
                object.metadata.managed_fields = None;
            });
        }

        impl $crate::Kind for $type {
            const RESOURCE: &'static $crate::ResourceInfo = &$crate::ResourceInfo {
                kind: $crate::scheme::KindInfo {
                    group: $group,
                    version: $version,
                    kind: $kind,
                    api_version: concat!($group, "/", $version),
                },
                plural: $plural,
                singular: "",
                short_names: &[],
                categories: &[],
                namespaced: $namespaced,
                verbs: &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
                subresources: &[],
                columns: &[],
            };
        }
    };
}

impl From<&k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference> for OwnerReference {
    fn from(theirs: &k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference) -> Self {
        OwnerReference {
            api_version: theirs.api_version.as_str().into(),
            kind: theirs.kind.as_str().into(),
            name: theirs.name.as_str().into(),
            uid: theirs.uid.as_str().into(),
            controller: theirs.controller,
            block_owner_deletion: theirs.block_owner_deletion,
        }
    }
}

impl From<OwnerReference> for k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference {
    fn from(ours: OwnerReference) -> Self {
        Self {
            api_version: ours.api_version.to_string(),
            kind: ours.kind.to_string(),
            name: ours.name.to_string(),
            uid: ours.uid.to_string(),
            controller: ours.controller,
            block_owner_deletion: ours.block_owner_deletion,
        }
    }
}

impl Reader<'_, '_> {
    /// Decodes an object with serde, optionally without its managed fields.
    #[doc(hidden)]
    pub fn openapi_object<T: DeserializeOwned>(
        &mut self,
        without_managed_fields: impl FnOnce(&mut T),
    ) -> Result<T, DecodeError> {
        let mut object = serde_json::from_str(self.raw()?).map_err(|error| DecodeError::new(error.to_string()))?;
        if self.decoder.skips_managed_fields() {
            without_managed_fields(&mut object);
        }
        Ok(object)
    }
}

impl Writer<'_> {
    /// Encodes an object with serde.
    #[doc(hidden)]
    pub fn openapi_object(&mut self, object: &impl Serialize) {
        self.raw(&serde_json::to_string(object).expect("objects of the API have JSON forms"));
    }
}

/// Properties that k8s-openapi does not provide, such as short names and columns, are empty; the
/// verbs are the common ones.
impl<T> Kind for T
where
    T: Object + Resource<Scope: KindScope>,
{
    const RESOURCE: &'static ResourceInfo = &ResourceInfo {
        kind: KindInfo { group: T::GROUP, version: T::VERSION, kind: T::KIND, api_version: T::API_VERSION },
        plural: T::URL_PATH_SEGMENT,
        singular: "",
        short_names: &[],
        categories: &[],
        namespaced: <<T as Resource>::Scope as KindScope>::NAMESPACED,
        verbs: &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        subresources: &[],
        columns: &[],
    };
}

/// A scope of k8s-openapi as one of ours.
#[doc(hidden)]
pub trait OpenapiScope {
    /// Our scope.
    type Ours: ResourceScope;
}

impl OpenapiScope for NamespaceResourceScope {
    type Ours = Namespaced;
}

impl OpenapiScope for ClusterResourceScope {
    type Ours = ClusterScoped;
}

impl OpenapiScope for SubResourceScope {
    type Ours = RuntimeScope;
}

/// The scope of a resource as a constant.
#[doc(hidden)]
pub trait KindScope: OpenapiScope {
    /// Whether the resource is namespaced.
    const NAMESPACED: bool;
}

impl KindScope for NamespaceResourceScope {
    const NAMESPACED: bool = true;
}

impl KindScope for ClusterResourceScope {
    const NAMESPACED: bool = false;
}

/// The scope of a resource of [`interop!`](crate::interop).
#[doc(hidden)]
#[macro_export]
macro_rules! interop_scope {
    (true) => {
        $crate::Namespaced
    };
    (false) => {
        $crate::ClusterScoped
    };
}
