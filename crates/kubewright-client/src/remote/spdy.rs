//! SPDY, the predecessor of WebSocket for exec and port-forward: several streams with headers.
//!
//! Only the needed subset: this side opens all streams, reply headers carry no information, and
//! Kubernetes servers do not use flow control. Headers are compressed without SPDY's standard
//! dictionary; the zlib header tells the reader.

use std::future::pending;

use bytes::{Bytes, BytesMut};
use flate2::{Compress, Compression, FlushCompress};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::error::{RemoteError, lost};
use super::limits::{CLOSE_TIMEOUT, SILENCE_TIMEOUT, WRITE_TIMEOUT};
use kubewright_net::transport::TransportErrorKind;
use kubewright_streaming::spdy::frame::{self, Frame};

/// Maximum number of unanswered pings of the peer.
const PINGS_MAX: usize = 16;

/// A stream to open.
pub(super) struct StreamOpening {
    /// Its channel.
    pub(super) channel: u8,
    /// Whether the connection ends when all such streams of the peer have ended.
    pub(super) is_read: bool,
    /// Its headers.
    pub(super) headers: Vec<(&'static str, String)>,
}

/// The receiving half, by channel.
pub(super) struct SpdyReceiver<S> {
    stream: ReadHalf<S>,
    incoming: BytesMut,
    /// In the order of their ids: 1, 3, 5, …
    streams: Vec<Opened>,
    /// Ids of the peer's pings, for the sending half to answer.
    pinged: mpsc::Sender<u32>,
}

struct Opened {
    channel: u8,
    is_read: bool,
    has_ended: bool,
}

/// The sending half, by channel.
pub(super) struct SpdySender<S> {
    stream: WriteHalf<S>,
    /// The channels of the streams 1, 3, 5, …
    channels: Vec<u8>,
    /// Bytes to send first: stream openings, or the rest of a frame.
    outgoing: BytesMut,
    pings: u32,
    pinged: mpsc::Receiver<u32>,
}

/// Both halves of a connection over `stream` after a SPDY handshake. Streams are opened with the
/// first message.
pub(super) fn halves<S: AsyncRead + AsyncWrite>(
    stream: S,
    openings: Vec<StreamOpening>,
) -> (SpdyReceiver<S>, SpdySender<S>) {
    let (mut compress, mut outgoing) = (Compress::new(Compression::fast(), true), BytesMut::new());
    let (mut streams, mut channels) = (Vec::new(), Vec::new());
    for StreamOpening { channel, is_read, headers } in openings {
        let number = 2 * streams.len() as u32 + 1;
        outgoing.extend_from_slice(&frame::syn_stream(number, &header_block(&headers, &mut compress)));
        streams.push(Opened { channel, is_read, has_ended: false });
        channels.push(channel);
    }
    let (from, to) = split(stream);
    let (asking, asked) = mpsc::channel(PINGS_MAX);
    let receiver = SpdyReceiver { stream: from, incoming: BytesMut::new(), streams, pinged: asking };
    (receiver, SpdySender { stream: to, channels, outgoing, pings: 1, pinged: asked })
}

impl<S: AsyncRead> SpdyReceiver<S> {
    /// The next bytes and their channel; `None` when all read streams have ended.
    pub(super) async fn receive(&mut self) -> Result<Option<(u8, Bytes)>, RemoteError> {
        loop {
            while let Some(frame) =
                Frame::take(&mut self.incoming).map_err(|error| RemoteError::Protocol(error.to_string()))?
            {
                if let Some(message) = self.hear(frame)? {
                    return Ok(Some(message));
                }
            }
            if self.streams.iter().all(|stream| !stream.is_read || stream.has_ended) {
                return Ok(None);
            }
            match timeout(SILENCE_TIMEOUT, self.stream.read_buf(&mut self.incoming)).await {
                Err(elapsed) => return Err(lost(TransportErrorKind::Timeout, elapsed)),
                Ok(Ok(0)) => return Ok(None),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Err(lost(TransportErrorKind::Disconnected, error)),
            }
        }
    }

