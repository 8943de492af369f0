//! What is asked for in a certificate, and the key it is asked for.

use std::net::IpAddr;

use kubewright_core::ByteString;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PublicKeyData, SanType};

use super::error::CertificateError;
use super::leaf::KeyKind;
use crate::secret::Secret;

/// What a certificate has to say: for a client's the user as common name, and its groups as organizations.
///
/// ```
/// # use kubewright_client::certificate::CertificateTemplate;
/// let node = CertificateTemplate::new("system:node:n1").organization("system:nodes");
/// assert_eq!(node.organizations, ["system:nodes"]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[doc(alias = "x509.CertificateRequest")]
pub struct CertificateTemplate {
    /// The user.
    pub common_name: String,
    /// The user's groups.
    pub organizations: Vec<String>,
    /// Names of a server.
    pub dns_names: Vec<String>,
    /// Addresses of a server.
    pub ip_addresses: Vec<IpAddr>,
}

impl CertificateTemplate {
    /// A certificate for this user.
    pub fn new(common_name: impl Into<String>) -> Self {
        CertificateTemplate { common_name: common_name.into(), ..CertificateTemplate::default() }
    }

    /// Also of this group.
    #[must_use]
    pub fn organization(mut self, organization: impl Into<String>) -> Self {
        self.organizations.push(organization.into());
        self
    }

    /// Also for a server of this name.
    #[must_use]
    pub fn dns_name(mut self, name: impl Into<String>) -> Self {
        self.dns_names.push(name.into());
        self
    }

    /// Also for a server at this address.
    #[must_use]
    pub fn ip_address(mut self, address: IpAddr) -> Self {
        self.ip_addresses.push(address);
        self
    }

    /// The request in PEM, signed with `key`.
    pub(super) fn request(&self, key: &RequestKey) -> Result<ByteString, CertificateError> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        for organization in &self.organizations {
            params.distinguished_name.push(DnType::OrganizationName, organization.as_str());
        }
        params.distinguished_name.push(DnType::CommonName, self.common_name.as_str());
        for name in &self.dns_names {
            let name = name.as_str().try_into().map_err(|_| CertificateError::Key(format!("{name:?} is no name")))?;
            params.subject_alt_names.push(SanType::DnsName(name));
        }
        params.subject_alt_names.extend(self.ip_addresses.iter().copied().map(SanType::IpAddress));
        let request = params.serialize_request(&key.pair).and_then(|request| request.pem());
        request.map(|pem| pem.as_str().into()).map_err(|error| CertificateError::Key(error.to_string()))
    }
}

/// A private key that a certificate is asked for.
pub(super) struct RequestKey {
    pair: KeyPair,
    kind: KeyKind,
    pem: Secret<ByteString>,
}

impl RequestKey {
    /// A new key on the curve P-256.
    pub(super) fn generate() -> Result<Self, CertificateError> {
        let pair = KeyPair::generate().map_err(|error| CertificateError::Key(error.to_string()))?;
        let pem = Secret::new(pair.serialize_pem().as_str().into());
        RequestKey::checked(pair, pem)
    }

    /// A key that somebody else has made.
    pub(super) fn from_pem(pem: Secret<ByteString>) -> Result<Self, CertificateError> {
        // The parser's error could quote what it has read.
        let unusable = || CertificateError::Key("the key is no private key that can be used".to_owned());
        let text = std::str::from_utf8(pem.expose()).map_err(|_| unusable())?;
        let pair = KeyPair::from_pem(text).map_err(|_| unusable())?;
        RequestKey::checked(pair, pem)
    }

    fn checked(pair: KeyPair, pem: Secret<ByteString>) -> Result<Self, CertificateError> {
        match KeyKind::of(&pair.subject_public_key_info()) {
            Some(kind) if kind.is_strong() => Ok(RequestKey { pair, kind, pem }),
            _ => Err(CertificateError::Key(
                "the key is neither RSA of at least 2048 bits nor on a curve of at least 256".to_owned(),
            )),
        }
    }

    pub(super) fn pem(&self) -> &Secret<ByteString> {
        &self.pem
    }

    /// What a client's certificate is good for. Only RSA keys can encrypt other keys.
    pub(super) fn client_usages(&self) -> &'static [&'static str] {
        match self.kind {
            KeyKind::Rsa { .. } => &["digital signature", "key encipherment", "client auth"],
            KeyKind::Ecdsa { .. } => &["digital signature", "client auth"],
        }
    }
}
