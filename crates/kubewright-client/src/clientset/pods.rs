//! Pod-specific operations.

use kubewright_api::core::v1::{Binding, Pod};
use kubewright_core::options::CreateOptions;

use crate::api::{Api, SubresourceApi};
use crate::error::Result;

impl Api<Pod> {
    /// Binds a pod to the node in `binding`, as schedulers do.
    #[doc(alias = "Bind")]
    pub async fn bind(&self, name: &str, binding: &Binding) -> Result<()> {
        self.subresource("binding").post(name, binding, &CreateOptions::default()).await.map(drop)
    }

    /// Evicts a pod: deletes it unless a disruption budget forbids it.
    ///
    /// # Errors
    /// [`is_too_many_requests`](crate::Error::is_too_many_requests) while the budget is exhausted.
    /// The client has then used up its retries if the server sent a Retry-After.
    #[cfg(feature = "policy")]
    #[doc(alias = "EvictV1")]
    pub async fn evict(&self, name: &str, eviction: &kubewright_api::policy::v1::Eviction) -> Result<()> {
        self.subresource("eviction").post(name, eviction, &CreateOptions::default()).await.map(drop)
    }

    /// The ephemeral containers of running pods.
    #[doc(alias = "UpdateEphemeralContainers")]
    pub fn ephemeral_containers(&self) -> SubresourceApi<Pod> {
        self.subresource("ephemeralcontainers")
    }

    /// The container resources of running pods.
    #[doc(alias = "UpdateResize")]
    pub fn resize(&self) -> SubresourceApi<Pod> {
        self.subresource("resize")
    }
}
