//! Connections that carry several streams: over WebSocket the first byte of each message says which, over SPDY each has frames of its own.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use futures_core::Stream;
use futures_util::SinkExt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::RemoteError;
use super::spdy::{Opening, Spdy};
use crate::transport::{TransportError, TransportErrorKind};

/// How often the other side is asked whether it lives.
pub(super) const PING: Duration = Duration::from_secs(5);
/// How long it may not answer: twelve pings, and a second for the way.
pub(super) const SILENCE: Duration = Duration::from_secs(61);
/// How long one message may take to leave.
pub(super) const WRITE: Duration = Duration::from_secs(60);
/// The channel on which a stream is said to have ended.
const CLOSE: u8 = 255;

/// Both directions of a connection.
pub(super) enum Channels<S> {
    WebSocket(WebSocket<S>),
    Spdy(Spdy<S>),
}

impl<S: AsyncRead + AsyncWrite + Unpin> Channels<S> {
    /// Over a stream on which WebSocket was agreed.
    pub(super) async fn web_socket(stream: S) -> Self {
        Channels::WebSocket(WebSocket::new(stream).await)
    }

    /// Over a stream on which SPDY was agreed.
    pub(super) fn spdy(stream: S, openings: Vec<Opening>) -> Self {
        Channels::Spdy(Spdy::new(stream, openings))
    }

    /// The next message and its channel; none when the other side has ended the connection. Cancel safe.
    pub(super) async fn receive(&mut self) -> Result<Option<(u8, Bytes)>, RemoteError> {
        match self {
            Channels::WebSocket(socket) => socket.receive().await,
            Channels::Spdy(spdy) => spdy.receive().await,
        }
    }

    pub(super) async fn send(&mut self, channel: u8, bytes: &[u8]) -> Result<(), RemoteError> {
        match self {
            Channels::WebSocket(socket) => socket.send(channel, bytes).await,
            Channels::Spdy(spdy) => spdy.send(channel, bytes).await,
        }
    }

    /// Says that a stream of ours has ended.
    pub(super) async fn close(&mut self, channel: u8) -> Result<(), RemoteError> {
        match self {
            Channels::WebSocket(socket) => socket.send(CLOSE, &[channel]).await,
            Channels::Spdy(spdy) => spdy.close(channel).await,
        }
    }

    pub(super) async fn ping(&mut self) -> Result<(), RemoteError> {
        match self {
            Channels::WebSocket(socket) => socket.write(Message::Ping(Bytes::new())).await,
            Channels::Spdy(spdy) => spdy.ping().await,
        }
    }

    /// Ends the connection; whether the other side hears of it makes no difference.
    pub(super) async fn end(&mut self) {
        match self {
            Channels::WebSocket(socket) => drop(timeout(Duration::from_secs(1), socket.socket.close(None)).await),
            Channels::Spdy(spdy) => spdy.end().await,
        }
    }

    /// Whether the other side has ended a channel, where the protocol can say so.
    pub(super) fn has_ended(&self, channel: u8) -> bool {
        matches!(self, Channels::Spdy(spdy) if spdy.has_ended(channel))
    }
}

/// Channels as messages of WebSocket.
pub(super) struct WebSocket<S> {
    socket: WebSocketStream<S>,
    heard: Instant,
}

impl<S: AsyncRead + AsyncWrite + Unpin> WebSocket<S> {
    async fn new(stream: S) -> Self {
        let socket = WebSocketStream::from_raw_socket(stream, Role::Client, None).await;
        WebSocket { socket, heard: Instant::now() }
    }

    async fn receive(&mut self) -> Result<Option<(u8, Bytes)>, RemoteError> {
        loop {
            let next = poll_fn(|context| Pin::new(&mut self.socket).poll_next(context));
            let message = match timeout_at(self.heard + SILENCE, next).await {
                Err(elapsed) => return Err(lost(TransportErrorKind::Timeout, elapsed)),
                Ok(None) => return Ok(None),
                Ok(Some(message)) => message.map_err(|error| lost(TransportErrorKind::Disconnected, error))?,
            };
            self.heard = Instant::now();
            match message {
                Message::Binary(mut bytes) if !bytes.is_empty() => {
                    let channel = bytes[0];
                    return Ok(Some((channel, bytes.split_off(1))));
                }
                // An empty message belongs to nobody; pings are answered by the socket itself.
                Message::Binary(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
                Message::Close(_) => return Ok(None),
                Message::Text(_) => return Err(RemoteError::Protocol("a message is text".to_owned())),
            }
        }
    }

    async fn send(&mut self, channel: u8, bytes: &[u8]) -> Result<(), RemoteError> {
        let mut message = BytesMut::with_capacity(bytes.len() + 1);
        message.put_u8(channel);
        message.extend_from_slice(bytes);
        self.write(Message::Binary(message.freeze())).await
    }

    async fn write(&mut self, message: Message) -> Result<(), RemoteError> {
        match timeout(WRITE, self.socket.send(message)).await {
            Err(elapsed) => Err(lost(TransportErrorKind::Timeout, elapsed)),
            Ok(sent) => sent.map_err(|error| lost(TransportErrorKind::Disconnected, error)),
        }
    }
}

pub(super) fn lost(
    kind: TransportErrorKind,
    source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> RemoteError {
    RemoteError::Disconnected(TransportError::new(kind, source))
}
