//! Metadata-only access to objects.
//!
//! For programs that count, label, collect or delete objects of any kind: a pod of 4 KiB costs a
//! few hundred bytes. Requests `PartialObjectMetadata`, in protobuf if possible. Delete options are
//! always sent as JSON, since custom resources support nothing else.

use std::time::Duration;

use http::Method;
use kubewright_core::meta::v1::PartialObjectMetadata;
use kubewright_core::options::{DeleteOptions, GetOptions, ListOptions, Patch, PatchOptions, WatchOptions};
use kubewright_core::stream::Encoding;
use kubewright_core::{DecodeError, DynamicObject, GroupVersionResource, Kind, NamespaceScope, Object, ObjectList};

use crate::api::{Api, DeleteResponse, ListStream, Scope, WatchStream};
use crate::error::Result;
use crate::rest::{Client, Response, ResponseForm};

/// The metadata of the objects of one resource.
#[derive(Debug, Clone)]
#[doc(alias = "metadata.Interface")]
pub struct MetadataApi(Api<PartialObjectMetadata>);

impl Client {
    /// The metadata of the objects of any resource; cluster-wide until a namespace is set.
    #[doc(alias = "MetadataClient")]
    #[inline]
    pub fn metadata(&self, resource: GroupVersionResource) -> MetadataApi {
        MetadataApi(Api::new(self, resource, Scope::Cluster).form(ResponseForm::Metadata))
    }

    /// The metadata of the objects of a type.
    pub fn metadata_of<T: Kind>(&self) -> MetadataApi {
        let scope = if T::RESOURCE.namespaced { Scope::AllNamespaces } else { Scope::Cluster };
        MetadataApi(Api::known(self, T::RESOURCE, scope).form(ResponseForm::Metadata))
    }
}

impl MetadataApi {
    /// The client.
    pub fn client(&self) -> &Client {
        self.0.client()
    }

    /// The resource.
    pub fn resource(&self) -> &GroupVersionResource {
        self.0.resource()
    }

    /// The same resource in this namespace, or in all.
    #[must_use]
    #[doc(alias = "Namespace")]
    pub fn namespace(self, namespace: impl Into<NamespaceScope>) -> Self {
        MetadataApi(self.0.namespace(namespace))
    }

    /// Sets the [response timeout](Client::answer_timeout) of this resource's client.
    #[must_use]
    #[inline]
    pub fn answer_timeout(self, timeout: Duration) -> Self {
        MetadataApi(self.0.answer_timeout(timeout))
    }

    /// Sets the response timeout unless its client [has one](Client::default_answer_timeout).
    #[must_use]
    pub fn default_answer_timeout(self, timeout: Duration) -> Self {
        MetadataApi(self.0.default_answer_timeout(timeout))
    }

    /// The metadata of one object.
    #[doc(alias = "Get")]
    pub async fn get(&self, name: &str) -> Result<PartialObjectMetadata> {
        self.get_with(name, &GetOptions::default()).await
    }

    /// Like [`get`](Self::get), with options.
    pub async fn get_with(&self, name: &str, options: &GetOptions) -> Result<PartialObjectMetadata> {
        let request = self.0.request_of(Method::GET, name).options(|query| options.append_query(query));
        metadata_in(request.accept_protobuf().send().await?)
    }

    /// The metadata of all matching objects.
    #[doc(alias = "List")]
    pub async fn list(&self, options: &ListOptions) -> Result<ObjectList<PartialObjectMetadata>> {
        self.0.list(options).await
    }

    /// The metadata of all matching objects, each as soon as it arrives.
    pub async fn list_stream(&self, options: &ListOptions) -> Result<ListStream<PartialObjectMetadata>> {
        self.0.list_stream(options).await
    }

    /// Watches the metadata of matching objects.
    #[doc(alias = "Watch")]
    pub async fn watch(&self, options: &WatchOptions) -> Result<WatchStream<PartialObjectMetadata>> {
        self.0.watch(options).await
    }

    /// Patches an object.
    #[doc(alias = "Patch")]
    pub async fn patch(&self, name: &str, patch: Patch, options: &PatchOptions) -> Result<PartialObjectMetadata> {
        let request = self.0.request_of(Method::PATCH, name).options(|query| options.append_query(query));
        metadata_in(request.accept_protobuf().patch(patch).send().await?)
    }

    /// Deletes an object.
    #[doc(alias = "Delete")]
    pub async fn delete(&self, name: &str, options: &DeleteOptions) -> Result<DeleteResponse<PartialObjectMetadata>> {
        self.0.delete_with(name, options).await
    }

    /// Deletes all matching objects.
    #[doc(alias = "DeleteCollection")]
    pub async fn delete_collection(&self, options: &DeleteOptions, which: &ListOptions) -> Result<()> {
        self.0.delete_collection(options, which).await
    }
}

/// The metadata of a response, also if the server returns whole objects only.
#[inline]
fn metadata_in(answer: Response) -> Result<PartialObjectMetadata> {
    match answer.encoding() {
        Encoding::Protobuf => answer.decode(),
        Encoding::Json => {
            let object: DynamicObject = answer.decode()?;
            if object.name().is_empty() {
                return Err(DecodeError::new(format!("{} {} has no metadata", object.api_version, object.kind)).into());
            }
            Ok(PartialObjectMetadata { metadata: object.metadata })
        }
    }
}
