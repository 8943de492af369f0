//! The server's certificate authority, and the certificates that it signs at each start.
//!
//! A server that keeps its objects keeps its authority too, so that a kubeconfig outlives it. The
//! certificates of the server and of the administrator are signed anew at each start: they never
//! expire in a server that is restarted once a year, and they always have the names that the server
//! was started with.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::sync::Arc;

use kubewright_core::Time;
use kubewright_core::der::{SEQUENCE, any, of};
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

use crate::private_file;

type Problem = Box<dyn std::error::Error + Send + Sync>;

const DAY: i64 = 24 * 60 * 60;
/// How long the authority is valid, in seconds.
const AUTHORITY_LIFETIME: i64 = 3650 * DAY;
/// How long the certificates of the server and of the administrator are valid, in seconds.
const LIFETIME: i64 = 365 * DAY;
/// How long before they are signed certificates are valid, for clients whose clocks are behind.
const CLOCK_SKEW: i64 = 60 * 60;

/// The names by which every server is reached from this machine and from pods.
const NAMES: [&str; 4] = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];

/// What a server needs to speak TLS, and what its administrator needs to be known.
pub(super) struct Certificates {
    pub(super) tls: Arc<ServerConfig>,
    pub(super) admin: Admin,
}

/// The credentials of the administrator, in PEM.
pub(super) struct Admin {
    pub(super) authority: String,
    pub(super) certificate: String,
    pub(super) key: String,
}

/// Signs certificates.
pub(super) struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// A new authority, which ends with the server.
    pub(super) fn generate() -> Result<Self, Problem> {
        Authority::create().map(|(authority, _)| authority)
    }

    /// The authority in `directory`, or a new one there.
    ///
    /// # Errors
    /// If its files can be neither used nor written; the error names them.
    pub(super) fn kept_in(directory: &Path) -> Result<Self, Problem> {
        let directory = directory.join("pki");
        Authority::in_directory(&directory).map_err(|error| format!("{}: {error}", directory.display()).into())
    }

    fn in_directory(directory: &Path) -> Result<Self, Problem> {
        private_file::directory(directory)?;
        let (certificate, key) = (directory.join("ca.crt"), directory.join("ca.key"));
        match (read(&certificate)?, read(&key)?) {
            (Some(found), Some(key)) if !is_about_to_expire(&found)? => {
                let issuer = Issuer::from_ca_cert_pem(&found, KeyPair::from_pem(&key)?)?;
                return Ok(Authority { certificate: found, issuer });
            }
            (Some(_), Some(_)) => tracing::warn!(
                directory = %directory.display(),
                "the certificate authority is about to expire and is replaced; kubeconfigs have to be written again"
            ),
            (Some(_), None) => return Err("ca.key is missing; restore it, or remove ca.crt to begin anew".into()),
            // A server that died before it wrote the certificate has signed nothing.
            (None, _) => {}
        }
        let (authority, new_key) = Authority::create()?;
        private_file::write(&key, new_key.as_bytes())?;
        private_file::write(&certificate, authority.certificate.as_bytes())?;
        Ok(authority)
    }

    /// A new authority and its key in PEM.
    fn create() -> Result<(Self, String), Problem> {
        let mut params = named("kubewright-ca", None, AUTHORITY_LIFETIME)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate()?;
        let (certificate, text) = (params.self_signed(&key)?.pem(), key.serialize_pem());
        Ok((Authority { certificate, issuer: Issuer::new(params, key) }, text))
    }

    /// Certificates for a server that is reached at this address, and by these further names and
    /// addresses.
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
        let admin = Admin { authority: self.certificate, certificate, key: admin_key.serialize_pem() };
        Ok(Certificates { tls, admin })
    }
}

/// The settings of TLS: any client may connect, and a certificate of our authority says who it is.
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

/// All names and addresses of a server, each once.
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

/// The text of a file, if it is there.
fn read(path: &Path) -> io::Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether an authority would expire before a certificate that it signs now.
fn is_about_to_expire(certificate: &str) -> Result<bool, Problem> {
    let certificate = CertificateDer::from_pem_slice(certificate.as_bytes())?;
    let expires = expiry(&certificate).ok_or("ca.crt is no certificate with a date of expiry")?;
    // Both are texts of the same form, so that they compare as times do.
    Ok(expires < generalized(Time::now().as_unix() + LIFETIME)?)
}

/// When a certificate expires, as `YYYYMMDDHHMMSSZ` (RFC 5280, 4.1.2.5).
fn expiry(der: &[u8]) -> Option<String> {
    const UTC_TIME: u8 = 0x17;
    let mut fields = of(&mut of(&mut &*der, SEQUENCE)?, SEQUENCE)?;
    // The version has a tag of its own and may be left out. Serial number, signature and issuer
    // follow.
    let before = if fields.first() == Some(&0xa0) { 4 } else { 3 };
    for _ in 0..before {
        any(&mut fields)?;
    }
    let mut validity = of(&mut fields, SEQUENCE)?;
    any(&mut validity)?;
    let (tag, time) = any(&mut validity)?;
    let time = std::str::from_utf8(time).ok()?;
    // Two digits of a year mean 1950 to 2049.
    Some(match tag {
        UTC_TIME if time < "50" => format!("20{time}"),
        UTC_TIME => format!("19{time}"),
        _ => time.to_owned(),
    })
}

fn generalized(seconds: i64) -> Result<String, Problem> {
    let time = OffsetDateTime::from_unix_timestamp(seconds)?;
    let (year, month, day) = time.to_calendar_date();
    let (hour, minute, second) = time.to_hms();
    Ok(format!("{year:04}{:02}{day:02}{hour:02}{minute:02}{second:02}Z", u8::from(month)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Directory;

    fn der(pem: &str) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(pem.as_bytes()).expect("it is ours")
    }

    #[test]
    fn an_authority_is_kept_and_what_it_signs_expires_in_a_year() {
        let directory = Directory::new("authority");
        let first = Authority::kept_in(&directory.0).expect("it can be made").certificate;
        let again = Authority::kept_in(&directory.0).expect("it can be read");
        assert_eq!(again.certificate, first);
        let further = ["shop.example".to_owned(), "10.1.2.3".to_owned(), "localhost".to_owned()];
        let admin = again.certificates(IpAddr::from([127, 0, 0, 1]), &further).expect("names").admin;
        let in_days = |days| generalized(Time::now().as_unix() + days * DAY).expect("a time");
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
        let kept = Authority::kept_in(&directory.0).expect("it is replaced").certificate;
        assert_ne!(kept, old);
    }

    #[test]
    fn an_authority_without_its_key_is_an_error() {
        let directory = Directory::new("keyless");
        Authority::kept_in(&directory.0).expect("it can be made");
        std::fs::remove_file(directory.0.join("pki/ca.key")).expect("it is there");
        let error = Authority::kept_in(&directory.0).err().expect("it cannot sign").to_string();
        assert!(error.contains("ca.key is missing"), "{error}");
    }

    #[test]
    fn a_name_that_is_none_is_named() {
        let authority = Authority::generate().expect("keys");
        let refused = authority.certificates(IpAddr::from([127, 0, 0, 1]), &["größe".to_owned()]);
        let error = refused.err().expect("no name").to_string();
        assert!(error.contains("größe"), "{error}");
    }
}
