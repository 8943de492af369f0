//! Typed server-side apply in a reconciler.

use kubewright_client::apply::ApplyObject;
use kubewright_client::{HasStatus, Result};
use kubewright_core::Object;
use kubewright_core::options::ApplyOptions;

use super::own_api::OwnApi;

impl<K: Object> OwnApi<K> {
    /// Applies a configuration, such as a `DeploymentApply`. See
    /// [`Api::apply_configuration`](kubewright_client::Api::apply_configuration).
    pub async fn apply_configuration<A: ApplyObject<Object = K>>(
        &self,
        wanted: &A,
        options: &ApplyOptions,
    ) -> Result<K> {
        self.wrote(self.untracked().apply_configuration(wanted, options).await)
    }

    /// Applies a configuration of the status. See
    /// [`Api::apply_status_configuration`](kubewright_client::Api::apply_status_configuration).
    pub async fn apply_status_configuration<A: ApplyObject<Object = K>>(
        &self,
        wanted: &A,
        options: &ApplyOptions,
    ) -> Result<K>
    where
        K: HasStatus,
    {
        self.wrote(self.untracked().apply_status_configuration(wanted, options).await)
    }
}
