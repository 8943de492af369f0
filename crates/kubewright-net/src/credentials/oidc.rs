//! The settings of OpenID Connect providers.

use std::collections::BTreeMap;

use crate::kubeconfig::LoadingRules;
use crate::secret::Secret;

/// An OIDC provider, with the settings of `auth-provider: {name: oidc}` in kubeconfigs.
#[derive(Debug, Clone)]
pub struct Oidc {
    /// `idp-issuer-url`, `client-id`, `client-secret`, `id-token`, `refresh-token`,
    /// `idp-certificate-authority` and `idp-certificate-authority-data`.
    pub settings: BTreeMap<String, Secret<String>>,
    /// The kubeconfig user with these settings.
    pub user: Option<String>,
    /// The kubeconfig that new tokens are written to. Without one they are only kept in memory.
    pub store: Option<LoadingRules>,
}
