//! Service account tokens.

use kubewright_api::authentication::v1::TokenRequest;
use kubewright_api::core::v1::ServiceAccount;

use crate::api::Api;
use crate::error::Result;

impl Api<ServiceAccount> {
    /// Issues a token for a service account; it is in the status of the result.
    #[doc(alias = "CreateToken")]
    pub async fn create_token(&self, name: &str, request: &TokenRequest) -> Result<TokenRequest> {
        self.subresource("token").create(name, request).await
    }
}
