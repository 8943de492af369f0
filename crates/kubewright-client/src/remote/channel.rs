//! Connections that carry several streams: over WebSocket the first byte of each message says which, over SPDY each has frames of its own.
//!
//! A connection has two halves that do not wait for each other. A process may take no more of what it reads until somebody takes what it
//! writes, so that one who sends first and listens later would do neither.

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

use super::RemoteError;
use super::spdy::{self, Opening};
use crate::transport::{TransportError, TransportErrorKind};

/// How often the other side is asked whether it lives.
const PING: Duration = Duration::from_secs(5);
/// How long it may not answer: twelve pings, and a second for the way.
pub(super) const SILENCE: Duration = Duration::from_secs(61);
/// How long one message may take to leave.
pub(super) const WRITE: Duration = Duration::from_secs(60);
/// How long the other side may take to hear that it is over.
pub(super) const FAREWELL: Duration = Duration::from_secs(1);
/// The channel on which a stream is said to have ended.
const CLOSE: u8 = 255;

/// Both halves of a connection.
pub(super) struct Channels<S> {
    pub(super) receiver: Receiver<S>,
    pub(super) sender: Sender<S>,
}

/// What the other side says.
pub(super) enum Receiver<S> {
    WebSocket(SplitStream<WebSocketStream<S>>),
    Spdy(spdy::Receiver<S>),
}

/// What we say, and signs of life in between.
pub(super) struct Sender<S> {
    way: Way<S>,
    pings: Interval,
}

enum Way<S> {
    WebSocket(SplitSink<WebSocketStream<S>, Message>),
    Spdy(spdy::Sender<S>),
}

/// A sign of life that is to be sent.
pub(super) enum Due {
    /// A question of ours.
    Ping,
    /// The answer to theirs of this number.
    Answer(u32),
}

impl<S: AsyncRead + AsyncWrite + Unpin> Channels<S> {
    /// Over a stream on which WebSocket was agreed.
    pub(super) async fn web_socket(stream: S) -> Self {
        let (sink, stream) = WebSocketStream::from_raw_socket(stream, Role::Client, None).await.split();
        Channels { receiver: Receiver::WebSocket(stream), sender: Sender::new(Way::WebSocket(sink)) }
    }

    /// Over a stream on which SPDY was agreed.
    pub(super) fn spdy(stream: S, openings: Vec<Opening>) -> Self {
        let (receiver, sender) = spdy::halves(stream, openings);
        Channels { receiver: Receiver::Spdy(receiver), sender: Sender::new(Way::Spdy(sender)) }
    }

    pub(super) fn is_spdy(&self) -> bool {
        matches!(self.receiver, Receiver::Spdy(_))
    }
}

/// Reads and writes side by side, until all is read: what that came to, and what broke the writing before.
///
/// Who can no longer be written to may have told why before going.
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
    /// The next message and its channel; none when the other side has ended the connection.
    ///
    /// Silence is what is waited for in here. The other side could not be heard while our user did not read.
    pub(super) async fn receive(&mut self) -> Result<Option<(u8, Bytes)>, RemoteError> {
        let socket = match self {
            Receiver::WebSocket(socket) => socket,
            Receiver::Spdy(spdy) => return spdy.receive().await,
        };
        loop {
            let next = poll_fn(|context| Pin::new(&mut *socket).poll_next(context));
            let message = match timeout(SILENCE, next).await {
                Err(elapsed) => return Err(lost(TransportErrorKind::Timeout, elapsed)),
                Ok(None) => return Ok(None),
                Ok(Some(message)) => message.map_err(|error| lost(TransportErrorKind::Disconnected, error))?,
            };
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

    /// Whether the other side has ended a channel, where the protocol can say so.
    pub(super) fn has_ended(&self, channel: u8) -> bool {
        matches!(self, Receiver::Spdy(spdy) if spdy.has_ended(channel))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Sender<S> {
    fn new(way: Way<S>) -> Self {
        let mut pings = interval_at(Instant::now() + PING, PING);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Sender { way, pings }
    }

    /// Opens the streams, where that has to be said.
    pub(super) async fn open(&mut self) -> Result<(), RemoteError> {
        match &mut self.way {
            Way::WebSocket(_) => Ok(()),
            Way::Spdy(spdy) => spdy.flush().await,
        }
    }

    pub(super) async fn send(&mut self, channel: u8, bytes: &[u8]) -> Result<(), RemoteError> {
        match &mut self.way {
            Way::WebSocket(socket) => {
                let mut message = BytesMut::with_capacity(bytes.len() + 1);
                message.put_u8(channel);
                message.extend_from_slice(bytes);
                write(socket, Message::Binary(message.freeze())).await
            }
            Way::Spdy(spdy) => spdy.send(channel, bytes).await,
        }
    }

    /// Says that a stream of ours has ended.
    pub(super) async fn close(&mut self, channel: u8) -> Result<(), RemoteError> {
        match &mut self.way {
            Way::WebSocket(_) => self.send(CLOSE, &[channel]).await,
            Way::Spdy(spdy) => spdy.close(channel).await,
        }
    }

    /// Waits until a sign of life is to be sent. Cancel safe.
    pub(super) async fn due(&mut self) -> Due {
        match &mut self.way {
            Way::WebSocket(_) => {
                self.pings.tick().await;
                Due::Ping
            }
            Way::Spdy(spdy) => tokio::select! {
                _ = self.pings.tick() => Due::Ping,
                number = spdy.asked() => Due::Answer(number),
            },
        }
    }

    /// Sends a sign of life.
    pub(super) async fn live(&mut self, due: Due) -> Result<(), RemoteError> {
        match (&mut self.way, due) {
            (Way::WebSocket(socket), Due::Ping) => write(socket, Message::Ping(Bytes::new())).await,
            (Way::WebSocket(_), Due::Answer(_)) => Ok(()),
            (Way::Spdy(spdy), Due::Ping) => spdy.ping().await,
            (Way::Spdy(spdy), Due::Answer(number)) => spdy.answer(number).await,
        }
    }

    /// Ends the connection; whether the other side hears of it makes no difference.
    pub(super) async fn end(&mut self) {
        match &mut self.way {
            Way::WebSocket(socket) => drop(timeout(FAREWELL, socket.close()).await),
            Way::Spdy(spdy) => spdy.end().await,
        }
    }
}

async fn write<S: AsyncRead + AsyncWrite + Unpin>(
    socket: &mut SplitSink<WebSocketStream<S>, Message>,
    message: Message,
) -> Result<(), RemoteError> {
    match timeout(WRITE, socket.send(message)).await {
        Err(elapsed) => Err(lost(TransportErrorKind::Timeout, elapsed)),
        Ok(sent) => sent.map_err(|error| lost(TransportErrorKind::Disconnected, error)),
    }
}

pub(super) fn lost(
    kind: TransportErrorKind,
    source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> RemoteError {
    RemoteError::Disconnected(TransportError::new(kind, source))
}
