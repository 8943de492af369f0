//! A client certificate with its key, ready for a handshake.

use std::{fmt, io};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::{ClientCertificate, KeySource};
use crate::config::{CertificateSource, ConfigError, of_entry};

/// A certificate chain and its key. Two are the same if they come from the same text.
pub(crate) struct Identity {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
    certificate_pem: Vec<u8>,
    /// What errors call it.
    name: String,
}

impl Identity {
    /// Reads certificates and key from PEM.
    pub(crate) fn from_pem(certificate: &[u8], key: &[u8], what: &str) -> Result<Self, ConfigError> {
        Identity::read((certificate, what), (key, what), format!("the certificate of {what}"))
    }

    /// Reads certificates and key from PEM, each with the place that it comes from.
    fn read(certificate: (&[u8], &str), key: (&[u8], &str), name: String) -> Result<Self, ConfigError> {
        let ((certificate, place), (key, key_place)) = (certificate, key);
        let bad = |what: String, source: Box<dyn std::error::Error + Send + Sync>| ConfigError::Tls { what, source };
        let unusable =
            |error: Box<dyn std::error::Error + Send + Sync>| bad(format!("the certificate of {place}"), error);
        let chain: Vec<_> = CertificateDer::pem_slice_iter(certificate)
            .collect::<Result<_, _>>()
            .map_err(|error| unusable(error.into()))?;
        if chain.is_empty() {
            return Err(unusable("it contains no certificate in PEM form".into()));
        }
        // The parser's error could quote what it has read.
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|_| bad(format!("the key of {key_place}"), "it contains no private key in PEM form".into()))?;
        Ok(Identity { chain, key, certificate_pem: certificate.to_vec(), name })
    }

    /// Refuses a key that is not the one of the certificate.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        crate::transport::certified(self).map(drop)
    }

    /// What errors call it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Reads what a configuration names, in this entry of a kubeconfig.
    pub(crate) fn load(source: &ClientCertificate, entry: Option<&str>) -> Result<Self, ConfigError> {
        let read = |file: &std::path::Path| {
            let named = |source: io::Error| ConfigError::Read { file: file.to_owned(), source };
            std::fs::read(file).map_err(named)
        };
        let (certificate, place) = match &source.certificate {
            CertificateSource::Data(data) => (data.to_vec(), "the client's data".to_owned()),
            CertificateSource::File(file) => (read(file)?, file.display().to_string()),
        };
        let (key, key_place) = match &source.key {
            KeySource::Data(data) => (data.expose().to_vec(), "the client's data".to_owned()),
            KeySource::File(file) => (read(file)?, file.display().to_string()),
        };
        let name = of_entry(format_args!("the certificate of {place} with the key of {key_place}"), entry);
        let (place, key_place) = (of_entry(place, entry), of_entry(key_place, entry));
        Identity::read((&certificate, &place), (&key, &key_place), name)
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
