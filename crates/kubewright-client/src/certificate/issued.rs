//! An issued certificate with its key.

use std::fmt;

use kubewright_core::{ByteString, Time};

use super::error::CertificateError;
use super::leaf::Leaf;
use super::template::CertificateTemplate;
use kubewright_net::Secret;
use kubewright_net::config::CertificateSource;
use kubewright_net::credentials::{ClientCertificate, Identity, KeySource};

/// A certificate and its key, verified to belong together. The key is never printed.
#[derive(Clone)]
#[doc(alias = "tls.Certificate")]
pub struct IssuedCertificate {
    certificate: ByteString,
    key: Secret<ByteString>,
    leaf: Leaf,
    not_before: Time,
    not_after: Time,
}

impl IssuedCertificate {
    /// Parses both from PEM. The first certificate is the leaf, the others are intermediates.
    ///
    /// # Errors
    /// If they are not PEM, or the key belongs to another certificate.
    #[doc(alias = "X509KeyPair")]
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, CertificateError> {
        let identity = Identity::from_pem(certificate, key, "the client")?;
        identity.check()?;
        let leaf = Leaf::read(&identity.chain[0]).ok_or(CertificateError::Unreadable)?;
        let (Some(not_before), Some(not_after)) = (leaf.not_before, leaf.not_after) else {
            return Err(CertificateError::Unreadable);
        };
        // One file may contain both, and the key must not be stored with the certificate.
        let certificate = ByteString::from(blocks(certificate, |label| label == "CERTIFICATE"));
        let key = Secret::new(ByteString::from(blocks(key, |label| label.ends_with("PRIVATE KEY"))));
        Ok(IssuedCertificate { certificate, key, leaf, not_before, not_after })
    }

    /// The certificates, in PEM.
    pub fn certificate(&self) -> &[u8] {
        &self.certificate
    }

    /// The key, in PEM.
    pub fn key(&self) -> &Secret<ByteString> {
        &self.key
    }

    /// Start of the validity period.
    #[doc(alias = "NotBefore")]
    pub fn not_before(&self) -> Time {
        self.not_before
    }

    /// End of the validity period.
    #[doc(alias = "NotAfter")]
    pub fn not_after(&self) -> Time {
        self.not_after
    }

    /// The common name, which is the user.
    pub fn common_name(&self) -> &str {
        &self.leaf.common_name
    }

    /// Whether it has everything that `template` requires. It may have more, as the signer decides.
    pub fn satisfies(&self, template: &CertificateTemplate) -> bool {
        let has_all = |wanted: &[String], there: &[String]| wanted.iter().all(|name| there.contains(name));
        self.leaf.common_name == template.common_name
            && has_all(&template.organizations, &self.leaf.organizations)
            && has_all(&template.dns_names, &self.leaf.dns_names)
            && template.ip_addresses.iter().all(|address| self.leaf.ip_addresses.contains(address))
    }

    /// Converts it for a [`Config`](crate::Config).
    pub fn to_client_certificate(&self) -> ClientCertificate {
        ClientCertificate {
            certificate: CertificateSource::Data(self.certificate.clone()),
            key: KeySource::Data(self.key.clone()),
        }
    }
}

/// The PEM blocks with a matching label.
fn blocks(pem: &[u8], is_wanted: impl Fn(&str) -> bool) -> Vec<u8> {
    let (mut kept, mut inside) = (Vec::new(), false);
    for line in pem.split(|byte| *byte == b'\n') {
        let text = std::str::from_utf8(line).unwrap_or_default().trim();
        if let Some(label) = text.strip_prefix("-----BEGIN ") {
            inside = is_wanted(label.trim_end_matches('-'));
        }
        if inside {
            kept.extend_from_slice(line.trim_ascii());
            kept.push(b'\n');
        }
        inside &= !text.starts_with("-----END ");
    }
    kept
}

impl fmt::Debug for IssuedCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IssuedCertificate")
            .field("common_name", &self.leaf.common_name)
            .field("not_before", &self.not_before)
            .field("not_after", &self.not_after)
            .finish_non_exhaustive()
    }
}
