//! Client certificates, in files or as data.

use std::path::PathBuf;

use kubewright_core::ByteString;

use crate::secret::Secret;

/// Certificates, in a file that is reloaded when it changes, or as data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CertificateSource {
    /// A file in PEM.
    File(PathBuf),
    /// The PEM itself.
    Data(ByteString),
}

/// A certificate and its key. Files are reloaded when they change, and all connections are then
/// reopened.
#[derive(Debug, Clone)]
pub struct ClientCertificate {
    /// The certificate and its intermediates.
    pub certificate: CertificateSource,
    /// Its key.
    pub key: KeySource,
}

/// A private key, in a file or as data.
#[derive(Debug, Clone)]
pub enum KeySource {
    /// A file in PEM.
    File(PathBuf),
    /// The PEM itself.
    Data(Secret<ByteString>),
}

impl ClientCertificate {
    /// Whether both parts are files, which may change. A pair is only reloaded as a whole.
    pub(crate) fn is_reloadable(&self) -> bool {
        matches!((&self.certificate, &self.key), (CertificateSource::File(_), KeySource::File(_)))
    }
}
