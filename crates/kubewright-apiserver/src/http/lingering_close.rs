//! Lingering close: lets a client that is still sending receive the response.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Time limit for draining a connection after the response.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);
/// Buffer size for draining.
const CHUNK: usize = 16 << 10;

/// Whether a part of the current request body was not read. Clones share the flag.
#[derive(Clone, Default)]
pub(crate) struct Leftover(Arc<AtomicBool>);

impl Leftover {
    pub(crate) fn set(&self, is_left: bool) {
        self.0.store(is_left, Ordering::Relaxed);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A stream that drains unread input after its shutdown.
///
/// A socket that is closed with something to read resets the connection, and the client loses the
/// answer that it has not read yet, or fails while it still writes.
pub(crate) struct LingeringClose<S> {
    stream: S,
    leftover: Leftover,
    /// The time limit, set at the shutdown.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<S> LingeringClose<S> {
    pub(crate) fn new(stream: S, leftover: Leftover) -> Self {
        LingeringClose { stream, leftover, deadline: None }
    }
}

impl<S: AsyncRead + Unpin> LingeringClose<S> {
    /// Ready at the end of the input, or after [`DRAIN_TIMEOUT`].
    fn poll_rest(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(DRAIN_TIMEOUT)));
        if deadline.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        let mut chunk = [0; CHUNK];
        loop {
            let mut chunk = ReadBuf::new(&mut chunk);
            match ready!(Pin::new(&mut self.stream).poll_read(context, &mut chunk)) {
                Ok(()) if !chunk.filled().is_empty() => {}
                _ => return Poll::Ready(()),
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LingeringClose<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, out)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for LingeringClose<S> {
    crate::http::writes_to_stream!();

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.deadline.is_none() {
            ready!(Pin::new(&mut self.stream).poll_shutdown(context))?;
        }
        if self.leftover.is_set() {
            ready!(self.poll_rest(context));
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn unread_input_is_drained_after_shutdown_until_the_timeout() {
        let (mut client, server) = tokio::io::duplex(64);
        let leftover = Leftover::default();
        leftover.set(true);
        let mut lingering = LingeringClose::new(server, leftover);
        lingering.write_all(b"too much").await.expect("there is room");
        let (_, heard) = tokio::join!(lingering.shutdown(), async move {
            client.write_all(&[0; 1000]).await.expect("the peer reads");
            let mut heard = String::new();
            client.read_to_string(&mut heard).await.expect("it was not reset");
            heard
        });
        assert_eq!(heard, "too much");

        let (_client, server) = tokio::io::duplex(64);
        let leftover = Leftover::default();
        leftover.set(true);
        let start = Instant::now();
        LingeringClose::new(server, leftover).shutdown().await.expect("it ends");
        assert_eq!(start.elapsed(), DRAIN_TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_fully_read_connection_closes_without_delay() {
        let (_client, server) = tokio::io::duplex(64);
        let start = Instant::now();
        LingeringClose::new(server, Leftover::default()).shutdown().await.expect("it ends");
        assert!(start.elapsed().is_zero());
    }
}
