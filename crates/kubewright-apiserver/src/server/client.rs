//! The in-process client, which calls the server without a socket.

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
    /// A client with administrator rights that calls the server directly, without a socket and
    /// without copying bodies.
    ///
    /// It may outlive the server; its requests then fail to connect. It is safe with tokio's paused
    /// time: only long lists and large objects run outside of the runtime's threads, and a paused
    /// clock does not advance meanwhile.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
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

/// The server as a transport of the client.
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
                Ok(response) => Ok(response.map(|body| Body::new(DataFrames(body)))),
                Err(error) => Err(TransportError::new(TransportErrorKind::Disconnected, error)),
            }
        })
    }
}

/// The data frames of a body. There are no trailers.
struct DataFrames(crate::http::ResponseBody);

impl Stream for DataFrames {
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
