//! The object traits for all types of the k8s-openapi crate, so that its users come over without a rewrite.
//!
//! They hold what they always held and go through serde_json: no string pool, no protobuf. Which version of
//! Kubernetes they are of is chosen by the program that uses them, through a feature of k8s-openapi.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{ClusterResourceScope, Metadata, NamespaceResourceScope, Resource};
use serde_core::Serialize;
use serde_core::de::DeserializeOwned;

use crate::decode::{DecodeError, Decoder};
use crate::json::{Reader, Writer};
use crate::message_impls::non_empty;
use crate::meta::v1::OwnerReference;
use crate::scheme::KindInfo;
use crate::{GroupVersionKind, Kind, Object, ResourceInfo, Str, StringMap, Time};

impl<T> Object for T
where
    T: Metadata<Ty = ObjectMeta> + Serialize + DeserializeOwned + Clone + Send + Sync + 'static,
{
    fn group_version_kind(&self) -> GroupVersionKind {
        GroupVersionKind::from_static(T::GROUP, T::VERSION, T::KIND)
    }
    fn name(&self) -> &str {
        self.metadata().name.as_deref().unwrap_or_default()
    }
    fn namespace(&self) -> &str {
        self.metadata().namespace.as_deref().unwrap_or_default()
    }
    fn uid(&self) -> &str {
        self.metadata().uid.as_deref().unwrap_or_default()
    }
    fn resource_version(&self) -> &str {
        self.metadata().resource_version.as_deref().unwrap_or_default()
    }
    fn generation(&self) -> Option<i64> {
        self.metadata().generation
    }
    fn creation_timestamp(&self) -> Option<Time> {
        self.metadata().creation_timestamp.as_ref().map(|time| time.0.into())
    }
    fn deletion_timestamp(&self) -> Option<Time> {
        self.metadata().deletion_timestamp.as_ref().map(|time| time.0.into())
    }
    fn labels(&self) -> StringMap<'_> {
        self.metadata().labels.as_ref().map_or(StringMap::Empty, StringMap::BTreeMap)
    }
    fn annotations(&self) -> StringMap<'_> {
        self.metadata().annotations.as_ref().map_or(StringMap::Empty, StringMap::BTreeMap)
    }
    fn owner_references(&self) -> Cow<'_, [OwnerReference]> {
        let ours = |theirs: &k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference| OwnerReference {
            api_version: theirs.api_version.as_str().into(),
            kind: theirs.kind.as_str().into(),
            name: theirs.name.as_str().into(),
            uid: theirs.uid.as_str().into(),
            controller: theirs.controller,
            block_owner_deletion: theirs.block_owner_deletion,
        };
        Cow::Owned(self.metadata().owner_references.iter().flatten().map(ours).collect())
    }
    fn finalizers(&self) -> Cow<'_, [Str]> {
        Cow::Owned(self.metadata().finalizers.iter().flatten().map(|name| name.as_str().into()).collect())
    }
    fn set_name(&mut self, name: &str) {
        self.metadata_mut().name = non_empty(name).map(|name| name.as_str().into());
    }
    fn set_namespace(&mut self, namespace: &str) {
        self.metadata_mut().namespace = non_empty(namespace).map(|namespace| namespace.as_str().into());
    }
    fn set_resource_version(&mut self, version: &str) {
        self.metadata_mut().resource_version = non_empty(version).map(|version| version.as_str().into());
    }

    /// Errors say what was wrong, but not in which field, of which serde_json keeps no account.
    fn from_json(reader: &mut Reader<'_, '_>) -> Result<Self, DecodeError> {
        let mut object: T = serde_json::from_str(reader.raw()?).map_err(|error| DecodeError::new(error.to_string()))?;
        if reader.decoder.skips_managed_fields() {
            object.metadata_mut().managed_fields = None;
        }
        Ok(object)
    }

    fn from_protobuf(_: &[u8], _: &mut Decoder) -> Option<Result<Self, DecodeError>> {
        None
    }

    fn write_json(&self, writer: &mut Writer<'_>) {
        writer.raw(&serde_json::to_string(self).expect("objects of the API have JSON forms"));
    }
}

/// What k8s-openapi does not know, such as short names and columns, is left empty; the verbs are those of most resources.
impl<T> Kind for T
where
    T: Object + Resource<Scope: Scope>,
{
    const RESOURCE: &'static ResourceInfo = &ResourceInfo {
        kind: KindInfo { group: T::GROUP, version: T::VERSION, kind: T::KIND, api_version: T::API_VERSION },
        plural: T::URL_PATH_SEGMENT,
        singular: "",
        short_names: &[],
        categories: &[],
        namespaced: <T::Scope as Scope>::NAMESPACED,
        verbs: &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        subresources: &[],
        columns: &[],
    };
}

/// Where objects live, as a constant.
#[doc(hidden)]
pub trait Scope {
    /// Whether it is in namespaces.
    const NAMESPACED: bool;
}

impl Scope for NamespaceResourceScope {
    const NAMESPACED: bool = true;
}

impl Scope for ClusterResourceScope {
    const NAMESPACED: bool = false;
}
