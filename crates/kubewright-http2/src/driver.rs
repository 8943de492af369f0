//! Polls a connection, and sends what it wrote.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;
use tokio::time::Instant;

use crate::doorbell::Doorbell;
use crate::gathered::{Gathered, Sender, gathered};

/// Rounds for streams that rang meanwhile, before other tasks have their turn.
const ROUNDS: usize = 8;
/// Bytes that are sent before other tasks have their turn. A runtime whose threads are all busy
/// looks for new events only after some dozens of turns, so a turn must be short.
const TURN: u64 = 64 << 10;

/// Drives one connection.
pub struct Driver<S> {
    sender: Sender<S>,
    doorbell: Doorbell,
    /// The connection has ended, and must not be polled again.
    has_ended: bool,
}

/// The socket for a connection, and what drives it.
pub fn drive<S>(stream: S) -> (Gathered<S>, Driver<S>) {
    let (stream, sender) = gathered(stream);
    (stream, Driver { sender, doorbell: Doorbell::default(), has_ended: false })
}

impl<S: AsyncWrite + Unpin> Driver<S> {
    /// Polls a connection until nobody has rung meanwhile, and sends.
    ///
    /// Ready when the connection has ended and all that was written is sent, or cannot be.
    pub fn poll_with(&mut self, mut connection: Pin<&mut impl Future>, context: &mut Context<'_>) -> Poll<()> {
        self.doorbell.wake_later(context.waker());
        let waker = self.doorbell.waker();
        let mut inner = Context::from_waker(&waker);
        let sent = self.sender.sent();
        for _ in 0..ROUNDS {
            self.doorbell.begin();
            self.has_ended = self.has_ended || connection.as_mut().poll(&mut inner).is_ready();
            // While the other side takes nothing, there may still be something to read.
            if self.sender.poll_send(&mut inner).is_ready() && self.has_ended {
                return Poll::Ready(());
            }
            if self.doorbell.rest() {
                return Poll::Pending;
            }
            if self.sender.sent() - sent >= TURN {
                break;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<S> Driver<S> {
    /// When the other side was heard last.
    pub fn last_read(&self) -> Instant {
        self.sender.last_read()
    }

    /// Since when the peer has taken none of the bytes that wait for it. `None` if none wait.
    pub fn stalled_since(&self) -> Option<Instant> {
        self.sender.stalled_since()
    }
}
