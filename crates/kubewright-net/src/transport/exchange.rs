//! The exchange of a request for a response.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};

use super::body::Body;
use super::error::{TransportError, TransportErrorKind};
use super::upgrade::UpgradeFuture;

/// A pending response.
pub type ResponseFuture = Pin<Box<dyn Future<Output = Result<Response<Body>, TransportError>> + Send>>;

/// Carries requests to an API server: over connections, or to a server in the same process.
///
/// Requests have paths such as `/api/v1/pods?limit=1`, without scheme and host: the transport adds
/// address and credentials. Dropping the future or the body cancels the request.
pub trait Transport: Send + Sync + 'static {
    /// Sends a request. Resolves when the response headers have arrived.
    fn send(&self, request: Request<Bytes>) -> ResponseFuture;

    /// Host and port of the server, if there is one; the label `host` of metrics.
    fn host(&self) -> Option<String> {
        None
    }

    /// Sends an upgrade request, for example to WebSocket.
    ///
    /// Unsupported by default, because a transport may have no connections.
    fn upgrade(&self, _request: Request<Bytes>) -> UpgradeFuture {
        let problem = "the transport does not support upgrades";
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

/// Timeout of one request instead of the configuration's, as a request extension. `None` removes
/// the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestTimeout(pub Option<Duration>);
