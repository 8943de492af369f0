//! Accepts any server certificate, for insecure configurations.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, PeerMisbehaved, SignatureScheme};

use crate::der::{BIT_STRING, Certificate, SEQUENCE, of};

/// Accepts every certificate, but verifies that the server owns its key.
///
/// Only the key is parsed: rustls' parser rejects certificates of version 1, which old and
/// home-made servers have.
#[derive(Debug)]
pub(super) struct AnyCertificate(pub(super) Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = PublicKey::of(certificate).ok_or(CertificateError::BadEncoding)?;
        let mut schemes = self.0.signature_verification_algorithms.mapping.iter();
        let (_, algorithms) = schemes
            .find(|(scheme, _)| *scheme == signature.scheme)
            .ok_or(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme)?;
        // A signature scheme does not determine the curve here.
        let mut fitting = algorithms.iter().filter(|one| *one.public_key_alg_id() == *key.algorithm);
        if fitting.any(|one| one.verify_signature(key.bits, message, signature.signature()).is_ok()) {
            Ok(HandshakeSignatureValid::assertion())
        } else {
            Err(CertificateError::BadSignature.into())
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = PublicKey::of(certificate).ok_or(CertificateError::BadEncoding)?;
        let info = SubjectPublicKeyInfoDer::from(key.info);
        verify_tls13_signature_with_raw_key(message, &info, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// The key in a certificate.
struct PublicKey<'a> {
    /// The whole element.
    info: &'a [u8],
    algorithm: &'a [u8],
    bits: &'a [u8],
}

impl<'a> PublicKey<'a> {
    fn of(certificate: &'a CertificateDer<'_>) -> Option<Self> {
        let info = Certificate::read(certificate)?.key_info();
        let mut parts = of(&mut &*info, SEQUENCE)?;
        let (algorithm, bits) = (of(&mut parts, SEQUENCE)?, of(&mut parts, BIT_STRING)?);
        // The first byte is the number of unused bits, which is zero.
        Some(PublicKey { info, algorithm, bits: bits.get(1..)? })
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};
    use rustls::crypto::ring;
    use rustls::pki_types::PrivateKeyDer;
    use rustls::sign::{CertifiedKey, SingleCertAndKey};
    use rustls::version::{TLS12, TLS13};
    use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection, SupportedProtocolVersion};

    use super::*;
    use crate::der::{any, element};

    /// The same certificate in version 1, which has no extensions. Its signature is not verified.
    fn first_version(certificate: &CertificateDer<'_>) -> CertificateDer<'static> {
        let mut parts = of(&mut &certificate[..], SEQUENCE).unwrap();
        let mut fields = of(&mut parts, SEQUENCE).unwrap();
        any(&mut fields).unwrap();
        let kept = fields;
        for _ in 0..6 {
            any(&mut fields).unwrap();
        }
        let fields = element(SEQUENCE, &kept[..kept.len() - fields.len()]);
        element(SEQUENCE, &[&fields, parts].concat()).into()
    }

    /// Whether an insecure client accepts this certificate from a server with this key.
    fn handshake(
        version: &'static SupportedProtocolVersion,
        certificate: &CertificateDer<'static>,
        key: &KeyPair,
    ) -> Result<(), Error> {
        let provider = Arc::new(ring::default_provider());
        let key = ring::sign::any_supported_type(&PrivateKeyDer::try_from(key.serialize_der()).unwrap()).unwrap();
        let shown = SingleCertAndKey::from(CertifiedKey::new(vec![certificate.clone()], key));
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[version])?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(shown));
        let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[version])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
            .with_no_client_auth();
        let mut server = ServerConnection::new(Arc::new(server))?;
        let mut client = ClientConnection::new(Arc::new(client), "server".try_into().unwrap())?;
        while client.is_handshaking() || server.is_handshaking() {
            let (mut asked, mut answered) = (Vec::new(), Vec::new());
            client.write_tls(&mut asked).unwrap();
            server.read_tls(&mut &asked[..]).unwrap();
            server.process_new_packets()?;
            while server.wants_write() {
                server.write_tls(&mut answered).unwrap();
            }
            client.read_tls(&mut &answered[..]).unwrap();
            client.process_new_packets()?;
        }
        Ok(())
    }

    #[test]
    fn without_verification_the_server_must_still_prove_its_key() {
        let (key, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let certificate = CertificateParams::default().self_signed(&key).unwrap().der().clone();
        for version in [&TLS12, &TLS13] {
            for certificate in [&certificate, &first_version(&certificate)] {
                handshake(version, certificate, &key).unwrap();
                let refused = handshake(version, certificate, &other).unwrap_err();
                assert_eq!(refused, CertificateError::BadSignature.into());
            }
            let unreadable = CertificateDer::from(vec![SEQUENCE, 0]);
            assert_eq!(handshake(version, &unreadable, &key).unwrap_err(), CertificateError::BadEncoding.into());
        }
    }
}
