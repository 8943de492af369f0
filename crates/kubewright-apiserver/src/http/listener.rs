//! Accepts connections from a socket, with or without TLS.

use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::Connections;
use crate::authentication::{self, Peer};
use crate::service::Service;

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long to wait when the system has no more sockets to give.
const EXHAUSTED: Duration = Duration::from_millis(50);

/// A stream of either kind.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// Serves what comes in until told to stop, then ends the connections and returns.
pub(crate) async fn listen(
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    service: Service,
    mut stop: watch::Receiver<bool>,
) {
    let mut connections = Connections::new(service, stop.clone());
    let acceptor = tls.map(TlsAcceptor::from);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stopped| *stopped) => break,
        };
        let Ok((socket, _)) = accepted else {
            tokio::time::sleep(EXHAUSTED).await;
            continue;
        };
        // Events should arrive when they happen, not when a packet is full.
        let _ = socket.set_nodelay(true);
        // Of this connection: who listens on all addresses is asked on that of this machine as well.
        let is_on_loopback = socket.local_addr().is_ok_and(|address| address.ip().to_canonical().is_loopback());
        let acceptor = acceptor.clone();
        connections.serve(async move {
            let Some(acceptor) = acceptor else {
                return Some((Box::new(socket) as Box<dyn Stream>, Peer::Plain { is_on_loopback }));
            };
            let handshake = tokio::time::timeout(HANDSHAKE, acceptor.accept(socket));
            let stream = handshake.await.ok()?.ok()?;
            let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
            let user = certificate.and_then(|certificate| authentication::subject(certificate));
            let peer = user.map_or(Peer::Unknown, Peer::Certified);
            Some((Box::new(stream) as Box<dyn Stream>, peer))
        });
    }
    drop(listener);
    connections.finish().await;
}
