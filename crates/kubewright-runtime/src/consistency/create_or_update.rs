//! Makes an object what it should be, whether it exists or not.

use kubewright_core::options::{ApplyOptions, Patch};
use kubewright_core::patch::create_merge_patch;
use kubewright_core::{Object, Value};

use super::own_api::{Freshness, OwnApi};
use crate::controller::BoxError;

/// What had to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[doc(alias = "OperationResult")]
pub enum Operation {
    /// Nothing: it was as it should be, and the server was not asked.
    Unchanged,
    /// It did not exist.
    Created,
    /// It was different.
    Updated,
}

impl<K: Object> OwnApi<K> {
    /// Creates the object of this name, or updates it, so that `change` finds nothing to change.
    ///
    /// Read from the cache as fresh as this key's own writes. If somebody else was faster the server tells so by a conflict, and
    /// the reconcile is best tried again.
    ///
    /// # Errors
    /// Those of the server, and of a cache that stays behind.
    #[doc(alias = "CreateOrUpdate")]
    pub async fn create_or_update(&self, name: &str, change: impl FnOnce(&mut K)) -> Result<(K, Operation), BoxError>
    where
        K: Default,
    {
        self.ensure(name, change, async |_, modified| self.update(&modified).await).await
    }

    /// The same with a merge patch of what `change` has changed, so that fields which others change meanwhile stay.
    ///
    /// # Errors
    /// Those of the server, and of a cache that stays behind.
    #[doc(alias = "CreateOrPatch")]
    pub async fn create_or_patch(&self, name: &str, change: impl FnOnce(&mut K)) -> Result<(K, Operation), BoxError>
    where
        K: Default,
    {
        let patch = async |original: Vec<u8>, modified: K| {
            let patch = create_merge_patch(&Value::from_json(&original)?, &Value::from_json(&modified.to_json())?);
            self.patch(name, Patch::merge(patch)).await
        };
        self.ensure(name, change, patch).await
    }

    /// Applies the fields that `object` sets as `manager`, and takes them over from others.
    ///
    /// # Errors
    /// Those of the server.
    #[doc(alias = "Apply")]
    pub async fn apply_as(&self, manager: &str, object: &K) -> Result<K, BoxError> {
        Ok(self.apply(object, &ApplyOptions::new(manager).force()).await?)
    }

    async fn ensure(
        &self,
        name: &str,
        change: impl FnOnce(&mut K),
        write: impl AsyncFnOnce(Vec<u8>, K) -> kubewright_client::Result<K>,
    ) -> Result<(K, Operation), BoxError>
    where
        K: Default,
    {
        let Some(found) = self.get(name, Freshness::AtLeastMyWrites).await? else {
            let mut object = K::default();
            object.set_name(name);
            object.set_namespace(&self.namespace());
            change(&mut object);
            return Ok((self.create(&object).await?, Operation::Created));
        };
        // Compared as they are sent, which every type can do.
        let original = found.to_json();
        let mut modified = (*found).clone();
        change(&mut modified);
        if modified.to_json() == original {
            return Ok((modified, Operation::Unchanged));
        }
        Ok((write(original, modified).await?, Operation::Updated))
    }
}
