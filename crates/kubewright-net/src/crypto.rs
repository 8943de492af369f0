//! The cryptography behind TLS.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;

/// The provider that the features of the build select: ring, or aws-lc.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    #[cfg(feature = "aws-lc-rs")]
    return Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    #[cfg(not(feature = "aws-lc-rs"))]
    Arc::new(rustls::crypto::ring::default_provider())
}
