//! The body of an answer on its way: opened if compressed, limited in time, and the connection's keeper.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;
use hyper::body::{Body as _, Frame, Incoming};
use tokio::time::{Instant, Sleep};

use super::connection::Slot;
use super::failure::broken;
use super::gzip::Gunzip;
use super::http1::Http1;
use super::pool::Home;
use super::{TransportError, TransportErrorKind};

/// What has to be given back when a body has ended.
pub(super) enum Hold {
    /// A connection.
    Http1(Http1, Home),
    /// A stream of one.
    Http2(Slot),
    /// A connection that nobody else will use.
    Private(Http1),
}

/// The chunks of a body.
pub(super) struct Chunks {
    incoming: Incoming,
    hold: Option<Hold>,
    gunzip: Option<Gunzip>,
    deadline: Option<Pin<Box<Sleep>>>,
    has_ended: bool,
}

impl Chunks {
    pub(super) fn new(incoming: Incoming, hold: Hold, is_compressed: bool) -> Self {
        // An answer without a body may still name a compression.
        let gunzip = (is_compressed && !incoming.is_end_stream()).then(Gunzip::new);
        let mut chunks = Chunks { incoming, hold: Some(hold), gunzip, deadline: None, has_ended: false };
        if chunks.incoming.is_end_stream() {
            chunks.release();
        }
        chunks
    }

    /// The body has to end by then.
    pub(super) fn end_by(&mut self, deadline: Instant) {
        self.deadline = Some(Box::pin(tokio::time::sleep_until(deadline)));
    }

    /// A connection goes back only after the end; one that is in the middle of something is closed.
    fn release(&mut self) {
        match self.hold.take() {
            Some(Hold::Http1(connection, home)) => home.take_back(connection),
            Some(Hold::Http2(slot)) => drop(slot),
            Some(Hold::Private(connection)) => drop(connection),
            None => {}
        }
    }

    /// The next frame. Over HTTP/1.1 the connection is driven from here, as long as the frame is not there.
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let frame = Pin::new(&mut self.incoming).poll_frame(context);
        let (Poll::Pending, Some(Hold::Http1(connection, _))) = (&frame, &mut self.hold) else { return frame };
        connection.drive(context);
        Pin::new(&mut self.incoming).poll_frame(context)
    }

    fn fail(&mut self, error: TransportError) -> Poll<Option<Result<Bytes, TransportError>>> {
        self.has_ended = true;
        self.hold = None;
        Poll::Ready(Some(Err(error)))
    }

    fn garbled(error: std::io::Error) -> TransportError {
        TransportError::new(TransportErrorKind::Disconnected, error)
    }
}

impl Stream for Chunks {
    type Item = Result<Bytes, TransportError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.has_ended {
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
            match self.poll_frame(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(frame))) => {
                    let Ok(chunk) = frame.into_data() else { continue };
                    match &mut self.gunzip {
                        Some(gunzip) => gunzip.feed(chunk),
                        None => return Poll::Ready(Some(Ok(chunk))),
                    }
                }
                Poll::Ready(Some(Err(error))) => return self.fail(broken(error)),
                Poll::Ready(None) => {
                    self.has_ended = true;
                    self.release();
                    return match self.gunzip.as_ref().map_or(Ok(()), Gunzip::finish) {
                        Ok(()) => Poll::Ready(None),
                        Err(error) => self.fail(Self::garbled(error)),
                    };
                }
            }
        }
    }
}
