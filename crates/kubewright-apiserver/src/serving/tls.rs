//! TLS of the server, and which client certificates it recognizes.
//!
//! The handshake accepts every client certificate; it only proves that the client has the key. Then
//! the server looks which of its authorities signed it: those of users, or those of front proxies.
//! So a request with an unknown certificate is answered with 401, as by kube-apiserver, and may
//! still have a token.

use std::error::Error;
use std::sync::Arc;

use kubewright_auth::authentication::{ClientCertificate, subject};
use kubewright_net::Secret;
use kubewright_net::der::Certificate;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme};

/// TLS of the server.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(super) config: Arc<ServerConfig>,
    pub(super) clients: Arc<ClientAuthorities>,
}

impl Tls {
    /// Serves this certificate with this key, in PEM.
    pub(crate) fn new(
        certificate: &str,
        key: &Secret<String>,
        users: RootCertStore,
        front_proxies: Option<RootCertStore>,
    ) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let provider = Arc::new(ring::default_provider());
        let hints = users.subjects();
        let clients = ClientAuthorities::new(users, front_proxies, &provider)?;
        let verifier = Arc::new(AnyClientCertificate { hints, provider: Arc::clone(&provider) });
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate.as_bytes()).collect();
        let key = PrivateKeyDer::from_pem_slice(key.expose().as_bytes())?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain?, key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Tls { config: Arc::new(config), clients: Arc::new(clients) })
    }
}

/// The authorities of client certificates.
#[derive(Debug)]
pub(super) struct ClientAuthorities {
    users: Arc<dyn ClientCertVerifier>,
    front_proxies: Option<Arc<dyn ClientCertVerifier>>,
}

impl ClientAuthorities {
    /// Recognizes the certificates that these authorities signed.
    fn new(
        users: RootCertStore,
        front_proxies: Option<RootCertStore>,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, VerifierBuilderError> {
        let verifier = |roots: RootCertStore| {
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider)).build()
        };
        Ok(ClientAuthorities { users: verifier(users)?, front_proxies: front_proxies.map(verifier).transpose()? })
    }

    /// The identity that a certificate proves. It is the first of the chain.
    pub(super) fn recognize(&self, chain: &[CertificateDer<'static>]) -> Option<ClientCertificate> {
        let (certificate, further) = chain.split_first()?;
        let is_signed_by = |authority: &Arc<dyn ClientCertVerifier>| {
            authority.verify_client_cert(certificate, further, UnixTime::now()).is_ok()
        };
        let user = subject(certificate);
        let front_proxy = self.front_proxies.as_ref().filter(|authority| is_signed_by(authority));
        Some(ClientCertificate {
            front_proxy: front_proxy.and(user.as_ref()).map(|user| user.name.clone()),
            user: user.filter(|_| is_signed_by(&self.users)),
            expires: Certificate::read(certificate).and_then(|certificate| certificate.not_after()),
        })
    }
}

/// Accepts every client certificate, and none.
#[derive(Debug)]
struct AnyClientCertificate {
    /// The authorities that the server names in the handshake.
    hints: Vec<DistinguishedName>,
    provider: Arc<CryptoProvider>,
}

impl ClientCertVerifier for AnyClientCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _further: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
