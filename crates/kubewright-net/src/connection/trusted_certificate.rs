//! Verifies server certificates as Go does.
//!
//! Webpki accepts a certificate only if an authority has signed it. Go also accepts a server's
//! certificate that is itself among the trusted ones, which is how self-signed certificates and
//! pinned ones are configured.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

use crate::der::{Certificate, OBJECT_IDENTIFIER, SEQUENCE, of};

/// The extension that restricts the purposes of a certificate.
const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x25];
/// The purposes that allow a certificate for servers.
const SERVER_PURPOSES: [&[u8]; 2] = [&[0x2b, 6, 1, 5, 5, 7, 3, 1], &[0x55, 0x1d, 0x25, 0]];

/// Accepts chains that end at a trusted certificate, and trusted certificates themselves.
#[derive(Debug)]
pub(super) struct TrustedCertificate {
    pub(super) chains: Arc<WebPkiServerVerifier>,
    pub(super) trusted: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for TrustedCertificate {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if !self.trusted.contains(end_entity) {
            return self.chains.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        }
        check_validity(end_entity, now)?;
        verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}

/// Checks the lifetime and the purposes of a certificate.
fn check_validity(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), Error> {
    let certificate = Certificate::read(certificate).ok_or(CertificateError::BadEncoding)?;
    let (from, until) = certificate.not_before().zip(certificate.not_after()).ok_or(CertificateError::BadEncoding)?;
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    if now < from.as_unix() {
        return Err(CertificateError::NotValidYet.into());
    }
    if now > until.as_unix() {
        return Err(CertificateError::Expired.into());
    }
    let extensions = certificate.extensions().ok_or(CertificateError::BadEncoding)?;
    let Some((_, usage)) = extensions.into_iter().find(|(kind, _)| *kind == EXTENDED_KEY_USAGE) else { return Ok(()) };
    if is_for_servers(usage) { Ok(()) } else { Err(CertificateError::InvalidPurpose.into()) }
}

fn is_for_servers(mut usage: &[u8]) -> bool {
    let Some(mut purposes) = of(&mut usage, SEQUENCE) else { return false };
    while let Some(purpose) = of(&mut purposes, OBJECT_IDENTIFIER) {
        if SERVER_PURPOSES.contains(&purpose) {
            return true;
        }
    }
    false
}
