//! Finalization of namespaces.

use kubewright_api::core::v1::Namespace;

use crate::api::Api;
use crate::error::Result;

impl Api<Namespace> {
    /// Replaces the finalizers of a namespace; without any it is deleted. The server ignores
    /// everything else in `namespace`.
    #[doc(alias = "Finalize")]
    pub async fn finalize(&self, namespace: &Namespace) -> Result<Namespace> {
        let name = namespace.metadata.name.as_deref().unwrap_or_default();
        self.subresource("finalize").update(name, namespace).await
    }
}
