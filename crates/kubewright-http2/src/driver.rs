//! Polls a connection with its streams, and sends what they wrote.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use futures_util::stream::FuturesUnordered;
use tokio::io::AsyncWrite;

use crate::gathered::{Gathered, Sender, gathered};
use crate::streams::{Served, Streams};

/// Drives one connection.
pub struct Driver<S> {
    streams: Streams,
    running: FuturesUnordered<Served>,
    sender: Sender<S>,
    /// The connection has ended, and must not be polled again.
    has_ended: bool,
}

/// The socket and the executor for a connection, and what drives it.
pub fn drive<S>(stream: S) -> (Gathered<S>, Streams, Driver<S>) {
    let (stream, sender) = gathered(stream);
    let streams = Streams::default();
    (stream, streams.clone(), Driver { streams, running: FuturesUnordered::new(), sender, has_ended: false })
}

impl<S: AsyncWrite + Unpin> Driver<S> {
    /// Polls a connection and those of its streams that have something to do until all wait, and sends.
    ///
    /// Ready when the connection has ended and all that was written is sent, or cannot be.
    pub fn poll_with(&mut self, connection: Pin<&mut impl Future>, context: &mut Context<'_>) -> Poll<()> {
        if !self.has_ended {
            self.poll_all(connection, context);
        }
        ready!(self.sender.poll_send(context));
        if self.has_ended { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Polls the streams of a connection that has ended, until none is left.
    pub fn poll_rest(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.running.extend(self.streams.take());
        self.poll_streams(context);
        ready!(self.sender.poll_send(context));
        if self.running.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    }

    fn poll_all(&mut self, mut connection: Pin<&mut impl Future>, context: &mut Context<'_>) {
        loop {
            self.poll_streams(context);
            self.has_ended = connection.as_mut().poll(context).is_ready();
            let opened = self.streams.take();
            if opened.is_empty() || self.has_ended {
                // What the connection has told them is done before all is sent.
                return self.poll_streams(context);
            }
            self.running.extend(opened);
        }
    }

    fn poll_streams(&mut self, context: &mut Context<'_>) {
        while let Poll::Ready(Some(())) = Pin::new(&mut self.running).poll_next(context) {}
    }
}
