//! gRPC over one HTTP/2 connection to a member.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use h2::{Ping, PingPong, RecvStream, SendStream};
use http::{HeaderMap, Request};
use kubewright_net::http2::drive;
use percent_encoding::percent_decode_str;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::endpoint::Endpoint;
use crate::error::EtcdError;
use crate::frames::MessageReader;
use crate::tls::TlsFiles;

/// The time limit for a connection with its handshakes.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Idle time before a ping. etcd closes connections that ping more often than every five seconds.
const PING_INTERVAL: Duration = Duration::from_secs(10);
/// Without a reply within this time, the connection is broken.
const PING_TIMEOUT: Duration = Duration::from_secs(5);
/// Flow-control window of a stream.
const STREAM_WINDOW: u32 = 4 << 20;
/// Flow-control window of a connection: so large that a slow reader never blocks other calls.
const CONNECTION_WINDOW: u32 = 1 << 30;

/// A connection to a member. Clones share it.
#[derive(Clone)]
pub(crate) struct Channel {
    sender: SendRequest<Bytes>,
    base: Arc<str>,
    calls: Arc<AtomicUsize>,
}

/// Counts a call until it is dropped.
struct CallPermit(Arc<AtomicUsize>);

impl Drop for CallPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Channel {
    /// Connects to a member.
    pub(crate) async fn open(endpoint: &Endpoint, tls: Option<&TlsFiles>) -> Result<Self, EtcdError> {
        let opened = timeout(CONNECT_TIMEOUT, Channel::connect(endpoint, tls)).await;
        let opened = opened.unwrap_or_else(|elapsed| Err(io::Error::new(io::ErrorKind::TimedOut, elapsed)));
        opened.map_err(|source| EtcdError::Unreachable { endpoint: endpoint.to_string(), source })
    }

    async fn connect(endpoint: &Endpoint, tls: Option<&TlsFiles>) -> io::Result<Self> {
        let stream = TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await?;
        stream.set_nodelay(true)?;
        let base: Arc<str> = endpoint.to_string().into();
        let Some(files) = tls.filter(|_| endpoint.has_tls) else { return Channel::start(stream, base).await };
        let name = ServerName::try_from(endpoint.host.clone()).map_err(io::Error::other)?;
        let connector = TlsConnector::from(files.load().await?);
        let stream = connector.connect(name, stream).await?;
        Channel::start(stream, base).await
    }

    async fn start(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, base: Arc<str>) -> io::Result<Self> {
        let (stream, mut driver) = drive(stream);
        let mut builder = Builder::new();
        builder.initial_window_size(STREAM_WINDOW).initial_connection_window_size(CONNECTION_WINDOW).enable_push(false);
        let (sender, mut connection) = builder.handshake(stream).await.map_err(io::Error::other)?;
        let calls = Arc::<AtomicUsize>::default();
        let pings = connection.ping_pong();
        let watched = Arc::clone(&calls);
        // Ends when the last sender is dropped, or when the connection breaks.
        tokio::spawn(async move {
            let driven = std::future::poll_fn(|context| {
                let polled = pin!(std::future::poll_fn(|context| Pin::new(&mut connection).poll(context).map(drop)));
                driver.poll_with(polled, context)
            });
            tokio::select! {
                () = driven => {}
                // Dropping the connection ends all calls with an error.
                () = keep_alive(pings, &watched) => {}
            }
        });
        Ok(Channel { sender, base, calls })
    }

    /// Calls a method that has one request and one response.
    pub(crate) async fn unary(&self, method: &str, request: Bytes) -> Result<Bytes, EtcdError> {
        let (mut sender, receiver) = self.begin(method).await?;
        sender.send_data(request, true).map_err(interrupted)?;
        let mut receiver = receiver.headers().await?;
        let message = receiver.next().await?.ok_or_else(|| EtcdError::malformed("the response is empty"))?;
        match receiver.next().await? {
            None => Ok(message),
            Some(_) => Err(EtcdError::malformed("there is a second response")),
        }
    }

