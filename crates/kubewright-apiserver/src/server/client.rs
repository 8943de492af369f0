//! A client without a socket: a request is a function call.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_core::Stream;
use hyper::Request;
use hyper::body::Body as _;
use kubewright_client::Client;
use kubewright_client::transport::{Body, ResponseFuture, Transport, TransportError, TransportErrorKind};
use tokio::sync::watch;

use super::RunningServer;
use crate::service::Service;

impl RunningServer {
    /// A client of the administrator's, which calls the server directly: no socket, no copy of a body.
    ///
    /// It may outlive the server, and then cannot connect any more. Simulated time is safe with it:
    /// only long lists and large objects are processed outside of the runtime's own threads, and a
    /// paused clock waits for them.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use kubewright_api::core::v1::Namespace;
    /// use kubewright_apiserver::ApiServer;
    /// use kubewright_client::Api;
    /// let server = ApiServer::in_memory().start().await?;
    /// let namespaces = Api::<Namespace>::all(&server.client());
    /// assert_eq!(namespaces.get("default").await?.metadata.name.as_deref(), Some("default"));
    /// # Ok(()) }
    /// ```
    pub fn client(&self) -> Client {
        Client::over(InProcess { service: self.service.clone(), stopped: self.stop.subscribe() })
    }
}

/// The server itself, as what carries requests to it.
struct InProcess {
    service: Service,
    stopped: watch::Receiver<bool>,
}

impl Transport for InProcess {
    fn send(&self, request: Request<Bytes>) -> ResponseFuture {
        let service = self.service.clone();
        let has_stopped = *self.stopped.borrow();
        Box::pin(async move {
            if has_stopped {
                return Err(TransportError::new(TransportErrorKind::Connect, "the server has stopped"));
            }
            match service.call(request).await {
                Ok(response) => Ok(response.map(|body| Body::new(Chunks(body)))),
                Err(error) => Err(TransportError::new(TransportErrorKind::Disconnected, error)),
            }
        })
    }
}

/// The data of a body; there are no trailers.
struct Chunks(crate::http::Body);

impl Stream for Chunks {
    type Item = Result<Bytes, TransportError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match ready!(Pin::new(&mut self.0).poll_frame(context)) {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Poll::Ready(Some(Ok(data)));
                    }
                }
                Some(Err(error)) => {
                    let error = TransportError::new(TransportErrorKind::Disconnected, error);
                    return Poll::Ready(Some(Err(error)));
                }
                None => return Poll::Ready(None),
            }
        }
    }
}
