//! Multiplexed connections: over WebSocket the first byte of each message is the channel, over SPDY
//! each stream has its own frames.
//!
//! A connection has two independent halves. A process may stop reading until its output is
//! consumed, so a peer that first sends and then receives could deadlock.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use futures_core::Stream;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::error::{RemoteError, lost};
use super::limits::{CLOSE_TIMEOUT, SILENCE_TIMEOUT, WRITE_TIMEOUT};
use super::spdy::{self, StreamOpening};
use kubewright_net::transport::TransportErrorKind;

/// Ping interval.
const PING: Duration = Duration::from_secs(5);
/// The channel that reports the end of a stream.
const CLOSE: u8 = 255;

/// Both halves of a connection.
pub(super) struct Channels<S> {
    pub(super) receiver: Receiver<S>,
    pub(super) sender: Sender<S>,
}

/// The receiving half.
pub(super) enum Receiver<S> {
    WebSocket(SplitStream<WebSocketStream<S>>),
    Spdy(spdy::SpdyReceiver<S>),
}

/// The sending half, including pings.
pub(super) struct Sender<S> {
    kind: SenderKind<S>,
    pings: Interval,
}

enum SenderKind<S> {
    WebSocket(SplitSink<WebSocketStream<S>, Message>),
    Spdy(spdy::SpdySender<S>),
}

/// A due keep-alive message.
pub(super) enum KeepAliveKind {
    /// Our ping.
    Ping,
    /// The reply to the peer's ping of this number.
    Answer(u32),
}

impl<S: AsyncRead + AsyncWrite + Unpin> Channels<S> {
    /// Over a stream after a WebSocket handshake.
    pub(super) async fn web_socket(stream: S) -> Self {
        let (sink, stream) = WebSocketStream::from_raw_socket(stream, Role::Client, None).await.split();
        Channels { receiver: Receiver::WebSocket(stream), sender: Sender::new(SenderKind::WebSocket(sink)) }
    }

    /// Over a stream after a SPDY handshake.
    pub(super) fn spdy(stream: S, openings: Vec<StreamOpening>) -> Self {
        let (receiver, sender) = spdy::halves(stream, openings);
        Channels { receiver: Receiver::Spdy(receiver), sender: Sender::new(SenderKind::Spdy(sender)) }
    }

    pub(super) fn is_spdy(&self) -> bool {
        matches!(self.receiver, Receiver::Spdy(_))
    }
}

