//! A client certificate with its key, ready for a handshake.

use std::{fmt, io};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::{ClientCertificate, KeySource};
use crate::config::{CertificateSource, ConfigError};

/// A certificate chain and its key. Two are the same if they come from the same text.
pub(crate) struct Identity {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
    certificate_pem: Vec<u8>,
}

impl Identity {
    /// Reads certificates and key from PEM.
    pub(crate) fn from_pem(certificate: &[u8], key: &[u8], what: &str) -> Result<Self, ConfigError> {
        let bad = |part: &str, source: Box<dyn std::error::Error + Send + Sync>| ConfigError::Tls {
            what: format!("{part} of {what}"),
            source,
        };
        let chain: Vec<_> = CertificateDer::pem_slice_iter(certificate)
            .collect::<Result<_, _>>()
            .map_err(|error| bad("the certificate", error.into()))?;
        if chain.is_empty() {
            return Err(bad("the certificate", "it contains no certificate in PEM form".into()));
        }
        // The parser's error could quote what it has read.
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|_| bad("the key", "it contains no private key in PEM form".into()))?;
        Ok(Identity { chain, key, certificate_pem: certificate.to_vec() })
    }

    /// Refuses a key that is not the one of the certificate.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        crate::transport::certified(self).map(drop)
    }

    /// Reads what a configuration names.
    pub(crate) fn load(source: &ClientCertificate) -> Result<Self, ConfigError> {
        let read = |file: &std::path::Path| {
            let named = |source: io::Error| ConfigError::Read { file: file.to_owned(), source };
            std::fs::read(file).map_err(named)
        };
        let (certificate, what) = match &source.certificate {
            CertificateSource::Data(data) => (data.to_vec(), "the client's data".to_owned()),
            CertificateSource::File(file) => (read(file)?, file.display().to_string()),
        };
        let key = match &source.key {
            KeySource::Data(data) => data.expose().to_vec(),
            KeySource::File(file) => read(file)?,
        };
        Identity::from_pem(&certificate, &key, &what)
    }
}

impl ClientCertificate {
    /// Whether both halves are files, so that they may change. One half of a pair is never read anew.
    pub(crate) fn is_reloadable(&self) -> bool {
        matches!((&self.certificate, &self.key), (CertificateSource::File(_), KeySource::File(_)))
    }
}

impl PartialEq for Identity {
    fn eq(&self, other: &Self) -> bool {
        self.certificate_pem == other.certificate_pem && self.key == other.key
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} certificates", self.chain.len())
    }
}
