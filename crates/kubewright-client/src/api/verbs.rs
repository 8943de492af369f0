//! Resources with few verbs.

use kubewright_core::options::{CreateOptions, GetOptions, ListOptions};
use kubewright_core::{Object, ObjectList};

use super::{Api, ListStream};
use crate::error::Result;

/// A create-only resource, such as a review: its objects are evaluated and never stored.
#[derive(Debug, Clone)]
pub struct CreateApi<T>(Api<T>);

impl<T: Object> CreateApi<T> {
    /// Restricts `api` to create.
    pub fn new(api: Api<T>) -> Self {
        CreateApi(api)
    }

    /// Creates the object and returns the response.
    #[doc(alias = "Create")]
    pub async fn create(&self, object: &T) -> Result<T> {
        self.0.create(object).await
    }

    /// Like [`create`](Self::create), with options.
    pub async fn create_with(&self, object: &T, options: &CreateOptions) -> Result<T> {
        self.0.create_with(object, options).await
    }
}

/// A read-only resource.
#[derive(Debug, Clone)]
pub struct ReadApi<T>(Api<T>);

impl<T: Object> ReadApi<T> {
    /// Restricts `api` to reads.
    pub fn new(api: Api<T>) -> Self {
        ReadApi(api)
    }

    /// The object of this name.
    #[doc(alias = "Get")]
    pub async fn get(&self, name: &str) -> Result<T> {
        self.0.get(name).await
    }

    /// Like [`get`](Self::get), with options.
    pub async fn get_with(&self, name: &str, options: &GetOptions) -> Result<T> {
        self.0.get_with(name, options).await
    }

    /// All matching objects.
    #[doc(alias = "List")]
    pub async fn list(&self, options: &ListOptions) -> Result<ObjectList<T>> {
        self.0.list(options).await
    }

    /// All matching objects, each as soon as it arrives.
    pub async fn list_stream(&self, options: &ListOptions) -> Result<ListStream<T>> {
        self.0.list_stream(options).await
    }
}
