//! Delete and delete-collection.

use http::Method;
use kubewright_core::Object;
use kubewright_core::meta::v1::Status;
use kubewright_core::options::{DeleteOptions, ListOptions};

use super::{Api, accepting};
use crate::error::Result;
use crate::rest::Form;

/// What the server says of an object that it was told to delete.
#[derive(Debug, Clone, PartialEq)]
pub enum Deleted<T> {
    /// The object as it was last. It may still be there, waiting for its finalizers or its grace period.
    Object(Box<T>),
    /// That it is gone.
    Status(Box<Status>),
}

impl<T: Object> Deleted<T> {
    /// The uid of the object, where it is told.
    pub fn uid(&self) -> Option<&str> {
        match self {
            Deleted::Object(object) => Some(object.uid()),
            Deleted::Status(status) => status.details.as_ref()?.uid.as_deref(),
        }
    }

    /// Whether the object still waits to go.
    pub fn is_pending(&self) -> bool {
        matches!(self, Deleted::Object(object) if object.is_being_deleted())
    }
}

impl<T: Object> Api<T> {
    /// Deletes the object of this name.
    ///
    /// # Errors
    /// [`is_not_found`](crate::Error::is_not_found) if there is none.
    #[doc(alias = "Delete")]
    pub async fn delete(&self, name: &str) -> Result<Deleted<T>> {
        self.delete_with(name, &DeleteOptions::default()).await
    }

    /// As [`delete`](Self::delete), with options. They are sent as JSON, which all resources understand.
    pub async fn delete_with(&self, name: &str, options: &DeleteOptions) -> Result<Deleted<T>> {
        let request = self.request_of(Method::DELETE, name).json(options.to_json());
        let answer = accepting::<T>(request).send().await?;
        match answer.status() {
            Some(status) if !status.is_failure() => Ok(Deleted::Status(Box::new(status))),
            _ => Ok(Deleted::Object(Box::new(answer.into()?))),
        }
    }

    /// Deletes all objects that match, one after the other; an error may leave some of them.
    ///
    /// # Errors
    /// In all namespaces at once, which no server does, and for resources without this verb.
    #[doc(alias = "DeleteCollection")]
    pub async fn delete_collection(&self, options: &DeleteOptions, which: &ListOptions) -> Result<()> {
        let request =
            self.endpoint.request(Method::DELETE).form(Form::Object).refuse(self.endpoint.lacks("deletecollection"));
        request.options(|query| which.append_query(query)).json(options.to_json()).send().await?;
        Ok(())
    }
}
