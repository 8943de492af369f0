//! What it means that a request has no answer.

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

/// What it means that a connection broke.
pub(super) fn broken(error: hyper::Error) -> TransportError {
    // A server says only after the handshake that it does not like our certificate.
    let is_tls = causes(&error).any(|cause| {
        let inner = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        inner.is_some_and(|inner| matches!(inner.downcast_ref(), Some(rustls::Error::AlertReceived(_))))
    });
    let kind = if is_tls { TransportErrorKind::Tls } else { TransportErrorKind::Disconnected };
    TransportError::new(kind, error)
}

/// Whether the server says that it has not looked at the request: it refused the stream, or is going away.
pub(super) fn is_refused(error: &hyper::Error) -> bool {
    causes(error).filter_map(|cause| cause.downcast_ref::<h2::Error>()).any(|error| {
        let is_leaving = error.is_go_away() && error.is_remote() && error.reason() == Some(h2::Reason::NO_ERROR);
        is_leaving || (error.is_reset() && error.is_remote() && error.reason() == Some(h2::Reason::REFUSED_STREAM))
    })
}

fn causes(error: &hyper::Error) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    std::iter::successors(std::error::Error::source(error), |error| error.source())
}
