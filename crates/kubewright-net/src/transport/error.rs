//! Why requests fail.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

/// Why a request was not answered completely.
///
/// Clones share the cause: all waiters for a connection receive the same error.
#[derive(Debug, Clone)]
pub struct TransportError {
    kind: TransportErrorKind,
    /// The address that could not be reached, if known.
    place: Option<Arc<str>>,
    source: Arc<dyn StdError + Send + Sync>,
}

/// The kind of a [`TransportError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TransportErrorKind {
    /// No connection was established: the server has not seen the request.
    Connect,
    /// The TLS handshake failed; a retry will not help.
    Tls,
    /// Credentials could not be obtained; the server has not seen the request.
    Credentials,
    /// The request timed out.
    Timeout,
    /// The connection broke; the server may or may not have processed the request.
    Disconnected,
    /// The transport does not support the request; the server has not seen it.
    Unsupported,
}

impl TransportError {
    /// An error of this kind.
    pub fn new(kind: TransportErrorKind, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        TransportError { kind, place: None, source: Arc::from(source.into()) }
    }

    /// Adds the address.
    pub(crate) fn at(self, place: String) -> Self {
        TransportError { place: Some(place.into()), ..self }
    }

    /// The address, if known.
    pub(crate) fn place(&self) -> Option<&str> {
        self.place.as_deref()
    }

    /// The same kind and address with another cause.
    #[must_use]
    pub fn because(&self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        TransportError { source: Arc::from(source.into()), ..self.clone() }
    }

    /// The kind.
    pub fn kind(&self) -> TransportErrorKind {
        self.kind
    }
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.kind {
            TransportErrorKind::Connect => "cannot connect to the server",
            TransportErrorKind::Tls => "no secure connection to the server",
            TransportErrorKind::Credentials => "no credentials for the server",
            TransportErrorKind::Timeout => "the server did not answer in time",
            TransportErrorKind::Disconnected => "the connection to the server broke",
            TransportErrorKind::Unsupported => "the transport cannot do this",
        };
        match &self.place {
            Some(place) => write!(f, "{text} {place}"),
            None => f.write_str(text),
        }
    }
}

impl StdError for TransportError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&*self.source)
    }
}
