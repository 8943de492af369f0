//! How the server's certificate is verified.

use crate::credentials::CertificateSource;

/// Verification of the server's certificate.
#[derive(Debug, Clone, Default)]
pub struct TlsOptions {
    /// The certificate authorities of the server. By default the system trust store.
    pub authority: Option<CertificateSource>,
    /// Whether to skip certificate verification. Then an attacker on the network can read and
    /// change everything.
    pub insecure: bool,
    /// The name that the server's certificate must have, if not the host of the URL.
    pub server_name: Option<String>,
}
