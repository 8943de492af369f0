//! Resources that have few verbs, and offer no others.

use kubewright_core::options::{CreateOptions, GetOptions, ListOptions};
use kubewright_core::{Object, ObjectList};

use super::{Api, ListStream};
use crate::error::Result;

/// A resource whose objects are questions: created, answered, and never stored.
#[derive(Debug, Clone)]
pub struct CreateApi<T>(Api<T>);

impl<T: Object> CreateApi<T> {
    /// Only what can be created.
    pub fn new(api: Api<T>) -> Self {
        CreateApi(api)
    }

    /// Asks, and returns the answer.
    #[doc(alias = "Create")]
    pub async fn create(&self, object: &T) -> Result<T> {
        self.0.create(object).await
    }

    /// As [`create`](Self::create), with options.
    pub async fn create_with(&self, object: &T, options: &CreateOptions) -> Result<T> {
        self.0.create_with(object, options).await
    }
}

/// A resource that can only be read.
#[derive(Debug, Clone)]
pub struct ReadApi<T>(Api<T>);

impl<T: Object> ReadApi<T> {
    /// Only what can be read.
    pub fn new(api: Api<T>) -> Self {
        ReadApi(api)
    }

    /// The object of this name.
    #[doc(alias = "Get")]
    pub async fn get(&self, name: &str) -> Result<T> {
        self.0.get(name).await
    }

    /// As [`get`](Self::get), with options.
    pub async fn get_with(&self, name: &str, options: &GetOptions) -> Result<T> {
        self.0.get_with(name, options).await
    }

    /// All objects that match.
    #[doc(alias = "List")]
    pub async fn list(&self, options: &ListOptions) -> Result<ObjectList<T>> {
        self.0.list(options).await
    }

    /// All objects that match, each as soon as it has come.
    pub async fn list_stream(&self, options: &ListOptions) -> Result<ListStream<T>> {
        self.0.list_stream(options).await
    }
}
