//! What can be done with pods alone.

use kubewright_api::core::v1::{Binding, Pod};
use kubewright_core::options::CreateOptions;

use crate::api::{Api, SubresourceApi};
use crate::error::Result;

impl Api<Pod> {
    /// Assigns a pod to the node that `binding` names, as schedulers do.
    #[doc(alias = "Bind")]
    pub async fn bind(&self, name: &str, binding: &Binding) -> Result<()> {
        self.subresource("binding").post(name, binding, &CreateOptions::default()).await.map(drop)
    }

    /// Deletes a pod unless a disruption budget forbids it.
    ///
    /// # Errors
    /// [`is_too_many_requests`](crate::Error::is_too_many_requests) while the budget is used up. Where the server gives
    /// a time to come back, the client has come back already, as often as it may.
    #[cfg(feature = "policy")]
    #[doc(alias = "EvictV1")]
    pub async fn evict(&self, name: &str, eviction: &kubewright_api::policy::v1::Eviction) -> Result<()> {
        self.subresource("eviction").post(name, eviction, &CreateOptions::default()).await.map(drop)
    }

    /// The containers that are added to running pods for debugging.
    #[doc(alias = "UpdateEphemeralContainers")]
    pub fn ephemeral_containers(&self) -> SubresourceApi<Pod> {
        self.subresource("ephemeralcontainers")
    }

    /// The resources of running pods' containers.
    #[doc(alias = "UpdateResize")]
    pub fn resize(&self) -> SubresourceApi<Pod> {
        self.subresource("resize")
    }
}
