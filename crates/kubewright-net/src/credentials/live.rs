//! A client certificate that is rotated while connections are open.

use std::fmt;
use std::sync::Arc;

use kubewright_core::ByteString;
use tokio::sync::watch;

use super::identity::Identity;
use crate::error::ConfigError;
use crate::secret::Secret;

/// The current client certificate, which may change or be cleared. A handle: clones share it.
///
/// Call [`set`](Self::set) to rotate it. All transports created with it then close their
/// connections, including active requests, and present the new certificate. While there is none,
/// none is presented.
///
/// ```
/// # use kubewright_net::{config::Config, credentials::LiveCertificate};
/// let certificate = LiveCertificate::new();
/// let mut config = Config::new("https://cluster.example:6443")?;
/// config.credentials.live_certificate = Some(certificate.clone());
/// // Later, from wherever certificates come: certificate.set(pem, key)?;
/// assert!(!certificate.is_set());
/// # Ok::<(), kubewright_net::config::ConfigError>(())
/// ```
#[derive(Clone)]
#[doc(alias = "GetCert")]
#[doc(alias = "GetClientCertificate")]
pub struct LiveCertificate {
    current: watch::Sender<Option<Arc<Identity>>>,
}

impl LiveCertificate {
    /// No certificate yet.
    pub fn new() -> Self {
        LiveCertificate { current: watch::Sender::new(None) }
    }

    /// Sets the certificate with its key, both in PEM.
    ///
    /// # Errors
    /// If they are not PEM, or do not match. The previous certificate then stays.
    #[inline]
    pub fn set(&self, certificate: &[u8], key: &Secret<ByteString>) -> Result<(), ConfigError> {
        let identity = Identity::from_pem(certificate, key.expose(), "the live client certificate")?;
        identity.check()?;
        self.current.send_if_modified(|current| {
            let is_new = current.as_deref() != Some(&identity);
            *current = Some(Arc::new(identity));
            is_new
        });
        Ok(())
    }

    /// Clears the certificate.
    pub fn clear(&self) {
        self.current.send_if_modified(|current| current.take().is_some());
    }

    /// Whether a certificate is set.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.current.borrow().is_some()
    }

    #[inline]
    pub(crate) fn current(&self) -> Option<Arc<Identity>> {
        self.current.borrow().clone()
    }

    /// Subscribes to changes.
    #[inline]
    pub(crate) fn subscribe(&self) -> watch::Receiver<Option<Arc<Identity>>> {
        self.current.subscribe()
    }
}

impl Default for LiveCertificate {
    fn default() -> Self {
        LiveCertificate::new()
    }
}

impl fmt::Debug for LiveCertificate {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LiveCertificate").field(&self.current.borrow()).finish()
    }
}
