//! Delete and delete-collection.

use http::Method;
use kubewright_core::Object;
use kubewright_core::meta::v1::Status;
use kubewright_core::options::{DeleteOptions, ListOptions};

use super::{Api, accepting};
use crate::error::Result;
use crate::rest::ResponseForm;

/// The server's response to a deletion.
#[derive(Debug, Clone, PartialEq)]
pub enum DeleteResponse<T> {
    /// The object in its last state. It may still exist, waiting for its finalizers or its grace
    /// period.
    Object(Box<T>),
    /// The object was deleted.
    Status(Box<Status>),
}

impl<T: Object> DeleteResponse<T> {
    /// The uid of the object, if the response contains it.
    pub fn uid(&self) -> Option<&str> {
        match self {
            DeleteResponse::Object(object) => Some(object.uid()),
            DeleteResponse::Status(status) => status.details.as_ref()?.uid.as_deref(),
        }
    }

    /// Whether the object still exists and is being deleted.
    pub fn is_pending(&self) -> bool {
        matches!(self, DeleteResponse::Object(object) if object.is_being_deleted())
    }
}

impl<T: Object> Api<T> {
    /// Deletes the object of this name.
    ///
    /// # Errors
    /// [`is_not_found`](crate::Error::is_not_found) if there is none.
    #[doc(alias = "Delete")]
    pub async fn delete(&self, name: &str) -> Result<DeleteResponse<T>> {
        self.delete_with(name, &DeleteOptions::default()).await
    }

    /// Like [`delete`](Self::delete), with options. They are sent as JSON, which all resources
    /// understand.
    pub async fn delete_with(&self, name: &str, options: &DeleteOptions) -> Result<DeleteResponse<T>> {
        let request = self.request_of(Method::DELETE, name).json(options.to_json());
        let answer = accepting::<T>(request).send().await?;
        match answer.status() {
            Some(status) if !status.is_failure() => Ok(DeleteResponse::Status(Box::new(status))),
            _ => Ok(DeleteResponse::Object(Box::new(answer.decode()?))),
        }
    }

    /// Deletes all matching objects, one after the other; after an error some may remain.
    ///
    /// # Errors
    /// For all namespaces together, which no server supports, and for resources without this verb.
    #[doc(alias = "DeleteCollection")]
    pub async fn delete_collection(&self, options: &DeleteOptions, which: &ListOptions) -> Result<()> {
        let request = self
            .endpoint
            .request(Method::DELETE)
            .form(ResponseForm::Object)
            .refuse(self.endpoint.lacks("deletecollection"));
        request.options(|query| which.append_query(query)).json(options.to_json()).send().await?;
        Ok(())
    }
}
