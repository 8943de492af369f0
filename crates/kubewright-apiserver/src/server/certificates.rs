//! Certificates that a server makes for itself: an authority, its own, and one for its administrator.
//!
//! A server that keeps its objects keeps these too, so that a kubeconfig outlives it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, SanType,
};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use crate::private_file;

type Problem = Box<dyn std::error::Error + Send + Sync>;

/// What a server needs to speak TLS, and what its administrator needs to be known.
pub(super) struct Certificates {
    pub(super) tls: Arc<ServerConfig>,
    pub(super) admin: Admin,
}

/// What the administrator shows, in PEM.
pub(super) struct Admin {
    pub(super) authority: String,
    pub(super) certificate: String,
    pub(super) key: String,
}

/// All of it in PEM.
struct Texts {
    authority: String,
    server: String,
    server_key: String,
    admin: String,
    admin_key: String,
}

/// The names of the files that hold the parts of [`Texts`].
const FILES: [&str; 5] = ["ca.crt", "apiserver.crt", "apiserver.key", "admin.crt", "admin.key"];

impl Certificates {
    /// Makes new ones for a server that is reached at this address, or as `localhost`.
    pub(super) fn generate(address: IpAddr) -> Result<Self, Problem> {
        Texts::generate(address)?.into_certificates()
    }

    /// Takes those in `directory`, or makes new ones there if there are none for this address.
    pub(super) fn kept_in(directory: &Path, address: IpAddr) -> Result<Self, Problem> {
        let directory = directory.join(format!("pki-{}", address.to_string().replace(':', "-")));
        let in_directory = |error: Problem| Problem::from(format!("{}: {error}", directory.display()));
        let texts = match Texts::read(&directory) {
            Some(texts) => texts,
            None => {
                let texts = Texts::generate(address)?;
                texts.write(&directory).map_err(|error| in_directory(error.into()))?;
                texts
            }
        };
        texts.into_certificates().map_err(in_directory)
    }
}

impl Texts {
    fn generate(address: IpAddr) -> Result<Self, Problem> {
        let mut params = named("kubewright-ca", None);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;

        let mut params = named("kube-apiserver", None);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        for name in ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"] {
            params.subject_alt_names.push(SanType::DnsName(name.try_into()?));
        }
        let mut addresses =
            vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into(), Ipv4Addr::new(10, 96, 0, 1).into()];
        if !address.is_unspecified() && !addresses.contains(&address) {
            addresses.push(address);
        }
        params.subject_alt_names.extend(addresses.into_iter().map(SanType::IpAddress));
        let server_key = KeyPair::generate()?;
        let server = params.signed_by(&server_key, &authority)?;

        let mut params = named("kubernetes-admin", Some("system:masters"));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let admin_key = KeyPair::generate()?;
        let admin = params.signed_by(&admin_key, &authority)?;

        Ok(Texts {
            authority: authority.pem(),
            server: server.pem(),
            server_key: server_key.serialize_pem(),
            admin: admin.pem(),
            admin_key: admin_key.serialize_pem(),
        })
    }

    fn read(directory: &Path) -> Option<Self> {
        let [authority, server, server_key, admin, admin_key] =
            FILES.map(|name| std::fs::read_to_string(directory.join(name)).ok());
        Some(Texts {
            authority: authority?,
            server: server?,
            server_key: server_key?,
            admin: admin?,
            admin_key: admin_key?,
        })
    }

    fn write(&self, directory: &Path) -> std::io::Result<()> {
        private_file::directory(directory)?;
        let texts = [&self.authority, &self.server, &self.server_key, &self.admin, &self.admin_key];
        for (name, text) in FILES.into_iter().zip(texts) {
            private_file::write(&directory.join(name), text.as_bytes())?;
        }
        Ok(())
    }

    fn into_certificates(self) -> Result<Certificates, Problem> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.authority.as_bytes())?)?;
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let verifier = verifier.allow_unauthenticated().build()?;
        let server = CertificateDer::from_pem_slice(self.server.as_bytes())?;
        let key = PrivateKeyDer::from_pem_slice(self.server_key.as_bytes())?;
        let mut tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![server], key)?;
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let admin = Admin { authority: self.authority, certificate: self.admin, key: self.admin_key };
        Ok(Certificates { tls: Arc::new(tls), admin })
    }
}

fn named(name: &str, organization: Option<&str>) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    if let Some(organization) = organization {
        params.distinguished_name.push(DnType::OrganizationName, organization);
    }
    params.distinguished_name.push(DnType::CommonName, name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params
}
