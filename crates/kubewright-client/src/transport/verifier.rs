//! Takes any certificate of a server, for those who asked for it.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, PeerMisbehaved, SignatureScheme};

use kubewright_core::der::{BIT_STRING, SEQUENCE, any, of};

/// A certificate of a later version than the first says so before all else.
const VERSION: u8 = 0xa0;

/// Believes every certificate, but still checks that the server has its key.
///
/// Of a certificate only the key is read: what reads all of it for rustls refuses those of version 1, which old and
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
        // Here a scheme does not say which curve it is on.
        let mut fitting = algorithms.iter().filter(|one| *one.public_key_alg_id() == *key.algorithm);
        match fitting.any(|one| one.verify_signature(key.bits, message, signature.signature()).is_ok()) {
            true => Ok(HandshakeSignatureValid::assertion()),
            false => Err(CertificateError::BadSignature.into()),
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
    /// All of it, as an element.
    info: &'a [u8],
    algorithm: &'a [u8],
    bits: &'a [u8],
}

impl<'a> PublicKey<'a> {
    fn of(certificate: &'a CertificateDer<'_>) -> Option<Self> {
        let mut fields = of(&mut of(&mut &certificate[..], SEQUENCE)?, SEQUENCE)?;
        if fields.first() == Some(&VERSION) {
            any(&mut fields)?;
        }
        // Serial number, signature, issuer, validity and subject come first.
        for _ in 0..5 {
            any(&mut fields)?;
        }
        let info = fields;
        let mut parts = of(&mut fields, SEQUENCE)?;
        let (algorithm, bits) = (of(&mut parts, SEQUENCE)?, of(&mut parts, BIT_STRING)?);
        // The first byte counts the bits that are not used, of which there are none.
        Some(PublicKey { info: &info[..info.len() - fields.len()], algorithm, bits: bits.get(1..)? })
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
    use kubewright_core::der::element;

    /// The same certificate as it would be in version 1, which has no extensions. Nobody looks at who signed it.
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

    /// Whether a client that takes any certificate takes this one, of a server with this key.
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
    fn any_certificate_will_do_whose_key_the_server_has() {
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
