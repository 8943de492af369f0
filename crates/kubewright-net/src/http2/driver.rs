//! Polls a connection, and sends its output.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;
use tokio::time::Instant;

use super::doorbell::Doorbell;
use super::gathered::{Flusher, Gathered, gathered};

/// Maximum number of poll rounds per turn for streams with wake-ups.
const MAX_ROUNDS: usize = 8;
/// Bytes sent per turn before other tasks run. A runtime with busy threads polls I/O only after
/// dozens of turns, so a turn must be short.
const MAX_TURN_BYTES: u64 = 64 << 10;

/// Drives one connection.
pub struct Driver<S> {
    sender: Flusher<S>,
    doorbell: Doorbell,
    /// The connection has ended, and must not be polled again.
    has_ended: bool,
}

/// Wraps a socket for a connection, with its driver.
pub fn drive<S>(stream: S) -> (Gathered<S>, Driver<S>) {
    let (stream, sender) = gathered(stream);
    (stream, Driver { sender, doorbell: Doorbell::default(), has_ended: false })
}

impl<S: AsyncWrite + Unpin> Driver<S> {
    /// Polls a connection until there is no wake-up left, and sends its output.
    ///
    /// Ready when the connection has ended and its output is sent, or cannot be.
    pub fn poll_with(&mut self, mut connection: Pin<&mut impl Future>, context: &mut Context<'_>) -> Poll<()> {
        self.doorbell.wake_later(context.waker());
        let waker = self.doorbell.waker();
        let mut inner = Context::from_waker(&waker);
        let sent = self.sender.sent();
        for _ in 0..MAX_ROUNDS {
            self.doorbell.begin();
            self.has_ended = self.has_ended || connection.as_mut().poll(&mut inner).is_ready();
            // While the peer does not read, there may still be input.
            if self.sender.poll_send(&mut inner).is_ready() && self.has_ended {
                return Poll::Ready(());
            }
            if self.doorbell.rest() {
                return Poll::Pending;
            }
            if self.sender.sent() - sent >= MAX_TURN_BYTES {
                break;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<S> Driver<S> {
    /// When data was last received.
    pub fn last_read(&self) -> Instant {
        self.sender.last_read()
    }

    /// Since when the peer has read none of the pending bytes; `None` if there are none.
    pub fn stalled_since(&self) -> Option<Instant> {
        self.sender.stalled_since()
    }
}
