//! The certificate authority that signs requests.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kubewright_client::{Secret, clock};
use kubewright_core::{Str, Time};
use kubewright_net::der::Certificate;
use rcgen::{
    CertificateSigningRequestParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, SerialNumber,
};
use ring::rand::{SecureRandom, SystemRandom};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use time::OffsetDateTime;

/// Certificates are backdated by this much, for clients whose clocks are slow.
const BACKDATE: Duration = Duration::from_secs(5 * 60);
/// Certificates with a shorter lifetime keep their end although their start is backdated.
const SHORT: Duration = Duration::from_secs(8 * 60 * 60);

/// A certificate authority: its certificate and its key.
///
/// Clones share the key. `Debug` does not show it.
#[derive(Clone)]
pub struct SigningAuthority {
    issuer: Arc<Issuer<'static, KeyPair>>,
    not_after: Time,
}

/// A certificate or key that cannot be used for signing.
#[derive(Debug, thiserror::Error)]
#[error("the {part} of the certificate authority cannot be used: {reason}")]
pub struct InvalidAuthority {
    part: &'static str,
    reason: String,
}

impl SigningAuthority {
    /// An authority from its certificate and its key, both in PEM. The key is in PKCS 8.
    ///
    /// # Errors
    /// If one of them is malformed or of an unsupported algorithm.
    #[doc(alias = "cluster-signing-cert-file")]
    pub fn from_pem(certificate: &str, key: &Secret<String>) -> Result<Self, InvalidAuthority> {
        let invalid = |part| move |error: rcgen::Error| InvalidAuthority { part, reason: error.to_string() };
        let key = KeyPair::from_pem(key.expose()).map_err(invalid("key"))?;
        let issuer = Issuer::from_ca_cert_pem(certificate, key).map_err(invalid("certificate"))?;
        let not_after = expiry(certificate.as_bytes());
        let malformed = || InvalidAuthority { part: "certificate", reason: "it has no expiry date".to_owned() };
        Ok(SigningAuthority { issuer: Arc::new(issuer), not_after: not_after.ok_or_else(malformed)? })
    }

    /// Signs a request. Returns the certificate in PEM.
    ///
    /// Subject and alternative names are those of the request. Usages are those given here, and the
    /// certificate is never one of an authority.
    ///
    /// # Errors
    /// If the authority has expired, or a usage is unknown.
    #[doc(alias = "PermissiveSigningPolicy")]
    pub(crate) fn sign(
        &self,
        request: CertificateSigningRequestParams,
        usages: &[Str],
        lifetime: Duration,
    ) -> Result<String, String> {
        let now = clock::now().as_unix();
        if self.not_after.as_unix() <= now {
            return Err(format!("the signer has expired: NotAfter={}", self.not_after));
        }
        let backdate = BACKDATE.as_secs() as i64;
        let end = now + lifetime.as_secs() as i64 - if lifetime < SHORT { 0 } else { backdate };
        let date = |seconds: i64| OffsetDateTime::from_unix_timestamp(seconds).map_err(|error| error.to_string());
        let CertificateSigningRequestParams { mut params, public_key } = request;
        params.not_before = date(now - backdate)?;
        params.not_after = date(end.min(self.not_after.as_unix()))?;
        params.is_ca = IsCa::ExplicitNoCa;
        params.serial_number = Some(serial_number());
        params.use_authority_key_identifier_extension = true;
        params.key_usages.clear();
        params.extended_key_usages.clear();
        for usage in usages {
            match purpose(usage) {
                Some(Purpose::Key(usage)) => params.key_usages.push(usage),
                Some(Purpose::Extended(usage)) => params.extended_key_usages.push(usage),
                None => return Err(format!("unrecognized usage {:?}", usage.as_str())),
            }
        }
        let signed = CertificateSigningRequestParams { params, public_key }.signed_by(&*self.issuer);
        signed.map(|certificate| certificate.pem()).map_err(|error| error.to_string())
    }
}

/// The expiry time of a certificate in PEM. `None` if it is malformed.
pub(crate) fn expiry(pem: &[u8]) -> Option<Time> {
    Certificate::read(&CertificateDer::from_pem_slice(pem).ok()?)?.not_after()
}

impl fmt::Debug for SigningAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningAuthority").field("not_after", &self.not_after).finish_non_exhaustive()
    }
}

/// A random serial number. rcgen would derive it from the key, so that a renewed certificate would
/// have the number of its predecessor.
fn serial_number() -> SerialNumber {
    let mut random = [0; 16];
    SystemRandom::new().fill(&mut random).expect("the system has random numbers");
    // A positive number.
    random[0] &= 0x7f;
    SerialNumber::from_slice(&random)
}

/// A usage of a certificate, in the extension that contains it.
enum Purpose {
    Key(KeyUsagePurpose),
    Extended(ExtendedKeyUsagePurpose),
}

/// The usage of this name. `None` if it is unknown.
fn purpose(usage: &str) -> Option<Purpose> {
    let key = match usage {
        "signing" | "digital signature" => KeyUsagePurpose::DigitalSignature,
        "content commitment" => KeyUsagePurpose::ContentCommitment,
        "key encipherment" => KeyUsagePurpose::KeyEncipherment,
        "key agreement" => KeyUsagePurpose::KeyAgreement,
        "data encipherment" => KeyUsagePurpose::DataEncipherment,
        "cert sign" => KeyUsagePurpose::KeyCertSign,
        "crl sign" => KeyUsagePurpose::CrlSign,
        "encipher only" => KeyUsagePurpose::EncipherOnly,
        "decipher only" => KeyUsagePurpose::DecipherOnly,
        _ => return extended(usage).map(Purpose::Extended),
    };
    Some(Purpose::Key(key))
}

fn extended(usage: &str) -> Option<ExtendedKeyUsagePurpose> {
    let pkix = |number: u64| ExtendedKeyUsagePurpose::Other(vec![1, 3, 6, 1, 5, 5, 7, 3, number]);
    Some(match usage {
        "any" => ExtendedKeyUsagePurpose::Any,
        "server auth" => ExtendedKeyUsagePurpose::ServerAuth,
        "client auth" => ExtendedKeyUsagePurpose::ClientAuth,
        "code signing" => ExtendedKeyUsagePurpose::CodeSigning,
        "email protection" | "s/mime" => ExtendedKeyUsagePurpose::EmailProtection,
        "ipsec end system" => pkix(5),
        "ipsec tunnel" => pkix(6),
        "ipsec user" => pkix(7),
        "timestamping" => ExtendedKeyUsagePurpose::TimeStamping,
        "ocsp signing" => ExtendedKeyUsagePurpose::OcspSigning,
        "microsoft sgc" => ExtendedKeyUsagePurpose::Other(vec![1, 3, 6, 1, 4, 1, 311, 10, 3, 3]),
        "netscape sgc" => ExtendedKeyUsagePurpose::Other(vec![2, 16, 840, 1, 113_730, 4, 1]),
        _ => return None,
    })
}
