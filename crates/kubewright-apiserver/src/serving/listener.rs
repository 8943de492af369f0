//! Accepts connections from a socket, with or without TLS.

use std::io::{self, ErrorKind};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

use super::{Connections, Tls};
use crate::http::ConnectionLimit;
use crate::service::{Remote, Service};
use kubewright_auth::authentication::Peer;

/// Time limit of a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// TCP keep-alive: time until the first probe, and the interval of probes.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(3 * 60), Duration::from_secs(15));
/// Delay before the next accept when no socket is available.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);
/// Minimum interval between two such log messages.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The response to plain HTTP on a TLS port.
const PLAIN_HTTP_RESPONSE: &[u8] = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

/// A stream with or without TLS.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// Serves connections until the server stops, then waits for them.
pub(crate) async fn listen(
    listener: TcpListener,
    tls: Option<Tls>,
    service: Service,
    limit: ConnectionLimit,
    mut stop: watch::Receiver<bool>,
) {
    let mut connections = Connections::new(service, limit, stop.clone());
    let tls = tls.map(|tls| (TlsAcceptor::from(tls.config), tls.clients));
    let keep_alive = TcpKeepalive::new().with_time(KEEP_ALIVE.0).with_interval(KEEP_ALIVE.1);
    let mut shortage = SocketShortage::default();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stopped| *stopped) => break,
        };
        let (mut socket, address) = match accepted {
            Ok((socket, address)) => (socket, Some(address.ip())),
            Err(error) => {
                shortage.wait(&error).await;
                continue;
            }
        };
        // Send events immediately, without waiting for full packets.
        let _ = socket.set_nodelay(true);
        // Detect dead clients even if nothing is sent to them.
        let _ = SockRef::from(&socket).set_tcp_keepalive(&keep_alive);
        // Use the address of this connection: a server on all addresses is also reachable by
        // loopback.
        let is_on_loopback = socket.local_addr().is_ok_and(|address| address.ip().to_canonical().is_loopback());
        let tls = tls.clone();
        connections.serve(async move {
            let Some((acceptor, clients)) = tls else {
                let peer = Peer::Plain { is_on_loopback };
                return Some((Box::new(socket) as Box<dyn Stream>, Remote { peer, address }));
            };
            let handshake = async {
                if has_forgotten_tls(&mut socket).await {
                    return None;
                }
                acceptor.accept(socket).await.ok()
            };
            let stream = tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake).await.ok()??;
            let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| clients.recognize(chain));
            let peer = certificate.map_or(Peer::Unknown, Peer::Certified);
            Some((Box::new(stream) as Box<dyn Stream>, Remote { peer, address }))
        });
    }
    drop(listener);
    connections.finish().await;
}

/// Periods in which no connection can be accepted.
#[derive(Default)]
struct SocketShortage {
    /// The time of the last log message.
    logged_at: Option<Instant>,
}

impl SocketShortage {
    /// Waits before the next accept.
    async fn wait(&mut self, error: &io::Error) {
        // The client has already disconnected. There is no shortage of sockets.
        if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted) {
            return;
        }
        if self.logged_at.is_none_or(|logged_at| logged_at.elapsed() >= LOG_INTERVAL) {
            self.logged_at = Some(Instant::now());
            tracing::error!(
                %error,
                "cannot accept connections: new clients have to wait; \
                 if too many files are open, raise the limit (ulimit -n)"
            );
        }
        tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
    }
}

/// Whether a client sends plain HTTP to a TLS port. Then responds as Go's servers do, because the
/// client cannot read a TLS alert.
async fn has_forgotten_tls(socket: &mut TcpStream) -> bool {
    let mut first = [0; 1024];
    // A TLS handshake begins with byte 22, an HTTP request with a letter.
    let is_http = socket.peek(&mut first[..1]).await.is_ok_and(|read| read == 1 && first[0].is_ascii_uppercase());
    if is_http {
        // Read the request, because closing a socket with unread data resets the connection.
        let _ = socket.read(&mut first).await;
        let _ = socket.write_all(PLAIN_HTTP_RESPONSE).await;
    }
    is_http
}
