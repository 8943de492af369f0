//! What it means that a request has no answer.

use std::error::Error as StdError;
use std::io;

use super::{TransportError, TransportErrorKind};

/// Why a request has no answer, and whether a server may have seen it.
pub(super) struct Failure {
    pub(super) is_unseen: bool,
    pub(super) error: TransportError,
}

impl Failure {
    /// The request itself is at fault.
    pub(super) fn of_request(error: TransportError) -> Self {
        Failure { is_unseen: false, error }
    }
}

/// A connection that broke before it carried anything.
pub(super) fn unborn(error: impl StdError + Send + Sync + 'static) -> TransportError {
    let kind = if is_refusal(&error) { TransportErrorKind::Tls } else { TransportErrorKind::Connect };
    TransportError::new(kind, error)
}

/// What it means that a connection broke.
pub(super) fn broken(error: impl StdError + Send + Sync + 'static) -> TransportError {
    let kind = if is_refusal(&error) { TransportErrorKind::Tls } else { TransportErrorKind::Disconnected };
    TransportError::new(kind, error)
}

/// Whether the server does not like our certificate, which it says only after the handshake.
///
/// An error of h2 never shows it: of what it was made of, that keeps the words.
fn is_refusal(error: &(dyn StdError + 'static)) -> bool {
    matches!(of_tls(error), Some(rustls::Error::AlertReceived(_)))
}

/// Whose certificate an error is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Certificate {
    /// We do not believe that of the server.
    Theirs,
    /// The server does not believe ours.
    Ours,
}

/// Whose certificate is to blame, if that is what is wrong.
pub(super) fn blamed(error: &TransportError) -> Option<Certificate> {
    use rustls::AlertDescription as Alert;
    match of_tls(error)? {
        rustls::Error::InvalidCertificate(_) => Some(Certificate::Theirs),
        rustls::Error::AlertReceived(
            Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::CertificateRequired
            | Alert::UnknownCA
            | Alert::AccessDenied,
        ) => Some(Certificate::Ours),
        _ => None,
    }
}

/// The error of TLS among the causes. One of a stream has it inside, and not as its cause.
fn of_tls<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a rustls::Error> {
    causes(error).find_map(|cause| {
        let inner = || cause.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref();
        cause.downcast_ref().or_else(inner)
    })
}

/// Whether the server says that it has not looked at the request: it refused the stream, or is going away.
pub(super) fn is_refused(error: &h2::Error) -> bool {
    let is_leaving = error.is_go_away() && error.is_remote() && error.reason() == Some(h2::Reason::NO_ERROR);
    is_leaving || (error.is_reset() && error.is_remote() && error.reason() == Some(h2::Reason::REFUSED_STREAM))
}

fn causes<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error: &&'a (dyn StdError + 'static)| (*error).source())
}
