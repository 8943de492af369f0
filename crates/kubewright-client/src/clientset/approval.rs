//! Approval of certificate signing requests.

use kubewright_api::certificates::v1::CertificateSigningRequest;
use kubewright_core::options::UpdateOptions;

use crate::api::{Api, SubresourceApi};
use crate::error::Result;

impl Api<CertificateSigningRequest> {
    /// Replaces the conditions that approve or deny a request; everything else in `request` is passed over.
    #[doc(alias = "UpdateApproval")]
    pub async fn update_approval(&self, request: &CertificateSigningRequest) -> Result<CertificateSigningRequest> {
        let name = request.metadata.name.as_deref().unwrap_or_default();
        self.approval().update_with(name, request, &UpdateOptions::default()).await
    }

    /// The approval as a part by itself.
    pub fn approval(&self) -> SubresourceApi<CertificateSigningRequest> {
        self.subresource("approval")
    }
}
