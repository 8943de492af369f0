//! The identity of this server towards aggregated API servers.
//!
//! Their authentication relies on a client certificate of a separate authority: the ConfigMap
//! `extension-apiserver-authentication` tells them which certificates and headers to believe.

use kubewright_core::Value;
use kubewright_net::Secret;
use kubewright_net::config::CertificateSource;
use kubewright_net::credentials::{ClientCertificate, KeySource};
use kubewright_objects::object::tree;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// The common name of the client certificate.
const NAME: &str = "front-proxy-client";

/// A client certificate that only this server has. It is created anew at each start.
pub(crate) struct FrontProxy {
    authority: String,
    certificate: String,
    key: Secret<String>,
}

impl FrontProxy {
    /// Creates an authority and signs a client certificate with it.
    pub(crate) fn generate() -> Result<Self, rcgen::Error> {
        let key = KeyPair::generate()?;
        let mut params = named("front-proxy-ca");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let authority = params.self_signed(&key)?.pem();
        let issuer = Issuer::new(params, key);
        let key = KeyPair::generate()?;
        let mut params = named(NAME);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let certificate = params.signed_by(&key, &issuer)?.pem();
        Ok(FrontProxy { authority, certificate, key: key.serialize_pem().into() })
    }

    /// The client certificate.
    pub(super) fn certificate(&self) -> ClientCertificate {
        ClientCertificate {
            certificate: CertificateSource::Data(self.certificate.as_bytes().into()),
            key: KeySource::Data(Secret::new(self.key.expose().as_bytes().into())),
        }
    }

    /// The data of the ConfigMap for aggregated servers. `client_authority` signs the certificates
    /// of clients of this server.
    pub(crate) fn configuration(&self, client_authority: &str) -> Value {
        tree::map([
            ("client-ca-file", client_authority.into()),
            ("requestheader-allowed-names", format!("[{NAME:?}]").into()),
            ("requestheader-client-ca-file", self.authority.as_str().into()),
            ("requestheader-extra-headers-prefix", r#"["X-Remote-Extra-"]"#.into()),
            ("requestheader-group-headers", r#"["X-Remote-Group"]"#.into()),
            ("requestheader-uid-headers", r#"["X-Remote-Uid"]"#.into()),
            ("requestheader-username-headers", r#"["X-Remote-User"]"#.into()),
        ])
    }
}

fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}
