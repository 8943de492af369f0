//! A transport that records the requests to a server.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use kubewright_client::Client;
use kubewright_client::transport::{ResponseFuture, Transport};

/// A request: its method, its path with the query, its headers.
pub type Sent = (Method, String, HeaderMap);

#[derive(Clone)]
pub struct Recording {
    inner: Client,
    sent: Arc<Mutex<Vec<Sent>>>,
}

impl Recording {
    pub fn over(client: Client) -> Self {
        Recording { inner: client, sent: Arc::default() }
    }

    pub fn client(&self) -> Client {
        Client::over(self.clone())
    }

    /// The requests since the last call.
    pub fn take(&self) -> Vec<Sent> {
        std::mem::take(&mut *self.sent.lock().unwrap())
    }
}

impl Transport for Recording {
    fn send(&self, request: Request<Bytes>) -> ResponseFuture {
        let sent = (request.method().clone(), request.uri().to_string(), request.headers().clone());
        self.sent.lock().unwrap().push(sent);
        self.inner.transport().send(request)
    }
}