    /// Starts a method with many requests and responses. `request` is the first one.
    pub(crate) async fn streaming(
        &self,
        method: &str,
        request: Bytes,
    ) -> Result<(SendStream<Bytes>, Receiver), EtcdError> {
        let (mut sender, receiver) = self.begin(method).await?;
        sender.send_data(request, false).map_err(interrupted)?;
        Ok((sender, receiver.headers().await?))
    }

    async fn begin(&self, method: &str) -> Result<(SendStream<Bytes>, PendingReceiver), EtcdError> {
        let unsent = |error: h2::Error| EtcdError::Unreachable {
            endpoint: self.base.to_string(),
            source: io::Error::other(error),
        };
        let request = Request::post(format!("{}{method}", self.base))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            // A member without a leader then rejects the call instead of waiting.
            .header("hasleader", "true")
            .body(())
            .map_err(EtcdError::malformed)?;
        let mut sender = self.sender.clone().ready().await.map_err(unsent)?;
        let (response, sender) = sender.send_request(request, false).map_err(unsent)?;
        self.calls.fetch_add(1, Ordering::AcqRel);
        Ok((sender, PendingReceiver { response, permit: CallPermit(Arc::clone(&self.calls)) }))
    }
}

/// A response whose head has not arrived.
struct PendingReceiver {
    response: h2::client::ResponseFuture,
    permit: CallPermit,
}

impl PendingReceiver {
    async fn headers(self) -> Result<Receiver, EtcdError> {
        let response = self.response.await.map_err(interrupted)?;
        let (head, body) = response.into_parts();
        if head.status != http::StatusCode::OK {
            return Err(EtcdError::malformed(format!("the HTTP status is {}", head.status)));
        }
        // A response without a message has its status in the head.
        check_status(&head.headers)?;
        Ok(Receiver { body, messages: MessageReader::default(), _permit: self.permit })
    }
}

/// The messages of a response.
pub(crate) struct Receiver {
    body: RecvStream,
    messages: MessageReader,
    _permit: CallPermit,
}

impl Receiver {
    /// The next message, or `None` after a successful end. Cancel safe.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, EtcdError> {
        loop {
            if let Some(message) = self.messages.next()? {
                return Ok(Some(message));
            }
            match self.body.data().await {
                Some(chunk) => {
                    let chunk = chunk.map_err(interrupted)?;
                    // Fails only for more than was received.
                    let _ = self.body.flow_control().release_capacity(chunk.len());
                    self.messages.push(&chunk);
                }
                None => {
                    let trailers = self.body.trailers().await.map_err(interrupted)?;
                    let trailers = trailers.ok_or_else(|| {
                        EtcdError::Interrupted(io::Error::other("the response ended without a status"))
                    })?;
                    check_status(&trailers)?;
                    return Ok(None);
                }
            }
        }
    }
}

/// Fails if the headers contain a gRPC status other than success.
fn check_status(headers: &HeaderMap) -> Result<(), EtcdError> {
    let Some(status) = headers.get("grpc-status") else { return Ok(()) };
    let code = status.to_str().ok().and_then(|code| code.parse().ok());
    let code = code.ok_or_else(|| EtcdError::malformed("the gRPC status is not a number"))?;
    if code == 0 {
        return Ok(());
    }
    let message = headers.get("grpc-message").and_then(|message| message.to_str().ok()).unwrap_or_default();
    Err(EtcdError::Rejected { code, message: percent_decode_str(message).decode_utf8_lossy().into_owned() })
}

fn interrupted(error: h2::Error) -> EtcdError {
    EtcdError::Interrupted(io::Error::other(error))
}

/// Pings the member while there are calls. Ends when a ping is not answered.
async fn keep_alive(pings: Option<PingPong>, calls: &AtomicUsize) {
    // Only the first caller gets the pings, which we are.
    let Some(mut pings) = pings else { return std::future::pending().await };
    loop {
        tokio::time::sleep(PING_INTERVAL).await;
        if calls.load(Ordering::Acquire) == 0 {
            continue;
        }
        match timeout(PING_TIMEOUT, pings.ping(Ping::opaque())).await {
            Ok(Ok(_)) => {}
            Ok(Err(_)) | Err(_) => return,
        }
    }
}
