//! How requests reach a server: the seam between the clients and the network.
//!
//! [`HttpTransport`] is the one for servers elsewhere. Anything else that answers requests is a [`Transport`] too.

mod address;
mod body;
mod connector;
mod failure;
mod gzip;
mod http;
mod http1;
mod http2;
mod killed;
mod observer;
mod pool;
pub(crate) mod proxy;
mod response;
mod stream;
mod tls;
mod upgrade;
mod verifier;
mod witness;

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use ::http::{Request, Response};
use bytes::Bytes;

pub use self::http::{HttpTransport, RequestTimeout};
pub(crate) use self::tls::certified;
pub use body::Body;
pub use connector::Protocol;
pub use observer::{ExecOutcome, TransportMetrics, TransportObserver};
pub use stream::ByteStream;
pub use upgrade::{Upgrade, UpgradeFuture, Upgraded};

/// An answer that is on its way.
pub type ResponseFuture = Pin<Box<dyn Future<Output = Result<Response<Body>, TransportError>> + Send>>;

/// Something that carries requests to an API server: connections, or the server itself in the same process.
///
/// Requests have paths such as `/api/v1/pods?limit=1`, without scheme and host: where the server is, and who asks,
/// is the transport's business. Dropping the future or the body gives the request up.
pub trait Transport: Send + Sync + 'static {
    /// Sends a request. Resolves when the head of the answer has come.
    fn send(&self, request: Request<Bytes>) -> ResponseFuture;

    /// The host and port of the server, where there is one; the label `host` of metrics.
    fn host(&self) -> Option<String> {
        None
    }

    /// Sends a request that asks to speak another protocol on its connection, such as WebSocket.
    ///
    /// A transport without connections cannot do so, which is the default.
    fn upgrade(&self, _request: Request<Bytes>) -> UpgradeFuture {
        let problem = "this transport has no connections of its own";
        Box::pin(async move { Err(TransportError::new(TransportErrorKind::Unsupported, problem)) })
    }
}

impl<F> Transport for F
where
    F: Fn(Request<Bytes>) -> ResponseFuture + Send + Sync + 'static,
{
    fn send(&self, request: Request<Bytes>) -> ResponseFuture {
        self(request)
    }
}

/// Why a request was not answered, or not to the end.
///
/// A clone shares its cause: all who waited for one connection learn why there is none.
#[derive(Debug, Clone)]
pub struct TransportError {
    kind: TransportErrorKind,
    /// Where there is no connection to, if that is known.
    place: Option<Arc<str>>,
    source: Arc<dyn StdError + Send + Sync>,
}

/// What a caller can conclude from a [`TransportError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TransportErrorKind {
    /// No connection came about: the server has not seen the request.
    Connect,
    /// The connection was made but its identity or encryption failed; trying again will not help.
    Tls,
    /// Credentials could not be had; the server has not seen the request.
    Credentials,
    /// Nothing came in time.
    Timeout,
    /// The connection broke; whether the server has done its work is not known.
    Disconnected,
    /// The transport cannot do what was asked; the server has not seen the request.
    Unsupported,
}

impl TransportError {
    /// An error of this kind.
    pub fn new(kind: TransportErrorKind, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        TransportError { kind, place: None, source: Arc::from(source.into()) }
    }

    /// The same, with the address in its words.
    fn at(self, place: String) -> Self {
        TransportError { place: Some(place.into()), ..self }
    }

    /// The address in its words, if it has one.
    pub(crate) fn place(&self) -> Option<&str> {
        self.place.as_deref()
    }

    /// The same address, another cause.
    pub(crate) fn because(&self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        TransportError { source: Arc::from(source.into()), ..self.clone() }
    }

    /// What can be concluded.
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
