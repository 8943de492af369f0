//! Creates and verifies certificates. Times are seconds since 1970.

use kubewright_net::der::Certificate;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData, SanType,
};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use std::sync::Arc;
use std::time::Duration;
use time::OffsetDateTime;

use super::error::RotationError;
use super::pair::ServedPair;

/// The name of each authority. It never changes, because the issuer of a stored authority is
/// rebuilt from this name and its key.
const AUTHORITY_NAME: &str = "kubewright-authority";

/// Certificates are backdated by at most this much, for clients whose clocks are slow.
const MAX_BACKDATING: i64 = 60 * 60;

/// The validity of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Validity {
    pub(super) not_before: i64,
    pub(super) not_after: i64,
}

impl Validity {
    /// `lifetime` from now, backdated.
    fn starting(now: i64, lifetime: i64) -> Self {
        Validity { not_before: now - MAX_BACKDATING.min(lifetime / 4), not_after: now + lifetime }
    }

    /// When it was issued: the inverse of [`starting`](Self::starting).
    pub(super) fn issued(self) -> i64 {
        self.not_before + MAX_BACKDATING.min((self.not_after - self.not_before) / 5)
    }

    /// Whether a third of the lifetime or less remains.
    pub(super) fn is_due(self, now: i64) -> bool {
        now >= self.not_after - (self.not_after - self.issued()) / 3
    }

    /// The validity of a certificate in DER.
    pub(super) fn of(der: &[u8]) -> Option<Self> {
        let certificate = Certificate::read(der)?;
        let (not_before, not_after) = (certificate.not_before()?.as_unix(), certificate.not_after()?.as_unix());
        Some(Validity { not_before, not_after })
    }
}

/// A certificate authority that can sign.
pub(super) struct Authority {
    /// In PEM.
    pub(super) certificate: String,
    pub(super) validity: Validity,
    key: KeyPair,
}

impl Authority {
    pub(super) fn generate(now: i64, lifetime: i64) -> Result<Self, RotationError> {
        let (key, validity) = (KeyPair::generate()?, Validity::starting(now, lifetime));
        let certificate = authority_params(validity)?.self_signed(&key)?.pem();
        Ok(Authority { certificate, validity, key })
    }

    /// The authority with this certificate and key in PEM; `None` if they are malformed or do not
    /// match.
    pub(super) fn read(certificate: &str, key: &str) -> Option<Self> {
        let (der, key) = (CertificateDer::from_pem_slice(certificate.as_bytes()).ok()?, KeyPair::from_pem(key).ok()?);
        if Certificate::read(&der)?.key_info() != key.subject_public_key_info() {
            return None;
        }
        Some(Authority { certificate: certificate.to_owned(), validity: Validity::of(&der)?, key })
    }

    /// Its key in PEM.
    pub(super) fn key(&self) -> String {
        self.key.serialize_pem()
    }

    /// A serving certificate, which expires no later than the authority.
    pub(super) fn sign(&self, names: &[String], now: i64, lifetime: i64) -> Result<ServedPair, RotationError> {
        let mut validity = Validity::starting(now, lifetime);
        validity.not_after = validity.not_after.min(self.validity.not_after);
        let params = authority_params(self.validity)?;
        let key = KeyPair::generate()?;
        let certificate = serving_params(names, validity)?.signed_by(&key, &Issuer::from_params(&params, &self.key))?;
        Ok(ServedPair { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

pub(super) fn self_signed(names: &[String], now: i64, lifetime: i64) -> Result<ServedPair, RotationError> {
    let key = KeyPair::generate()?;
    let certificate = serving_params(names, Validity::starting(now, lifetime))?.self_signed(&key)?;
    Ok(ServedPair { certificate: certificate.pem(), key: key.serialize_pem() })
}

/// Whether clients that trust `authorities` accept the certificate under all these names.
pub(super) fn is_accepted(pair: &ServedPair, authorities: &[&str], names: &[String], now: i64) -> bool {
    let verified = || {
        let mut roots = RootCertStore::empty();
        for authority in authorities {
            roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).ok()?).ok()?;
        }
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().ok()?;
        let leaf = CertificateDer::from_pem_slice(pair.certificate.as_bytes()).ok()?;
        let key = KeyPair::from_pem(&pair.key).ok()?;
        if Certificate::read(&leaf)?.key_info() != key.subject_public_key_info() {
            return None;
        }
        let now = UnixTime::since_unix_epoch(Duration::from_secs(now.try_into().ok()?));
        for name in names {
            let name = ServerName::try_from(name.as_str()).ok()?;
            verifier.verify_server_cert(&leaf, &[], &name, &[], now).ok()?;
        }
        Some(())
    };
    verified().is_some()
}

/// The validity of a certificate in PEM.
pub(super) fn validity(pem: &str) -> Option<Validity> {
    Validity::of(&CertificateDer::from_pem_slice(pem.as_bytes()).ok()?)
}

fn authority_params(validity: Validity) -> Result<CertificateParams, RotationError> {
    let mut params = named(AUTHORITY_NAME, validity)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

fn serving_params(names: &[String], validity: Validity) -> Result<CertificateParams, RotationError> {
    let mut params = named("kubewright-server", validity)?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    for name in names {
        params.subject_alt_names.push(match name.parse() {
            Ok(address) => SanType::IpAddress(address),
            Err(_) => {
                SanType::DnsName(name.as_str().try_into().map_err(|_| RotationError::Name { name: name.clone() })?)
            }
        });
    }
    Ok(params)
}

fn named(name: &str, validity: Validity) -> Result<CertificateParams, RotationError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    let time = |seconds| OffsetDateTime::from_unix_timestamp(seconds).map_err(|_| RotationError::Time { seconds });
    (params.not_before, params.not_after) = (time(validity.not_before)?, time(validity.not_after)?);
    Ok(params)
}
