//! The certificate authority of the server, and the certificates that it signs at each start.
//!
//! A persistent server also persists its authority, so kubeconfigs stay valid across restarts. The
//! certificates of the server and the administrator are renewed at each start. So they do not
//! expire if the server restarts at least once a year, and they always contain the configured
//! names.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::sync::Arc;

use kubewright_core::Time;
use kubewright_net::Secret;
use kubewright_net::der::Certificate;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use time::OffsetDateTime;

use kubewright_storage::private_file;

type Problem = Box<dyn std::error::Error + Send + Sync>;

const DAY: i64 = 24 * 60 * 60;
/// Validity of the authority, in seconds.
const AUTHORITY_LIFETIME: i64 = 3650 * DAY;
/// Validity of the server and administrator certificates, in seconds.
const LIFETIME: i64 = 365 * DAY;
/// Certificates are backdated by this much, for clients whose clocks are slow.
const CLOCK_SKEW: i64 = 60 * 60;

/// The default DNS names of the server certificate.
const NAMES: [&str; 4] = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];

/// The TLS configuration of the server, and the administrator's credentials.
pub(super) struct Certificates {
    pub(super) tls: Arc<ServerConfig>,
    pub(super) admin: Admin,
}

/// The administrator's credentials, in PEM.
pub(super) struct Admin {
    pub(super) authority: String,
    pub(super) certificate: String,
    pub(super) key: String,
    /// The key of the authority, for signing certificate requests.
    pub(super) authority_key: Secret<String>,
}

/// The certificate authority.
pub(super) struct Authority {
    certificate: String,
    key: Secret<String>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// A new authority, kept in memory only.
    pub(super) fn generate() -> Result<Self, Problem> {
        Authority::create()
    }

    /// Loads the authority from `directory`, or creates it there.
    ///
    /// # Errors
    ///
    /// Its files can be neither read nor written. The error contains the path.
    pub(super) fn load_or_create(directory: &Path) -> Result<Self, Problem> {
        let directory = directory.join("pki");
        Authority::in_directory(&directory).map_err(|error| format!("{}: {error}", directory.display()).into())
    }

    fn in_directory(directory: &Path) -> Result<Self, Problem> {
        private_file::directory(directory)?;
        let (certificate, key) = (directory.join("ca.crt"), directory.join("ca.key"));
        match (read(&certificate)?, read(&key)?) {
            (Some(found), Some(key)) if !is_about_to_expire(&found)? => {
                let issuer = Issuer::from_ca_cert_pem(&found, KeyPair::from_pem(&key)?)?;
                return Ok(Authority { certificate: found, key: key.into(), issuer });
            }
            (Some(_), Some(_)) => tracing::warn!(
                directory = %directory.display(),
                "the certificate authority is about to expire and is replaced; kubeconfigs have to be written again"
            ),
            (Some(_), None) => {
                return Err("ca.key is missing; restore it, or remove ca.crt to create a new authority".into());
            }
            // A key without a certificate is left when the server stops during creation. It has
            // signed nothing yet.
            (None, _) => {}
        }
        let authority = Authority::create()?;
        private_file::write(&key, authority.key.expose().as_bytes())?;
        private_file::write(&certificate, authority.certificate.as_bytes())?;
        Ok(authority)
    }

    /// Creates an authority.
    fn create() -> Result<Self, Problem> {
        let mut params = named("kubewright-ca", None, AUTHORITY_LIFETIME)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?.pem();
        Ok(Authority { certificate, key: key.serialize_pem().into(), issuer: Issuer::new(params, key) })
    }

    /// Signs the certificates for a server with this address and these further names.
    pub(super) fn certificates(self, address: IpAddr, further: &[String]) -> Result<Certificates, Problem> {
        let mut params = named("kube-apiserver", None, LIFETIME)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.subject_alt_names = subject_names(address, further)?;
        let server_key = KeyPair::generate()?;
        let server = params.signed_by(&server_key, &self.issuer)?;

        let mut params = named("kubernetes-admin", Some("system:masters"), LIFETIME)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let admin_key = KeyPair::generate()?;
        let certificate = params.signed_by(&admin_key, &self.issuer)?.pem();

        let tls = tls(&self.certificate, server.der().clone(), &server_key)?;
        let admin =
            Admin { authority: self.certificate, certificate, key: admin_key.serialize_pem(), authority_key: self.key };
        Ok(Certificates { tls, admin })
    }
}

/// The TLS configuration: client certificates are optional and must be signed by the authority.
fn tls(authority: &str, server: CertificateDer<'static>, key: &KeyPair) -> Result<Arc<ServerConfig>, Problem> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes())?)?;
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let verifier = verifier.allow_unauthenticated().build()?;
    let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes())?;
    let mut tls = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![server], key)?;
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(tls))
}

