//! Certificate templates and request keys.

use std::net::IpAddr;

use kubewright_core::ByteString;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PublicKeyData, SanType, SigningKey};

use super::error::CertificateError;
use super::leaf::KeyKind;
use kubewright_net::Secret;
use kubewright_net::der::{
    BIT_STRING, COMMON_NAME, INTEGER, OBJECT_IDENTIFIER, ORGANIZATION, SEQUENCE, SET, UTF8_STRING, any, element, of,
};

/// The requested content of a certificate. For a client, the common name is the user and the
/// organizations are its groups.
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
    /// DNS names of a server.
    pub dns_names: Vec<String>,
    /// IP addresses of a server.
    pub ip_addresses: Vec<IpAddr>,
}

impl CertificateTemplate {
    /// A certificate for this user.
    pub fn new(common_name: impl Into<String>) -> Self {
        CertificateTemplate { common_name: common_name.into(), ..CertificateTemplate::default() }
    }

    /// Adds a group.
    #[must_use]
    pub fn organization(mut self, organization: impl Into<String>) -> Self {
        self.organizations.push(organization.into());
        self
    }

    /// Adds a DNS name.
    #[must_use]
    pub fn dns_name(mut self, name: impl Into<String>) -> Self {
        self.dns_names.push(name.into());
        self
    }

    /// Adds an IP address.
    #[must_use]
    pub fn ip_address(mut self, address: IpAddr) -> Self {
        self.ip_addresses.push(address);
        self
    }

    /// The request in PEM, signed with `key`.
    pub(super) fn request(&self, key: &RequestKey) -> Result<ByteString, CertificateError> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        // Replaced below. Without a subject, rcgen would mark the server names as critical.
        params.distinguished_name.push(DnType::CommonName, self.common_name.as_str());
        for name in &self.dns_names {
            let name = name.as_str().try_into().map_err(|_| CertificateError::Key(format!("{name:?} is no name")))?;
            params.subject_alt_names.push(SanType::DnsName(name));
        }
        params.subject_alt_names.extend(self.ip_addresses.iter().copied().map(SanType::IpAddress));
        let refused = |error: rcgen::Error| CertificateError::Key(error.to_string());
        let request = params.serialize_request(&key.pair).map_err(refused)?;
        let unsigned = Unsigned::read(request.der()).expect("rcgen writes a valid request");
        unsigned.sign(&self.subject(), &key.pair).map(|der| pem(&der)).map_err(refused)
    }

    /// Each attribute in its own set, as most implementations except Go do; Go parses both.
    fn subject(&self) -> Vec<u8> {
        let name = |kind: &[u8], text: &str| {
            let pair = [element(OBJECT_IDENTIFIER, kind), element(UTF8_STRING, text.as_bytes())].concat();
            element(SET, &element(SEQUENCE, &pair))
        };
        let organizations = self.organizations.iter().map(|organization| name(ORGANIZATION, organization));
        let names: Vec<u8> = organizations.chain([name(COMMON_NAME, &self.common_name)]).flatten().collect();
        element(SEQUENCE, &names)
    }
}

/// A request without its subject; rcgen can only write one attribute of each type.
struct Unsigned<'a> {
    version: &'a [u8],
    /// The public key, and the server names.
    rest: &'a [u8],
    algorithm: &'a [u8],
}

impl<'a> Unsigned<'a> {
    fn read(mut request: &'a [u8]) -> Option<Self> {
        let mut request = of(&mut request, SEQUENCE)?;
        let mut info = of(&mut request, SEQUENCE)?;
        let (version, _subject) = (of(&mut info, INTEGER)?, any(&mut info)?);
        Some(Unsigned { version, rest: info, algorithm: of(&mut request, SEQUENCE)? })
    }

    fn sign(&self, subject: &[u8], key: &KeyPair) -> Result<Vec<u8>, rcgen::Error> {
        let info = element(SEQUENCE, &[&element(INTEGER, self.version), subject, self.rest].concat());
        // The first byte is the number of unused bits.
        let signature = element(BIT_STRING, &[vec![0], key.sign(&info)?].concat());
        Ok(element(SEQUENCE, &[info, element(SEQUENCE, self.algorithm), signature].concat()))
    }
}

fn pem(der: &[u8]) -> ByteString {
    let text = ByteString::from(der.to_vec()).to_base64();
    let lines = text.as_bytes().chunks(64).flat_map(|line| [line, b"\n"].concat());
    let begin = b"-----BEGIN CERTIFICATE REQUEST-----\n".iter().copied();
    begin.chain(lines).chain(*b"-----END CERTIFICATE REQUEST-----\n").collect::<Vec<u8>>().into()
}

/// The private key of a request.
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

    /// A user-provided key.
    pub(super) fn from_pem(pem: Secret<ByteString>) -> Result<Self, CertificateError> {
        // The parser's error could quote the key.
        let unusable = || CertificateError::Key("the key is not a usable private key".to_owned());
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

    /// Default key usages of a client certificate. Only RSA keys can encrypt other keys.
    pub(super) fn client_usages(&self) -> &'static [&'static str] {
        match self.kind {
            KeyKind::Rsa { .. } => &["digital signature", "key encipherment", "client auth"],
            KeyKind::Ecdsa { .. } => &["digital signature", "client auth"],
        }
    }
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::CertificateSigningRequestDer;
    use rustls::pki_types::pem::PemObject;

    use super::super::leaf::Leaf;
    use super::*;

    #[test]
    fn all_groups_are_asked_for() {
        // CM-1
        let template = CertificateTemplate::new("jane").organization("developers").organization("testers");
        let template = template.dns_name("jane.example").ip_address([10, 0, 0, 1].into());
        let key = RequestKey::generate().expect("keys can be made");
        let pem = template.request(&key).expect("fine");
        let der = CertificateSigningRequestDer::from_pem_slice(&pem).expect("it is PEM");
        let mut request = of(&mut &der[..], SEQUENCE).expect("a request");
        let signed = request;
        let mut info = of(&mut request, SEQUENCE).expect("the signed part");
        let signed = &signed[..signed.len() - request.len()];
        assert_eq!(of(&mut info, INTEGER), Some(&[0][..]));
        let mut leaf = Leaf::default();
        leaf.read_names(of(&mut info, SEQUENCE).expect("a subject")).expect("names");
        assert_eq!((leaf.common_name, leaf.organizations), (template.common_name, template.organizations));
        let has = |wanted: &[u8]| info.windows(wanted.len()).any(|bytes| bytes == wanted);
        assert!(has(b"jane.example") && has(&[10, 0, 0, 1]) && has(&key.pair.subject_public_key_info()));
        assert!(has(&[0x55, 0x1d, 0x11, 0x04]), "the names of a server are not critical where there is a subject");
        of(&mut request, SEQUENCE).expect("an algorithm");
        let signature = &of(&mut request, BIT_STRING).expect("a signature")[1..];
        let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms;
        let holds = |message: &[u8]| {
            let mut all = algorithms.all.iter();
            all.any(|one| one.verify_signature(key.pair.der_bytes(), message, signature).is_ok())
        };
        assert!(holds(signed) && !holds(&signed[1..]));
    }
}
