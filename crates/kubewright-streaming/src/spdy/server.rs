//! The side of a SPDY connection that accepts streams.

use std::collections::BTreeSet;
use std::io;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, split};
use tokio::sync::mpsc;

use super::frame::{self, Frame, REFUSED_STREAM};
use super::headers::{HeaderDecoder, HeaderEncoder, Headers};

/// Maximum number of open streams of a connection.
const STREAMS_MAX: usize = 256;
/// How many frames wait to be written, before their senders wait.
const QUEUED_MAX: usize = 32;
/// Maximum size of a data frame, as Go's clients like it.
const DATA_MAX: usize = 32 << 10;

/// The receiving half. It answers pings, and accepts streams.
pub struct SpdyReceiver<S> {
    stream: ReadHalf<S>,
    buffer: BytesMut,
    decoder: HeaderDecoder,
    encoder: HeaderEncoder,
    open: BTreeSet<u32>,
    /// The event after the last one.
    pending: Option<SpdyEvent>,
    out: mpsc::Sender<BytesMut>,
}

/// The sending half. Clones share it.
#[derive(Clone)]
pub struct SpdySender {
    out: mpsc::Sender<BytesMut>,
}

/// An action of the client.
#[derive(Debug, PartialEq, Eq)]
pub enum SpdyEvent {
    /// It opened a stream with these headers.
    Opened(u32, Vec<(String, String)>),
    /// It sent data on a stream.
    Data(u32, Bytes),
    /// It sends no more on a stream, or has reset it.
    Ended(u32),
}

/// Both halves of a connection over `stream` after a handshake, and the work of writing, which ends
/// when the halves are dropped.
pub fn server<S: AsyncRead + AsyncWrite>(
    stream: S,
) -> (SpdyReceiver<S>, SpdySender, impl Future<Output = io::Result<()>>) {
    let (from, mut to) = split(stream);
    let (out, mut queued) = mpsc::channel::<BytesMut>(QUEUED_MAX);
    let receiver = SpdyReceiver {
        stream: from,
        buffer: BytesMut::new(),
        decoder: HeaderDecoder::new(),
        encoder: HeaderEncoder::new(),
        open: BTreeSet::new(),
        pending: None,
        out: out.clone(),
    };
    let writing = async move {
        while let Some(frame) = queued.recv().await {
            to.write_all(&frame).await?;
            if queued.is_empty() {
                to.flush().await?;
            }
        }
        to.write_all(&frame::go_away()).await?;
        to.shutdown().await
    };
    (receiver, SpdySender { out }, writing)
}

impl<S: AsyncRead> SpdyReceiver<S> {
    /// The next event; `None` at the end of the connection. Cancel safe, except for replies.
    ///
    /// # Errors
    /// If the connection breaks, or the peer does not speak SPDY.
    pub async fn next(&mut self) -> io::Result<Option<SpdyEvent>> {
        if let Some(event) = self.pending.take() {
            return Ok(Some(event));
        }
        loop {
            while let Some(frame) = Frame::take(&mut self.buffer)? {
                if let Some(event) = self.hear(frame).await? {
                    return Ok(Some(event));
                }
            }
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Ok(None);
            }
        }
    }

    async fn hear(&mut self, frame: Frame) -> io::Result<Option<SpdyEvent>> {
        match frame {
            Frame::Open { stream, headers, .. } => {
                // Every block is decoded, since the next one depends on it.
                let headers: Headers = self.decoder.decode(headers)?;
                if self.open.len() >= STREAMS_MAX || stream % 2 == 0 || !self.open.insert(stream) {
                    self.send(frame::reset(stream, REFUSED_STREAM)).await;
                    return Ok(None);
                }
                let reply = self.encoder.encode(&[]);
                self.send(frame::syn_reply(stream, &reply)).await;
                Ok(Some(SpdyEvent::Opened(stream, headers)))
            }
            Frame::Data { stream, last, bytes } if self.open.contains(&stream) => {
                let ended = last.then(|| {
                    self.open.remove(&stream);
                    SpdyEvent::Ended(stream)
                });
                if bytes.is_empty() {
                    return Ok(ended);
                }
                self.pending = ended;
                Ok(Some(SpdyEvent::Data(stream, bytes)))
            }
            Frame::Reset { stream, .. } => Ok(self.open.remove(&stream).then_some(SpdyEvent::Ended(stream))),
            Frame::Ping(id) => {
                if id % 2 == 1 {
                    self.send(frame::ping(id)).await;
                }
                Ok(None)
            }
            Frame::Data { .. } | Frame::GoAway | Frame::Other => Ok(None),
        }
    }

    /// Queues a frame. If writing has failed, reading fails as well soon.
    async fn send(&self, frame: BytesMut) {
        let _ = self.out.send(frame).await;
    }
}

impl SpdySender {
    /// Sends data on a stream.
    ///
    /// # Errors
    /// If the connection has ended.
    pub async fn send(&self, stream: u32, bytes: &[u8]) -> io::Result<()> {
        for chunk in bytes.chunks(DATA_MAX) {
            self.queue(frame::data(stream, false, chunk)).await?;
        }
        Ok(())
    }

    /// Ends a stream.
    ///
    /// # Errors
    /// If the connection has ended.
    pub async fn close(&self, stream: u32) -> io::Result<()> {
        self.queue(frame::data(stream, true, &[])).await
    }

    /// Resets a stream.
    ///
    /// # Errors
    /// If the connection has ended.
    pub async fn reset(&self, stream: u32) -> io::Result<()> {
        const CANCEL: u32 = 5;
        self.queue(frame::reset(stream, CANCEL)).await
    }

    async fn queue(&self, frame: BytesMut) -> io::Result<()> {
        self.out.send(frame).await.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}
