//! Classifies failed requests.

use std::error::Error as StdError;
use std::io;

use crate::transport::{TransportError, TransportErrorKind};

/// Why a request failed, and whether a server may have seen it.
pub(super) struct RequestFailure {
    pub(super) is_unseen: bool,
    pub(super) error: TransportError,
}

impl RequestFailure {
    /// The request itself is invalid.
    pub(super) fn of_request(error: TransportError) -> Self {
        RequestFailure { is_unseen: false, error }
    }
}

/// An error before the connection was usable.
pub(super) fn connect_error(error: impl StdError + Send + Sync + 'static) -> TransportError {
    let kind = if is_refusal(&error) { TransportErrorKind::Tls } else { TransportErrorKind::Connect };
    TransportError::new(kind, error)
}

/// An error of a broken connection.
pub(super) fn broken_connection(error: impl StdError + Send + Sync + 'static) -> TransportError {
    let kind = if is_refusal(&error) { TransportErrorKind::Tls } else { TransportErrorKind::Disconnected };
    TransportError::new(kind, error)
}

/// Whether the server rejected our certificate, which it reports only after the handshake.
///
/// An h2 error never shows it: it keeps only the text of its cause.
fn is_refusal(error: &(dyn StdError + 'static)) -> bool {
    matches!(of_tls(error), Some(rustls::Error::AlertReceived(_)))
}

/// The certificate that an error concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FaultyCertificate {
    /// We reject that of the server.
    Theirs,
    /// The server rejects ours.
    Ours,
}

/// The certificate that caused the error, if any.
pub(super) fn certificate_at_fault(error: &TransportError) -> Option<FaultyCertificate> {
    use rustls::AlertDescription as Alert;
    match of_tls(error)? {
        rustls::Error::InvalidCertificate(_) => Some(FaultyCertificate::Theirs),
        rustls::Error::AlertReceived(
            Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::CertificateRequired
            | Alert::UnknownCA
            | Alert::AccessDenied
            // The server trusts another authority of the same name.
            | Alert::DecryptError,
        ) => Some(FaultyCertificate::Ours),
        _ => None,
    }
}

/// The TLS error among the causes. An I/O error contains it as its inner error, not as its source.
fn of_tls<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a rustls::Error> {
    causes(error).find_map(|cause| {
        let inner = || cause.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref();
        cause.downcast_ref().or_else(inner)
    })
}

/// Whether the server reports that it has not processed the request: it refused the stream, or sent
/// GOAWAY.
pub(super) fn is_refused(error: &h2::Error) -> bool {
    let is_leaving = error.is_go_away() && error.is_remote() && error.reason() == Some(h2::Reason::NO_ERROR);
    is_leaving || (error.is_reset() && error.is_remote() && error.reason() == Some(h2::Reason::REFUSED_STREAM))
}

fn causes<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error: &&'a (dyn StdError + 'static)| (*error).source())
}
