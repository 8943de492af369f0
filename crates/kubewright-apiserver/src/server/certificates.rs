//! The certificate authority of the server, and the certificates that it signs at each start.
//!
//! A persistent server also persists its authority, so kubeconfigs stay valid across restarts. The
//! certificates of the server and the administrator are renewed at each start. So they do not
//! expire if the server restarts at least once a year, and they always contain the configured
//! names.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use kubewright_core::Time;
use kubewright_net::Secret;
use kubewright_net::der::Certificate;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use time::OffsetDateTime;

use super::ApiServer;
use crate::serving::Tls;
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

/// The certificates of a server.
pub(super) struct Certificates {
    pub(super) tls: Tls,
    /// The authorities of client certificates, in PEM.
    pub(super) client_authorities: String,
    pub(super) admin: Admin,
}

/// The administrator's credentials, in PEM.
pub(super) struct Admin {
    /// The certificates by which clients verify the server.
    pub(super) server_authority: String,
    /// The server's own authority, which signs client certificates.
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

    /// Signs the certificate of a server with this address and these further names, and that of its
    /// administrator.
    fn sign(&self, address: IpAddr, further: &[String]) -> Result<(ServingCertificate, String, String), Problem> {
        let mut params = named("kube-apiserver", None, LIFETIME)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.subject_alt_names = subject_names(address, further)?;
        let server_key = KeyPair::generate()?;
        let server = params.signed_by(&server_key, &self.issuer)?;
        let serving = ServingCertificate { certificate: server.pem(), key: server_key.serialize_pem().into() };

        let mut params = named("kubernetes-admin", Some("system:masters"), LIFETIME)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let admin_key = KeyPair::generate()?;
        let certificate = params.signed_by(&admin_key, &self.issuer)?.pem();
        Ok((serving, certificate, admin_key.serialize_pem()))
    }
}

/// The certificate that the server shows, and its key, in PEM.
struct ServingCertificate {
    certificate: String,
    key: Secret<String>,
}

impl ServingCertificate {
    /// Reads the files of the settings. `None` if the server's own authority signs.
    fn from_files(server: &ApiServer, address: IpAddr) -> Result<Option<Self>, Problem> {
        let (certificate, key) = match (&server.serving_files, &server.certificate_directory) {
            (Some(files), _) => files.clone(),
            (None, Some(directory)) => {
                let files = (directory.join("apiserver.crt"), directory.join("apiserver.key"));
                if !files.0.exists() && !files.1.exists() {
                    let authority = Authority::generate()?;
                    let (serving, ..) = authority.sign(address, &server.tls_names)?;
                    std::fs::create_dir_all(directory).map_err(|error| about(directory, &error))?;
                    let chain = format!("{}{}", serving.certificate, authority.certificate);
                    private_file::write(&files.1, serving.key.expose().as_bytes())
                        .map_err(|error| about(&files.1, &error))?;
                    std::fs::write(&files.0, chain).map_err(|error| about(&files.0, &error))?;
                }
                files
            }
            (None, None) => return Ok(None),
        };
        let text = |path: &Path| std::fs::read_to_string(path).map_err(|error| about(path, &error));
        Ok(Some(ServingCertificate { certificate: text(&certificate)?, key: text(&key)?.into() }))
    }
}

/// Loads or creates all certificates that the settings ask for.
pub(super) fn prepare(server: &ApiServer, address: IpAddr) -> Result<Certificates, Problem> {
    let authority = match server.key_directory() {
        Some(directory) => Authority::load_or_create(directory)?,
        None => Authority::generate()?,
    };
    let (own, certificate, key) = authority.sign(address, &server.tls_names)?;
    let files = ServingCertificate::from_files(server, address)?;
    let server_authority = files.as_ref().map_or(&authority.certificate, |files| &files.certificate).clone();
    let mut client_authorities = authority.certificate.clone();
    if let Some(file) = &server.client_ca_file {
        client_authorities.push_str(&std::fs::read_to_string(file).map_err(|error| about(file, &error))?);
    }
    let users = roots(&client_authorities)?;
    let front_proxies = match &server.request_header {
        None => None,
        Some(options) => {
            let file = &options.client_ca_file;
            let authorities = std::fs::read_to_string(file).map_err(|error| about(file, &error))?;
            Some(roots(&authorities).map_err(|error| about(file, &*error))?)
        }
    };
    let serving = files.unwrap_or(own);
    let tls = Tls::new(&serving.certificate, &serving.key, users, front_proxies)?;
    let admin =
        Admin { server_authority, authority: authority.certificate, certificate, key, authority_key: authority.key };
    Ok(Certificates { tls, client_authorities, admin })
}

/// The certificates of a PEM file.
fn roots(pem: &str) -> Result<RootCertStore, Problem> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        roots.add(certificate?)?;
    }
    if roots.is_empty() { Err("there is no certificate (PEM) in it".into()) } else { Ok(roots) }
}

fn about(path: &Path, error: &dyn std::fmt::Display) -> Problem {
    format!("{}: {error}", path.display()).into()
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
        let (_, admin, _) = again.sign(IpAddr::from([127, 0, 0, 1]), &further).expect("names");
        let in_days = |days| Time::now().as_unix() + days * DAY;
        let expires = expiry(&der(&admin)).expect("a date");
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
        let refused = authority.sign(IpAddr::from([127, 0, 0, 1]), &["größe".to_owned()]);
        let error = refused.err().expect("no name").to_string();
        assert!(error.contains("größe"), "{error}");
    }
}
