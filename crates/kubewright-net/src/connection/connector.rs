//! Opens connections: sockets, proxies, TLS, and protocol selection.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustls::ClientConfig;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use super::lenient_end::LenientEnd;
use super::opener::Opener;
use super::proxy::Proxy;
use super::tls::Tls;
use crate::observer::TransportObserver;
use crate::task::BoxFuture;
use crate::transport::{BoxedStream, TransportError, TransportErrorKind};

/// Delay before the next address of a name is tried concurrently.
const NEXT_ADDRESS: Duration = Duration::from_millis(250);
/// TCP keep-alive interval.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// Opens connections to one server.
pub(super) struct Connector {
    pub(super) place: ConnectTarget,
    pub(super) tls: Option<Arc<Tls>>,
    pub(super) connect_timeout: Duration,
    pub(super) tls_timeout: Duration,
    /// Whether ALPN may select HTTP/2.
    pub(super) http2: bool,
    pub(super) observer: Option<TransportObserver>,
}

/// The target of connections.
pub(super) enum ConnectTarget {
    /// A host, optionally through a proxy.
    Network { host: String, port: u16, proxy: Option<Proxy> },
    /// Streams opened by a function, with this protocol.
    Streams(Opener, Protocol),
}

/// A new connection and its protocol.
pub(super) type Connected = (BoxedStream, Protocol);

/// The protocol of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// One request at a time.
    Http1,
    /// Many requests at a time.
    Http2,
}

impl Connector {
    /// Opens a connection. `Some(Http1)` requests that protocol.
    pub(super) fn connect(&self, wanted: Option<Protocol>) -> BoxFuture<'_, Result<Connected, TransportError>> {
        Box::pin(async move {
            self.try_connect(wanted).await.map_err(|error| match &self.place {
                ConnectTarget::Network { host, port, proxy } => error.at(address(host, *port, proxy.as_ref())),
                ConnectTarget::Streams(..) => error,
            })
        })
    }

    async fn try_connect(&self, wanted: Option<Protocol>) -> Result<Connected, TransportError> {
        let (stream, protocol) = match &self.place {
            ConnectTarget::Streams(opener, protocol) => {
                let opened = within(self.connect_timeout, Box::pin(opener.open())).await;
                (opened.map_err(|error| failed(TransportErrorKind::Connect, error))?, *protocol)
            }
            ConnectTarget::Network { host, port, proxy } => {
                let opening = Box::pin(self.open(host, *port, proxy.as_ref()));
                let opened = within(self.connect_timeout, opening).await;
                (opened.map_err(|error| failed(TransportErrorKind::Connect, error))?, Protocol::Http1)
            }
        };
        let Some(tls) = &self.tls else { return Ok((stream, wanted.unwrap_or(protocol))) };
        let client =
            if self.http2 && wanted != Some(Protocol::Http1) { tls.client() } else { http1_only(&tls.client()) };
        let handshake = TlsConnector::from(client).connect(tls.server_name(), stream);
        let stream =
            within(self.tls_timeout, Box::pin(handshake)).await.map_err(|error| failed(tls_kind(&error), error))?;
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        if is_http2 {
            return Ok((Box::new(stream), Protocol::Http2));
        }
        Ok((Box::new(LenientEnd(stream)), Protocol::Http1))
    }

    async fn open(&self, host: &str, port: u16, proxy: Option<&Proxy>) -> io::Result<BoxedStream> {
        match proxy {
            None => Ok(Box::new(dial(host, port, self.observer.as_ref()).await?)),
            Some(proxy) => {
                let stream = dial(proxy.host(), proxy.port(), self.observer.as_ref()).await?;
                proxy.pass(Box::new(stream), host, port).await
            }
        }
    }
}

/// An address for error messages.
fn address(host: &str, port: u16, proxy: Option<&Proxy>) -> String {
    let one =
        |host: &str, port: u16| if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    match proxy {
        Some(proxy) => format!("{} through the proxy {}", one(host, port), one(proxy.host(), proxy.port())),
        None => one(host, port),
    }
}

fn http1_only(client: &ClientConfig) -> Arc<ClientConfig> {
    let mut client = client.clone();
    client.alpn_protocols = vec![b"http/1.1".to_vec()];
    Arc::new(client)
}

async fn within<T>(limit: Duration, work: BoxFuture<'_, io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(limit, work)
        .await
        .unwrap_or_else(|elapsed| Err(io::Error::new(io::ErrorKind::TimedOut, elapsed)))
}

