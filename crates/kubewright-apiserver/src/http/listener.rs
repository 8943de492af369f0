//! Accepts connections from a socket, with or without TLS.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

use super::{ConnectionLimit, Connections};
use crate::authentication::{self, Peer};
use crate::service::Service;

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// After how much silence a client is asked whether it is still there, and how often then.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(3 * 60), Duration::from_secs(15));
/// How long to wait when the system has no more sockets to give.
const EXHAUSTED: Duration = Duration::from_millis(50);
/// How often it is said that there are none: where some are freed now and then, it would be all the time.
const LAMENT: Duration = Duration::from_secs(60);

/// What a client hears that speaks no TLS where it should.
const FORGOTTEN: &[u8] = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

/// A stream of either kind.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// Serves what comes in until told to stop, then ends the connections and returns.
pub(crate) async fn listen(
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    service: Service,
    limit: ConnectionLimit,
    mut stop: watch::Receiver<bool>,
) {
    let mut connections = Connections::new(service, limit, stop.clone());
    let acceptor = tls.map(TlsAcceptor::from);
    let keep_alive = TcpKeepalive::new().with_time(KEEP_ALIVE.0).with_interval(KEEP_ALIVE.1);
    let mut shortage = Shortage::default();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stopped| *stopped) => break,
        };
        let mut socket = match accepted {
            Ok((socket, _)) => socket,
            Err(error) => {
                shortage.wait(&error).await;
                continue;
            }
        };
        // Events should arrive when they happen, not when a packet is full.
        let _ = socket.set_nodelay(true);
        // A client that is gone without a word is noticed, also where nothing is said to it.
        let _ = SockRef::from(&socket).set_tcp_keepalive(&keep_alive);
        // Of this connection: who listens on all addresses is asked on that of this machine as well.
        let is_on_loopback = socket.local_addr().is_ok_and(|address| address.ip().to_canonical().is_loopback());
        let acceptor = acceptor.clone();
        connections.serve(async move {
            let Some(acceptor) = acceptor else {
                return Some((Box::new(socket) as Box<dyn Stream>, Peer::Plain { is_on_loopback }));
            };
            let handshake = async {
                if has_forgotten_tls(&mut socket).await {
                    return None;
                }
                acceptor.accept(socket).await.ok()
            };
            let stream = tokio::time::timeout(HANDSHAKE, handshake).await.ok()??;
            let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
            let user = certificate.and_then(|certificate| authentication::subject(certificate));
            let peer = user.map_or(Peer::Unknown, Peer::Certified);
            Some((Box::new(stream) as Box<dyn Stream>, peer))
        });
    }
    drop(listener);
    connections.finish().await;
}

/// Times when no connection can be accepted.
#[derive(Default)]
struct Shortage {
    /// When it was last said.
    told: Option<Instant>,
}

impl Shortage {
    /// Waits until it may be worth trying again.
    async fn wait(&mut self, error: &io::Error) {
        // A client that has left again already is nobody's shortage.
        if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted) {
            return;
        }
        if self.told.is_none_or(|told| told.elapsed() >= LAMENT) {
            self.told = Some(Instant::now());
            tracing::error!(
                %error,
                "no connection can be accepted, and new clients wait until one can; \
                 where too many files are open, a higher limit helps (ulimit -n)"
            );
        }
        tokio::time::sleep(EXHAUSTED).await;
    }
}

/// Whether a client speaks HTTP without TLS. It is told so, as by Go's servers: it can read nothing of what TLS would answer.
async fn has_forgotten_tls(socket: &mut TcpStream) -> bool {
    let mut first = [0; 1024];
    // A handshake begins with 22, a request with the letters of its method.
    let is_http = socket.peek(&mut first[..1]).await.is_ok_and(|read| read == 1 && first[0].is_ascii_uppercase());
    if is_http {
        // What has come is read, or its client would hear of a broken connection instead.
        let _ = socket.read(&mut first).await;
        let _ = socket.write_all(FORGOTTEN).await;
    }
    is_http
}
