//! The handle of a running server, and its in-memory connections.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use kubewright_net::Secret;
use kubewright_net::transport::Transport;
use tokio::io::DuplexStream;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::kubeconfig::{self, AdminCredentials};
use crate::faults::Faults;
use crate::http::ConnectionLimit;
use crate::service::{Remote, Service};
use crate::serving::Connections;
use kubewright_auth::authentication::Peer;

/// Buffer size of in-memory connections.
const PIPE_SIZE: usize = 64 << 10;

/// A running server. It stops when it is dropped; [`stop`](Self::stop) also waits for the end.
pub struct RunningServer {
    pub(super) service: Service,
    pub(super) address: Option<SocketAddr>,
    pub(super) url: Option<String>,
    pub(super) credentials: AdminCredentials,
    pub(super) pipes: mpsc::UnboundedSender<DuplexStream>,
    pub(super) stop: watch::Sender<bool>,
    pub(super) tasks: Vec<JoinHandle<()>>,
}

impl RunningServer {
    /// The listening address, if there is one.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The URL for clients on this machine.
    pub fn url(&self) -> Option<&str> {
        self.url.as_deref()
    }

    /// The certificate authority, in PEM. `None` without TLS.
    pub fn certificate_authority(&self) -> Option<&str> {
        match &self.credentials {
            AdminCredentials::None => None,
            AdminCredentials::Certificate(admin) => Some(&admin.authority),
        }
    }

    /// The key of the certificate authority, in PEM, for signing certificate requests. `None`
    /// without TLS. Client certificates that it signs are accepted by this server.
    pub fn certificate_authority_key(&self) -> Option<&Secret<String>> {
        match &self.credentials {
            AdminCredentials::None => None,
            AdminCredentials::Certificate(admin) => Some(&admin.authority_key),
        }
    }

    /// A kubeconfig with administrator rights, in YAML. It contains a private key.
    pub fn kubeconfig(&self) -> String {
        kubeconfig::write(self.url().unwrap_or("http://localhost"), &self.credentials)
    }

    /// The server as a function from requests to responses.
    pub fn service(&self) -> Service {
        self.service.clone()
    }

    /// Opens an in-memory HTTP connection with administrator rights.
    pub fn connect(&self) -> DuplexStream {
        let (ours, theirs) = tokio::io::duplex(PIPE_SIZE);
        // If the server has stopped, it drops its end, and the client sees a closed connection.
        let _ = self.pipes.send(theirs);
        ours
    }

    /// The fault injector.
    pub fn faults(&self) -> Faults {
        self.service.faults().clone()
    }

    /// Calls webhooks and aggregated API servers at this host and port through `transport` instead
    /// of a socket, until the server stops or [`disconnect`](Self::disconnect). So they work with
    /// tokio's paused time.
    ///
    /// A Service has the authority `NAME.NAMESPACE.svc:443`. There is no TLS, and `caBundle` is
    /// ignored.
    pub fn connect_in_process(&self, authority: &str, transport: impl Transport) {
        self.service.webhook_clients().connect(authority, Some(Arc::new(transport)));
    }

    /// Ends [`connect_in_process`](Self::connect_in_process): calls fail from now on.
    pub fn disconnect(&self, authority: &str) {
        self.service.webhook_clients().connect(authority, None);
    }

    /// Reaches kubelets and pods through `network`, which gets requests with absolute URLs: of
    /// kubelets (`https://NODE:10250/containerLogs/…`) and of pods (`http://ADDRESS:PORT/…`).
    /// Without it, logs, exec, attach, port-forward and proxies are answered with 501.
    pub fn connect_network(&self, network: impl Transport) {
        self.service.connect_network(Arc::new(network));
    }

    /// Stops the server, and waits until all requests have ended.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        for task in self.tasks.drain(..) {
            // A panicked task has ended as well.
            let _ = task.await;
        }
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

impl fmt::Debug for RunningServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningServer").field("url", &self.url).finish_non_exhaustive()
    }
}

/// Serves in-memory connections until the server stops.
pub(super) async fn serve_pipes(
    mut incoming: mpsc::UnboundedReceiver<DuplexStream>,
    service: Service,
    mut stop: watch::Receiver<bool>,
) {
    // Unlimited, because only the owner of the server opens these.
    let mut connections = Connections::new(service, ConnectionLimit::new(usize::MAX), stop.clone());
    loop {
        let pipe = tokio::select! {
            pipe = incoming.recv() => pipe,
            _ = stop.wait_for(|stopped| *stopped) => None,
        };
        let Some(pipe) = pipe else { break };
        connections.serve(async move { Some((pipe, Remote { peer: Peer::Trusted, address: None })) });
    }
    connections.finish().await;
}
