//! Approval of certificate signing requests.

use kubewright_api::certificates::v1::CertificateSigningRequest;
use kubewright_core::options::UpdateOptions;

use crate::api::{Api, SubresourceApi};
use crate::error::Result;

impl Api<CertificateSigningRequest> {
    /// Replaces the approval conditions of a request; the server ignores everything else in
    /// `request`.
    #[doc(alias = "UpdateApproval")]
    pub async fn update_approval(&self, request: &CertificateSigningRequest) -> Result<CertificateSigningRequest> {
        let name = request.metadata.name.as_deref().unwrap_or_default();
        self.approval().update_with(name, request, &UpdateOptions::default()).await
    }

    /// The approval subresource.
    pub fn approval(&self) -> SubresourceApi<CertificateSigningRequest> {
        self.subresource("approval")
    }
}
