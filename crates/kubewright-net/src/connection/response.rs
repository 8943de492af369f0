//! A response body in transit: decompression, deadline, and return of the connection.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_core::Stream;
use h2::RecvStream;
use hyper::body::{Body as _, Incoming};
use tokio::time::{Instant, Sleep};

use super::failure::broken_connection;
use super::gzip::Gunzip;
use super::http1::Http1;
use super::http2::StreamPermit;
use super::pool::PoolReturn;
use crate::transport::{TransportError, TransportErrorKind};

/// The source of a body's chunks, with the resource to return at its end.
pub(super) enum BodySource {
    /// An HTTP/1.1 connection.
    Http1(Incoming, Http1, PoolReturn),
    /// An HTTP/2 stream.
    Http2(RecvStream, StreamPermit),
    /// A dedicated connection.
    Private(Incoming, #[allow(dead_code, reason = "held until its answer has been read")] Http1),
}

impl BodySource {
    fn is_at_end(&self) -> bool {
        match self {
            BodySource::Http1(incoming, ..) | BodySource::Private(incoming, _) => incoming.is_end_stream(),
            BodySource::Http2(stream, _) => stream.is_end_stream(),
        }
    }

    /// The next chunk. Over HTTP/1.1 this also drives the connection.
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, TransportError>>> {
        match self {
            BodySource::Http2(stream, slot) => poll_stream(stream, slot, context),
            BodySource::Private(incoming, _) => poll_incoming(incoming, context),
            BodySource::Http1(incoming, connection, _) => {
                let chunk = poll_incoming(incoming, context);
                if chunk.is_ready() {
                    return chunk;
                }
                connection.drive(context);
                poll_incoming(incoming, context)
            }
        }
    }
}

fn poll_incoming(incoming: &mut Incoming, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, TransportError>>> {
    loop {
        match ready!(Pin::new(&mut *incoming).poll_frame(context)) {
            Some(Ok(frame)) => {
                if let Ok(chunk) = frame.into_data() {
                    return Poll::Ready(Some(Ok(chunk)));
                }
            }
            Some(Err(error)) => return Poll::Ready(Some(Err(broken_connection(error)))),
            None => return Poll::Ready(None),
        }
    }
}

fn poll_stream(
    stream: &mut RecvStream,
    slot: &StreamPermit,
    context: &mut Context<'_>,
) -> Poll<Option<Result<Bytes, TransportError>>> {
    Poll::Ready(match ready!(stream.poll_data(context)) {
        Some(Ok(chunk)) => {
            let _ = stream.flow_control().release_capacity(chunk.len());
            Some(Ok(chunk))
        }
        // For any reason: after the end of a response h2 reports none.
        Some(Err(error)) => Some(Err(slot.broken_connection(error))),
        None => None,
    })
}

/// The chunks of a body.
pub(super) struct Chunks {
    /// `None` after the end.
    source: Option<BodySource>,
    gunzip: Option<Gunzip>,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl Chunks {
    pub(super) fn new(source: BodySource, is_compressed: bool) -> Self {
        let is_empty = source.is_at_end();
        // A response without a body may still state an encoding.
        let gunzip = (is_compressed && !is_empty).then(Gunzip::new);
        let mut chunks = Chunks { source: Some(source), gunzip, deadline: None };
        if is_empty {
            chunks.release();
        }
        chunks
    }

    /// Sets a deadline for the end of the body.
    pub(super) fn end_by(&mut self, deadline: Instant) {
        self.deadline = Some(Box::pin(tokio::time::sleep_until(deadline)));
    }

    /// A connection is returned only after the end; otherwise it is closed.
    fn release(&mut self) {
        if let Some(BodySource::Http1(_, connection, home)) = self.source.take() {
            home.take_back(connection);
        }
    }

    fn fail(&mut self, error: TransportError) -> Poll<Option<Result<Bytes, TransportError>>> {
        self.source = None;
        Poll::Ready(Some(Err(error)))
    }

    fn garbled(error: std::io::Error) -> TransportError {
        TransportError::new(TransportErrorKind::Disconnected, error)
    }
}

impl Stream for Chunks {
    type Item = Result<Bytes, TransportError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.source.is_none() {
            return Poll::Ready(None);
        }
        if let Some(deadline) = &mut self.deadline
            && deadline.as_mut().poll(context).is_ready()
        {
            return self.fail(TransportError::new(TransportErrorKind::Timeout, "the answer took too long"));
        }
        loop {
            match self.gunzip.as_mut().map(Gunzip::piece).transpose() {
                Ok(Some(Some(piece))) => return Poll::Ready(Some(Ok(piece))),
                Ok(_) => {}
                Err(error) => return self.fail(Self::garbled(error)),
            }
            let Some(source) = &mut self.source else { return Poll::Ready(None) };
            match ready!(source.poll_chunk(context)) {
                Some(Ok(chunk)) => match &mut self.gunzip {
                    Some(gunzip) => gunzip.feed(chunk),
                    None => return Poll::Ready(Some(Ok(chunk))),
                },
                Some(Err(error)) => return self.fail(error),
                None => {
                    self.release();
                    return match self.gunzip.as_mut().map_or(Ok(()), Gunzip::finish) {
                        Ok(()) => Poll::Ready(None),
                        Err(error) => self.fail(Self::garbled(error)),
                    };
                }
            }
        }
    }
}