/// Reads and writes concurrently until all is read. Returns the result of reading, and the error
/// that ended writing before.
///
/// A peer that cannot be written to may have sent the reason.
pub(super) async fn side_by_side<T>(
    reading: impl Future<Output = T>,
    writing: impl Future<Output = Result<Infallible, RemoteError>>,
) -> (T, Option<RemoteError>) {
    let (mut reading, mut writing, mut broken) = (pin!(reading), pin!(writing), None);
    loop {
        tokio::select! {
            read = &mut reading => return (read, broken),
            written = &mut writing, if broken.is_none() => broken = written.err(),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Receiver<S> {
    /// The next message and its channel; `None` when the peer has closed the connection.
    ///
    /// The silence timeout counts only while this waits: while our user does not read, the peer
    /// cannot be heard.
    pub(super) async fn receive(&mut self) -> Result<Option<(u8, Bytes)>, RemoteError> {
        let socket = match self {
            Receiver::WebSocket(socket) => socket,
            Receiver::Spdy(spdy) => return spdy.receive().await,
        };
        loop {
            let next = poll_fn(|context| Pin::new(&mut *socket).poll_next(context));
            let message = match timeout(SILENCE_TIMEOUT, next).await {
                Err(elapsed) => return Err(lost(TransportErrorKind::Timeout, elapsed)),
                Ok(None) => return Ok(None),
                Ok(Some(message)) => message.map_err(|error| lost(TransportErrorKind::Disconnected, error))?,
            };
            match message {
                Message::Binary(mut bytes) if !bytes.is_empty() => {
                    let channel = bytes[0];
                    return Ok(Some((channel, bytes.split_off(1))));
                }
                // Empty messages are ignored; the socket answers pings itself.
                Message::Binary(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
                Message::Close(_) => return Ok(None),
                Message::Text(_) => return Err(RemoteError::Protocol("a message is text".to_owned())),
            }
        }
    }

    /// Whether the peer has closed a channel, if the protocol supports that.
    pub(super) fn has_ended(&self, channel: u8) -> bool {
        matches!(self, Receiver::Spdy(spdy) if spdy.has_ended(channel))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Sender<S> {
    fn new(kind: SenderKind<S>) -> Self {
        let mut pings = interval_at(Instant::now() + PING, PING);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Sender { kind, pings }
    }

    /// Opens the streams, if the protocol requires it.
    pub(super) async fn open(&mut self) -> Result<(), RemoteError> {
        match &mut self.kind {
            SenderKind::WebSocket(_) => Ok(()),
            SenderKind::Spdy(spdy) => spdy.flush().await,
        }
    }

    pub(super) async fn send(&mut self, channel: u8, bytes: &[u8]) -> Result<(), RemoteError> {
        match &mut self.kind {
            SenderKind::WebSocket(socket) => {
                let mut message = BytesMut::with_capacity(bytes.len() + 1);
                message.put_u8(channel);
                message.extend_from_slice(bytes);
                write(socket, Message::Binary(message.freeze())).await
            }
            SenderKind::Spdy(spdy) => spdy.send(channel, bytes).await,
        }
    }

    /// Closes one of our streams.
    pub(super) async fn close(&mut self, channel: u8) -> Result<(), RemoteError> {
        match &mut self.kind {
            SenderKind::WebSocket(_) => self.send(CLOSE, &[channel]).await,
            SenderKind::Spdy(spdy) => spdy.close(channel).await,
        }
    }

    /// Waits until a keep-alive message is due. Cancel safe.
    pub(super) async fn due(&mut self) -> KeepAliveKind {
        match &mut self.kind {
            SenderKind::WebSocket(_) => {
                self.pings.tick().await;
                KeepAliveKind::Ping
            }
            SenderKind::Spdy(spdy) => tokio::select! {
                _ = self.pings.tick() => KeepAliveKind::Ping,
                number = spdy.asked() => KeepAliveKind::Answer(number),
            },
        }
    }

    /// Sends a keep-alive message.
    pub(super) async fn live(&mut self, due: KeepAliveKind) -> Result<(), RemoteError> {
        match (&mut self.kind, due) {
            (SenderKind::WebSocket(socket), KeepAliveKind::Ping) => write(socket, Message::Ping(Bytes::new())).await,
            (SenderKind::WebSocket(_), KeepAliveKind::Answer(_)) => Ok(()),
            (SenderKind::Spdy(spdy), KeepAliveKind::Ping) => spdy.ping().await,
            (SenderKind::Spdy(spdy), KeepAliveKind::Answer(number)) => spdy.answer(number).await,
        }
    }

    /// Closes the connection; errors are ignored.
    pub(super) async fn end(&mut self) {
        match &mut self.kind {
            SenderKind::WebSocket(socket) => drop(timeout(CLOSE_TIMEOUT, socket.close()).await),
            SenderKind::Spdy(spdy) => spdy.end().await,
        }
    }
}

async fn write<S: AsyncRead + AsyncWrite + Unpin>(
    socket: &mut SplitSink<WebSocketStream<S>, Message>,
    message: Message,
) -> Result<(), RemoteError> {
    match timeout(WRITE_TIMEOUT, socket.send(message)).await {
        Err(elapsed) => Err(lost(TransportErrorKind::Timeout, elapsed)),
        Ok(sent) => sent.map_err(|error| lost(TransportErrorKind::Disconnected, error)),
    }
}
