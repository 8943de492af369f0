//! Deletes an object only if it is the caller's own.

use kubewright_core::Object;
use kubewright_core::options::DeleteOptions;

use super::own_api::{Freshness, OwnApi};
use crate::controller::BoxError;
use crate::ownership::is_controlled_by;

impl<K: Object> OwnApi<K> {
    /// Deletes the object of this name if `owner` controls it; returns whether it did.
    ///
    /// An object of somebody else stays, even if it takes the name between the check and the
    /// deletion: the request has the uid of the object as a precondition. It is no error if the
    /// object is gone already.
    ///
    /// # Errors
    /// Those of the server, and of a cache that stays behind. A conflict says that another object
    /// has the name now; return it, so that the reconcile is tried again.
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