    fn hear(&mut self, frame: Frame) -> Result<Option<(u8, Bytes)>, RemoteError> {
        match frame {
            Frame::Data { stream, last, bytes } => {
                // Streams that we did not open are ignored.
                let Some(opened) = self.find(stream) else { return Ok(None) };
                opened.has_ended |= last;
                return Ok(Some((opened.channel, bytes)).filter(|(_, bytes)| !bytes.is_empty()));
            }
            Frame::Reset { stream, status } => {
                if let Some(opened) = self.find(stream)
                    && !opened.has_ended
                    && opened.is_read
                {
                    return Err(RemoteError::Refused(format!("the server broke a stream off, status {status}")));
                }
            }
            // Our own pings have odd ids. A peer that pings without reading replies gets no more of
            // them.
            Frame::Ping(id) if id % 2 == 0 => drop(self.pinged.try_send(id)),
            Frame::GoAway => self.streams.iter_mut().for_each(|stream| stream.has_ended = true),
            Frame::Ping(_) | Frame::Open { .. } | Frame::Other => {}
        }
        Ok(None)
    }

    fn find(&mut self, stream: u32) -> Option<&mut Opened> {
        let odd = stream % 2 == 1;
        self.streams.get_mut(stream as usize / 2).filter(|_| odd)
    }

    /// Whether the peer has closed a channel cleanly.
    pub(super) fn has_ended(&self, channel: u8) -> bool {
        self.streams.iter().any(|stream| stream.channel == channel && stream.has_ended)
    }
}

impl<S: AsyncWrite> SpdySender<S> {
    pub(super) async fn send(&mut self, channel: u8, bytes: &[u8]) -> Result<(), RemoteError> {
        self.data(channel, false, bytes).await
    }

    /// Closes one of our streams.
    pub(super) async fn close(&mut self, channel: u8) -> Result<(), RemoteError> {
        self.data(channel, true, &[]).await
    }

    async fn data(&mut self, channel: u8, last: bool, bytes: &[u8]) -> Result<(), RemoteError> {
        let Some(at) = self.channels.iter().position(|have| *have == channel) else { return Ok(()) };
        self.outgoing.extend_from_slice(&frame::data(2 * at as u32 + 1, last, bytes));
        self.flush().await
    }

    pub(super) async fn ping(&mut self) -> Result<(), RemoteError> {
        self.outgoing.extend_from_slice(&frame::ping(self.pings));
        self.pings = self.pings.wrapping_add(2);
        self.flush().await
    }

    /// The id of a peer's ping to answer. Cancel safe.
    pub(super) async fn asked(&mut self) -> u32 {
        match self.pinged.recv().await {
            Some(number) => number,
            // The receiving half was dropped.
            None => pending().await,
        }
    }

    pub(super) async fn answer(&mut self, number: u32) -> Result<(), RemoteError> {
        self.outgoing.extend_from_slice(&frame::ping(number));
        self.flush().await
    }

    /// Closes the connection; errors are ignored.
    pub(super) async fn end(&mut self) {
        self.outgoing.extend_from_slice(&frame::go_away());
        let _ = timeout(CLOSE_TIMEOUT, async {
            let _ = self.flush().await;
            self.stream.shutdown().await
        })
        .await;
    }

    /// Sends pending bytes. Cancel safe: sent bytes are removed.
    pub(super) async fn flush(&mut self) -> Result<(), RemoteError> {
        let writing = async {
            while !self.outgoing.is_empty() {
                self.stream.write_buf(&mut self.outgoing).await?;
            }
            self.stream.flush().await
        };
        match timeout(WRITE_TIMEOUT, writing).await {
            Err(elapsed) => Err(lost(TransportErrorKind::Timeout, elapsed)),
            Ok(written) => written.map_err(|error| lost(TransportErrorKind::Disconnected, error)),
        }
    }
}

/// Length-prefixed names and values, compressed in one stream with previous headers.
fn header_block(headers: &[(&str, String)], compress: &mut Compress) -> Vec<u8> {
    let mut plain = (headers.len() as u32).to_be_bytes().to_vec();
    for (name, value) in headers {
        // SPDY header names are lower case.
        for text in [name.to_ascii_lowercase().as_bytes(), value.as_bytes()] {
            plain.extend((text.len() as u32).to_be_bytes());
            plain.extend(text);
        }
    }
    // The output exceeds the input by a few bytes per 64 KiB at most.
    let mut block = Vec::with_capacity(plain.len() + 128);
    compress.compress_vec(&plain, &mut block, FlushCompress::Sync).expect("only a wrong state fails");
    block
}
