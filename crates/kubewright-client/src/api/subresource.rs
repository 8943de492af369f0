//! Subresources.

use std::fmt;
use std::marker::PhantomData;

use http::Method;
use kubewright_core::meta::v1::PartialObjectMetadata;
use kubewright_core::options::{
    ApplyOptions, CreateOptions, GetOptions, Patch, PatchOptions, PatchType, UpdateOptions,
};
use kubewright_core::{DynamicObject, Object};

use super::endpoint::Endpoint;
use super::write::apply_body;
use super::{Api, accepting};
use crate::error::Result;
use crate::rest::{Request, Response};

/// Objects with a `status` subresource. User-defined types opt in: `impl HasStatus for Foo {}`.
pub trait HasStatus: Object {}

/// Objects with a `scale` subresource. User-defined types opt in: `impl HasScale for Foo {}`.
pub trait HasScale: Object {}

impl HasStatus for DynamicObject {}
impl HasStatus for PartialObjectMetadata {}
impl HasScale for DynamicObject {}

/// A subresource of the objects of a resource.
pub struct SubresourceApi<S> {
    parent: Endpoint,
    name: String,
    parts: PhantomData<fn() -> S>,
}

impl<T> Api<T> {
    /// The subresource of this name, read and written as an `S`.
    ///
    /// ```
    /// # use kubewright_client::{Api, Result};
    /// # use kubewright_core::DynamicObject;
    /// # async fn example(widgets: Api<DynamicObject>) -> Result<()> {
    /// let scale = widgets.subresource::<DynamicObject>("scale").get("big").await?;
    /// # Ok(()) }
    /// ```
    #[doc(alias = "SubResource")]
    pub fn subresource<S: Object>(&self, name: impl Into<String>) -> SubresourceApi<S> {
        SubresourceApi { parent: self.endpoint.clone(), name: name.into(), parts: PhantomData }
    }

    /// A request for a subresource that is not an object, such as `log` or `proxy`.
    pub fn subresource_request(&self, method: Method, name: &str, subresource: &str) -> Request<'static> {
        self.request_of(method, name).subresource(subresource)
    }
}

impl<S: Object> SubresourceApi<S> {
    /// The subresource of the object of this name.
    pub async fn get(&self, name: &str) -> Result<S> {
        self.get_with(name, &GetOptions::default()).await
    }

    /// Like [`get`](Self::get), with options.
    pub async fn get_with(&self, name: &str, options: &GetOptions) -> Result<S> {
        let request = self.request(Method::GET, name).options(|query| options.append_query(query));
        accepting::<S>(request).send().await?.decode()
    }

    /// Creates a subresource, such as a binding, for the object of this name; returns the response.
    pub async fn create(&self, name: &str, part: &S) -> Result<S> {
        self.post(name, part, &CreateOptions::default()).await?.decode()
    }

    /// Like [`create`](Self::create), for subresources that return a status or nothing.
    pub async fn post(&self, name: &str, part: &S, options: &CreateOptions) -> Result<Response> {
        let request = self.request(Method::POST, name).options(|query| options.append_query(query));
        accepting::<S>(request).object(part).send().await
    }

    /// Replaces the subresource of the object of this name.
    pub async fn update(&self, name: &str, part: &S) -> Result<S> {
        self.update_with(name, part, &UpdateOptions::default()).await
    }

    /// Like [`update`](Self::update), with options.
    pub async fn update_with(&self, name: &str, part: &S, options: &UpdateOptions) -> Result<S> {
        let request = self.request(Method::PUT, name).options(|query| options.append_query(query));
        accepting::<S>(request).object(part).send().await?.decode()
    }

    /// Patches the subresource of the object of this name.
    pub async fn patch(&self, name: &str, patch: Patch) -> Result<S> {
        self.patch_with(name, patch, &PatchOptions::default()).await
    }

    /// Like [`patch`](Self::patch), with options.
    pub async fn patch_with(&self, name: &str, patch: Patch, options: &PatchOptions) -> Result<S> {
        let request = self.request(Method::PATCH, name).options(|query| options.append_query(query));
        accepting::<S>(request).patch(patch).send().await?.decode()
    }

    /// Applies the subresource of the object of this name with server-side apply.
    ///
    /// # Errors
    /// As [`Api::apply`].
    pub async fn apply(&self, name: &str, part: &S, options: &ApplyOptions) -> Result<S> {
        let body = apply_body(part, &self.parent.resource)?;
        let options = PatchOptions::from(options.clone());
        self.patch_with(name, PatchType::Apply.with_body(body), &options).await
    }

    fn request(&self, method: Method, name: &str) -> Request<'static> {
        // A subresource may have a path of several segments.
        let request = self.parent.request_of(method, name);
        self.name.split('/').fold(request, |request, step| request.subresource(step))
    }
}

impl<S> fmt::Debug for SubresourceApi<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.parent.resource, self.name)
    }
}
