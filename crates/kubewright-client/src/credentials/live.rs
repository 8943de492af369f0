//! A client certificate that somebody renews while connections live.

use std::fmt;
use std::sync::Arc;

use kubewright_core::ByteString;
use tokio::sync::watch;

use super::Identity;
use crate::config::ConfigError;
use crate::secret::Secret;

/// The certificate of this moment, which may change or be gone in the next. A handle: clones share it.
///
/// Whoever renews it calls [`set`](Self::set). All transports that were made with it then close their connections, with
/// what is under way on them, and show the new one from then on. While there is none, none is shown.
///
/// ```
/// # use kubewright_client::{Config, credentials::LiveCertificate};
/// let certificate = LiveCertificate::new();
/// let mut config = Config::new("https://cluster.example:6443")?;
/// config.credentials.live_certificate = Some(certificate.clone());
/// // Later, from wherever certificates come: certificate.set(pem, key)?;
/// assert!(!certificate.is_set());
/// # Ok::<(), kubewright_client::config::ConfigError>(())
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

    /// Shows this certificate with its key, both in PEM, from now on.
    ///
    /// # Errors
    /// If they are no PEM, or do not belong together. What was shown before is shown on.
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

    /// Shows none from now on.
    pub fn clear(&self) {
        self.current.send_if_modified(|current| current.take().is_some());
    }

    /// Whether there is one at the moment.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.current.borrow().is_some()
    }

    #[inline]
    pub(crate) fn current(&self) -> Option<Arc<Identity>> {
        self.current.borrow().clone()
    }

    /// Tells of each change from now on.
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