fn failed(kind: TransportErrorKind, error: io::Error) -> TransportError {
    match error.kind() {
        // The server has not seen the request, which is more useful to the caller than the timeout.
        io::ErrorKind::TimedOut => TransportError::new(TransportErrorKind::Connect, error),
        _ => TransportError::new(kind, error),
    }
}

/// A handshake broken_connection by the network may be retried; one that failed otherwise not.
fn tls_kind(error: &io::Error) -> TransportErrorKind {
    if error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) {
        TransportErrorKind::Tls
    } else {
        TransportErrorKind::Connect
    }
}

/// Connects to the first responding address of a name. An unresponsive one does not block the
/// others.
async fn dial(host: &str, port: u16, observer: Option<&TransportObserver>) -> io::Result<TcpStream> {
    let started = Instant::now();
    let addresses: Vec<SocketAddr> = tokio::net::lookup_host((host, port)).await?.collect();
    if let Some(observer) = observer {
        observer.resolved(host, started.elapsed());
    }
    let stream = connect_to_first(addresses).await?;
    stream.set_nodelay(true)?;
    let keep_alive = socket2::TcpKeepalive::new().with_time(KEEP_ALIVE).with_interval(KEEP_ALIVE);
    socket2::SockRef::from(&stream).set_tcp_keepalive(&keep_alive)?;
    Ok(stream)
}

/// Tries addresses one after the other: the next one after a failure or a delay. Uses no tasks, to
/// avoid waking other threads.
async fn connect_to_first(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let (mut waiting, mut attempts) = (addresses.into_iter(), Vec::new());
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    loop {
        attempts.extend(waiting.next().map(attempt));
        if attempts.is_empty() {
            return Err(last);
        }
        let next = poll_fn(|context| first_of(&mut attempts, context));
        // The remaining attempts have no time limit here.
        let connected = match waiting.len() {
            0 => Some(next.await),
            _ => tokio::time::timeout(NEXT_ADDRESS, next).await.ok(),
        };
        match connected {
            Some(Ok(stream)) => return Ok(stream),
            Some(Err(error)) => last = error,
            None => {}
        }
    }
}

type Attempt = BoxFuture<'static, io::Result<TcpStream>>;

fn attempt(address: SocketAddr) -> Attempt {
    Box::pin(TcpStream::connect(address))
}

/// The first completed attempt, which is removed.
fn first_of(attempts: &mut Vec<Attempt>, context: &mut Context<'_>) -> Poll<io::Result<TcpStream>> {
    for place in 0..attempts.len() {
        if let Poll::Ready(connected) = attempts[place].as_mut().poll(context) {
            drop(attempts.swap_remove(place));
            return Poll::Ready(connected);
        }
    }
    Poll::Pending
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use socket2::{Domain, Socket, Type};

    use super::*;

    /// An unresponsive address: its backlog is full. It stays so while the sockets live.
    fn silent() -> (SocketAddr, Vec<Socket>) {
        let socket = || Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let listener = socket();
        listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap();
        let waiting = (0..8).map(|_| {
            let waiting = socket();
            waiting.set_nonblocking(true).unwrap();
            let _ = waiting.connect(&address);
            waiting
        });
        let sockets = waiting.collect::<Vec<_>>().into_iter().chain([listener]).collect();
        (address.as_socket().unwrap(), sockets)
    }

    #[tokio::test]
    async fn the_first_address_that_answers_is_taken() {
        let refusing = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let answering = listener.local_addr().unwrap();
        let (silent, _sockets) = silent();
        for addresses in [vec![answering], vec![refusing, answering], vec![silent, refusing, answering]] {
            let stream = tokio::time::timeout(Duration::from_secs(10), connect_to_first(addresses)).await;
            assert_eq!(stream.unwrap().unwrap().peer_addr().unwrap(), answering);
        }
        let refused = connect_to_first(vec![refusing, refusing]).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(connect_to_first(Vec::new()).await.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[tokio::test]
    async fn a_refused_address_is_followed_by_the_next_immediately() {
        let refusing = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let answering = listener.local_addr().unwrap();
        let addresses = [vec![refusing; 12], vec![answering]].concat();
        let connected = tokio::time::timeout(NEXT_ADDRESS * 6, connect_to_first(addresses)).await;
        assert_eq!(connected.unwrap().unwrap().peer_addr().unwrap(), answering);
    }
}
