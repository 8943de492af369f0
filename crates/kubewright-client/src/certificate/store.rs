//! Persistent storage of certificates.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::error::CertificateError;
use super::issued::IssuedCertificate;

/// Stores the current certificate.
#[doc(alias = "Store")]
pub trait CertificateStore: Send + Sync + 'static {
    /// The certificate stored last, even if it has expired; `None` if there never was one. May
    /// block.
    ///
    /// # Errors
    /// If it cannot be read.
    #[doc(alias = "NoCertKeyError")]
    fn current(&self) -> Result<Option<IssuedCertificate>, CertificateError>;

    /// Atomically replaces the certificate. May block.
    ///
    /// # Errors
    /// If it cannot be stored; the previous one then stays.
    fn update(&self, certificate: &IssuedCertificate) -> Result<(), CertificateError>;
}

/// Stores the certificate in memory.
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
