//! A parsed client certificate with its key.

use std::{fmt, io};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::certificate::{CertificateSource, ClientCertificate, KeySource};
use crate::crypto::provider;
use crate::error::{ConfigError, of_entry};

/// A certificate chain and its key. Equal if they come from the same text.
pub struct Identity {
    /// The certificate, then its intermediates.
    pub chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
    certificate_pem: Vec<u8>,
    /// Its name in errors.
    name: String,
}

impl Identity {
    /// Parses certificates and key from PEM.
    ///
    /// # Errors
    /// If either is not PEM.
    pub fn from_pem(certificate: &[u8], key: &[u8], what: &str) -> Result<Self, ConfigError> {
        Identity::read((certificate, what), (key, what), format!("the certificate of {what}"))
    }

    /// Parses certificates and key from PEM, each with its origin.
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
        // The parser's error could quote the key.
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|_| bad(format!("the key of {key_place}"), "it contains no private key in PEM form".into()))?;
        Ok(Identity { chain, key, certificate_pem: certificate.to_vec(), name })
    }

    /// Checks that key and certificate match.
    ///
    /// # Errors
    /// If they do not.
    pub fn check(&self) -> Result<(), ConfigError> {
        let key = self.key.clone_key();
        let certified = rustls::sign::CertifiedKey::from_der(self.chain.clone(), key, &provider());
        let unusable = |error: rustls::Error| ConfigError::Tls { what: self.name.clone(), source: error.into() };
        certified.map(drop).map_err(unusable)
    }

    /// Its name in errors.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Loads the certificate of a configuration; `entry` is its kubeconfig entry.
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
