//! Deletes an object only if a given owner controls it.

use kubewright_core::Object;
use kubewright_core::options::DeleteOptions;

use super::own_api::{Freshness, OwnApi};
use crate::error::BoxError;
use crate::ownership::is_controlled_by;

impl<K: Object> OwnApi<K> {
    /// Deletes the object of this name if `owner` controls it; returns whether it did.
    ///
    /// A foreign object stays, even if it takes the name between the check and the deletion: the
    /// uid is a precondition of the request. A missing object is not an error.
    ///
    /// # Errors
    /// The errors of the server, and a stale cache. A conflict shared_context that another object
    /// has taken the name; return it, so that the reconcile is retried.
    pub async fn delete_controlled_by(&self, owner: &impl Object, name: &str) -> Result<bool, BoxError> {
        let Some(found) = self.get(name, Freshness::AtLeastMyWrites).await? else { return Ok(false) };
        if !is_controlled_by(&*found, owner) || found.is_being_deleted() {
            return Ok(false);
        }
        match self.delete_with(name, &DeleteOptions::default().uid(found.uid())).await {
            Err(error) if error.is_not_found() => Ok(false),
            result => Ok(result.map(|_| true)?),
        }
    }
}
