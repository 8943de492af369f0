//! Certificates that a server makes for itself: an authority, its own, and one for its administrator.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, SanType,
};
use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

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

impl Certificates {
    /// Makes new ones for a server that is reached at this address, or as `localhost`.
    pub(super) fn generate(address: IpAddr) -> Result<Self, Problem> {
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

        let mut roots = RootCertStore::empty();
        roots.add(authority.der().clone())?;
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let verifier = verifier.allow_unauthenticated().build()?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(server_key.serialize_der()));
        let mut tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![server.der().clone()], key)?;
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let admin = Admin { authority: authority.pem(), certificate: admin.pem(), key: admin_key.serialize_pem() };
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
