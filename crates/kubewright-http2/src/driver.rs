//! Polls a connection with its streams, and sends what they wrote.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use futures_util::stream::FuturesUnordered;
use tokio::io::AsyncWrite;

use crate::doorbell::Doorbell;
use crate::gathered::{Gathered, Sender, gathered};
use crate::streams::{Served, Streams};

/// So often a task goes on for those who rang meanwhile, before others have their turn.
const ROUNDS: usize = 8;

/// Drives one connection.
pub struct Driver<S> {
    polled: Polled,
    sender: Sender<S>,
    doorbell: Doorbell,
}

/// What is polled, in turns.
struct Polled {
    streams: Streams,
    running: FuturesUnordered<Served>,
    /// The connection has ended, and must not be polled again.
    has_ended: bool,
}

/// The socket and the executor for a connection, and what drives it.
pub fn drive<S>(stream: S) -> (Gathered<S>, Streams, Driver<S>) {
    let (stream, sender) = gathered(stream);
    let streams = Streams::default();
    let polled = Polled { streams: streams.clone(), running: FuturesUnordered::new(), has_ended: false };
    (stream, streams, Driver { polled, sender, doorbell: Doorbell::default() })
}

impl<S: AsyncWrite + Unpin> Driver<S> {
    /// Polls a connection and those of its streams that have something to do until all wait, and sends.
    ///
    /// Ready when the connection has ended and all that was written is sent, or cannot be.
    pub fn poll_with(&mut self, mut connection: Pin<&mut impl Future>, context: &mut Context<'_>) -> Poll<()> {
        self.poll_rounds(context, |polled, context| {
            if !polled.has_ended {
                polled.poll_all(connection.as_mut(), context);
            }
            polled.has_ended
        })
    }

    /// Polls the streams of a connection that has ended, until none is left.
    pub fn poll_rest(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.poll_rounds(context, |polled, context| {
            polled.running.extend(polled.streams.take());
            polled.poll_streams(context);
            polled.running.is_empty()
        })
    }

    /// Plays rounds until nobody has rung in the last one. Ready when `round` says that all is done, and all is sent.
    fn poll_rounds(
        &mut self,
        context: &mut Context<'_>,
        mut round: impl FnMut(&mut Polled, &mut Context<'_>) -> bool,
    ) -> Poll<()> {
        self.doorbell.wake_later(context.waker());
        let waker = self.doorbell.waker();
        let mut inner = Context::from_waker(&waker);
        for _ in 0..ROUNDS {
            self.doorbell.begin();
            let is_done = round(&mut self.polled, &mut inner);
            // While the other side takes nothing, streams may still have something to do.
            if self.sender.poll_send(&mut inner).is_ready() && is_done {
                return Poll::Ready(());
            }
            if self.doorbell.rest() {
                return Poll::Pending;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Polled {
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
