//! Parts of an object with paths of their own.

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

/// Objects whose status is a part by itself. Users' own types say so: `impl HasStatus for Foo {}`.
pub trait HasStatus: Object {}

/// Objects that can be scaled. Users' own types say so: `impl HasScale for Foo {}`.
pub trait HasScale: Object {}

impl HasStatus for DynamicObject {}
impl HasStatus for PartialObjectMetadata {}
impl HasScale for DynamicObject {}

/// One part of the objects of a resource, which has a type of its own.
pub struct SubresourceApi<S> {
    parent: Endpoint,
    name: String,
    parts: PhantomData<fn() -> S>,
}

impl<T> Api<T> {
    /// A part of the objects by its name, read and written as an `S`.
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

    /// A request about a part of an object that is no object itself, such as `log` or `proxy`.
    pub fn subresource_request(&self, method: Method, name: &str, subresource: &str) -> Request<'static> {
        self.request_of(method, name).subresource(subresource)
    }
}

impl<S: Object> SubresourceApi<S> {
    /// The part of the object of this name.
    pub async fn get(&self, name: &str) -> Result<S> {
        self.get_with(name, &GetOptions::default()).await
    }

    /// As [`get`](Self::get), with options.
    pub async fn get_with(&self, name: &str, options: &GetOptions) -> Result<S> {
        let request = self.request(Method::GET, name).options(|query| options.append_query(query));
        accepting::<S>(request).send().await?.into()
    }

    /// Gives the object of this name a part to act on, such as a binding; returns what the server answers.
    pub async fn create(&self, name: &str, part: &S) -> Result<S> {
        self.post(name, part, &CreateOptions::default()).await?.into()
    }

    /// As [`create`](Self::create), for parts that are answered with a status or not at all.
    pub async fn post(&self, name: &str, part: &S, options: &CreateOptions) -> Result<Response> {
        let request = self.request(Method::POST, name).options(|query| options.append_query(query));
        accepting::<S>(request).object(part).send().await
    }

    /// Replaces the part of the object of this name.
    pub async fn update(&self, name: &str, part: &S) -> Result<S> {
        self.update_with(name, part, &UpdateOptions::default()).await
    }

    /// As [`update`](Self::update), with options.
    pub async fn update_with(&self, name: &str, part: &S, options: &UpdateOptions) -> Result<S> {
        let request = self.request(Method::PUT, name).options(|query| options.append_query(query));
        accepting::<S>(request).object(part).send().await?.into()
    }

    /// Changes the part of the object of this name.
    pub async fn patch(&self, name: &str, patch: Patch) -> Result<S> {
        self.patch_with(name, patch, &PatchOptions::default()).await
    }

    /// As [`patch`](Self::patch), with options.
    pub async fn patch_with(&self, name: &str, patch: Patch, options: &PatchOptions) -> Result<S> {
        let request = self.request(Method::PATCH, name).options(|query| options.append_query(query));
        accepting::<S>(request).patch(patch).send().await?.into()
    }

    /// Makes the part of the object of this name have these fields.
    ///
    /// # Errors
    /// As [`Api::apply`].
    pub async fn apply(&self, name: &str, part: &S, options: &ApplyOptions) -> Result<S> {
        let body = apply_body(part, &self.parent.resource)?;
        let options = PatchOptions::from(options.clone());
        self.patch_with(name, PatchType::Apply.with_body(body), &options).await
    }

    fn request(&self, method: Method, name: &str) -> Request<'static> {
        // A part may have a path of several steps.
        let request = self.parent.request_of(method, name);
        self.name.split('/').fold(request, |request, step| request.subresource(step))
    }
}

impl<S> fmt::Debug for SubresourceApi<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.parent.resource, self.name)
    }
}
