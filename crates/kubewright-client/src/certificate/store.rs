//! Where a certificate outlives the process that asked for it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::error::CertificateError;
use super::issued::IssuedCertificate;

/// Keeps the current certificate.
#[doc(alias = "Store")]
pub trait CertificateStore: Send + Sync + 'static {
    /// The certificate that was stored last, also if it has expired since; `None` if none ever was. May block.
    ///
    /// # Errors
    /// If what is there cannot be read.
    #[doc(alias = "NoCertKeyError")]
    fn current(&self) -> Result<Option<IssuedCertificate>, CertificateError>;

    /// Puts a certificate in place of the one before it, all of it or nothing. May block.
    ///
    /// # Errors
    /// If it cannot be stored; the one before it is then still there.
    fn update(&self, certificate: &IssuedCertificate) -> Result<(), CertificateError>;
}

/// Keeps the certificate for as long as the process lives.
#[derive(Debug, Default)]
pub struct MemoryStore {
    current: Mutex<Option<IssuedCertificate>>,
}

impl MemoryStore {
    fn lock(&self) -> MutexGuard<'_, Option<IssuedCertificate>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CertificateStore for MemoryStore {
    fn current(&self) -> Result<Option<IssuedCertificate>, CertificateError> {
        Ok(self.lock().clone())
    }

    fn update(&self, certificate: &IssuedCertificate) -> Result<(), CertificateError> {
        *self.lock() = Some(certificate.clone());
        Ok(())
    }
}

impl<S: CertificateStore> CertificateStore for std::sync::Arc<S> {
    fn current(&self) -> Result<Option<IssuedCertificate>, CertificateError> {
        (**self).current()
    }

    fn update(&self, certificate: &IssuedCertificate) -> Result<(), CertificateError> {
        (**self).update(certificate)
    }
}