/// All unique names and addresses of a server.
fn subject_names(address: IpAddr, further: &[String]) -> Result<Vec<SanType>, Problem> {
    let mut addresses =
        vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into(), Ipv4Addr::new(10, 96, 0, 1).into()];
    let mut names: Vec<&str> = NAMES.to_vec();
    if !address.is_unspecified() {
        addresses.push(address);
    }
    for name in further {
        match name.parse() {
            Ok(address) => addresses.push(address),
            Err(_) => names.push(name),
        }
    }
    let mut all = Vec::new();
    for name in names {
        let refused = |_| format!("{name:?} is neither an address nor a DNS name");
        all.push(SanType::DnsName(name.try_into().map_err(refused)?));
    }
    all.extend(addresses.into_iter().map(SanType::IpAddress));
    let mut known = Vec::new();
    all.retain(|name| {
        let is_new = !known.contains(name);
        known.push(name.clone());
        is_new
    });
    Ok(all)
}

fn named(name: &str, organization: Option<&str>, lifetime: i64) -> Result<CertificateParams, Problem> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    if let Some(organization) = organization {
        params.distinguished_name.push(DnType::OrganizationName, organization);
    }
    params.distinguished_name.push(DnType::CommonName, name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    let now = Time::now().as_unix();
    params.not_before = OffsetDateTime::from_unix_timestamp(now - CLOCK_SKEW)?;
    params.not_after = OffsetDateTime::from_unix_timestamp(now + lifetime)?;
    Ok(params)
}

/// The text of a file, if it exists.
fn read(path: &Path) -> io::Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the authority expires before a certificate that it signs now.
fn is_about_to_expire(certificate: &str) -> Result<bool, Problem> {
    let certificate = CertificateDer::from_pem_slice(certificate.as_bytes())?;
    let expires = expiry(&certificate).ok_or("ca.crt is not a certificate with an expiry date")?;
    Ok(expires < Time::now().as_unix() + LIFETIME)
}

/// The expiry time of a certificate, in seconds since 1970.
fn expiry(der: &[u8]) -> Option<i64> {
    Certificate::read(der)?.not_after().map(Time::as_unix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubewright_storage::Directory;

    fn der(pem: &str) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(pem.as_bytes()).expect("it is ours")
    }

    #[test]
    fn an_authority_is_persistent_and_its_certificates_expire_in_a_year() {
        let directory = Directory::new("authority");
        let first = Authority::load_or_create(&directory.0).expect("it can be made").certificate;
        let again = Authority::load_or_create(&directory.0).expect("it can be read");
        assert_eq!(again.certificate, first);
        let further = ["shop.example".to_owned(), "10.1.2.3".to_owned(), "localhost".to_owned()];
        let admin = again.certificates(IpAddr::from([127, 0, 0, 1]), &further).expect("names").admin;
        let in_days = |days| Time::now().as_unix() + days * DAY;
        let expires = expiry(&der(&admin.certificate)).expect("a date");
        assert!(in_days(364) < expires && expires < in_days(366), "{expires}");
        let expires = expiry(&der(&first)).expect("a date");
        assert!(in_days(3649) < expires && expires < in_days(3651), "{expires}");
    }

    #[test]
    fn an_authority_that_is_about_to_expire_is_replaced() {
        let directory = Directory::new("expiring");
        let pki = directory.0.join("pki");
        private_file::directory(&pki).expect("it can be made");
        let key = KeyPair::generate().expect("a key");
        let mut params = named("old", None, LIFETIME / 2).expect("a time");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let old = params.self_signed(&key).expect("it signs itself").pem();
        std::fs::write(pki.join("ca.crt"), &old).expect("it can be written");
        std::fs::write(pki.join("ca.key"), key.serialize_pem()).expect("it can be written");
        let kept = Authority::load_or_create(&directory.0).expect("it is replaced").certificate;
        assert_ne!(kept, old);
    }

    #[test]
    fn an_authority_without_its_key_is_an_error() {
        let directory = Directory::new("keyless");
        Authority::load_or_create(&directory.0).expect("it can be made");
        std::fs::remove_file(directory.0.join("pki/ca.key")).expect("it is there");
        let error = Authority::load_or_create(&directory.0).err().expect("it cannot sign").to_string();
        assert!(error.contains("ca.key is missing"), "{error}");
    }

    #[test]
    fn an_invalid_name_is_reported() {
        let authority = Authority::generate().expect("keys");
        let refused = authority.certificates(IpAddr::from([127, 0, 0, 1]), &["größe".to_owned()]);
        let error = refused.err().expect("no name").to_string();
        assert!(error.contains("größe"), "{error}");
    }
}
