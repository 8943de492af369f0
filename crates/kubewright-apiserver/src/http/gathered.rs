//! Gathers what a connection writes in one go, and sends it at once.
//!
//! HTTP/2 flushes after every frame that is not tiny. Where one event goes out on many streams, that would be a system call and a
//! TLS record for each of them; here it is one of both for all.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// So much is held back at most; more waits until the other side has taken some.
const HELD_MAX: usize = 64 << 10;

/// A stream whose writes and flushes only gather. [`Sender::poll_send`] has to be called after whatever wrote.
pub(super) struct Gathered<S>(Arc<Mutex<Gathering<S>>>);

/// Sends what was gathered.
pub(super) struct Sender<S>(Arc<Mutex<Gathering<S>>>);

struct Gathering<S> {
    stream: S,
    held: BytesMut,
    /// Something was written since the stream was flushed last.
    is_dirty: bool,
}

/// Both sides of a stream. They are used by one task, so nobody ever waits for the lock.
pub(super) fn gathered<S>(stream: S) -> (Gathered<S>, Sender<S>) {
    let shared = Arc::new(Mutex::new(Gathering { stream, held: BytesMut::new(), is_dirty: false }));
    (Gathered(Arc::clone(&shared)), Sender(shared))
}

fn lock<S>(shared: &Mutex<Gathering<S>>) -> MutexGuard<'_, Gathering<S>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S: AsyncWrite + Unpin> Gathering<S> {
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.held.is_empty() {
            match ready!(Pin::new(&mut self.stream).poll_write(context, &self.held))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.held.advance(written),
            }
            self.is_dirty = true;
        }
        if self.is_dirty {
            ready!(Pin::new(&mut self.stream).poll_flush(context))?;
            self.is_dirty = false;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> Sender<S> {
    /// Sends what is held back; pending while the other side takes no more.
    pub(super) fn poll_send(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        lock(&self.0).poll_send(context)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Gathered<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut lock(&self.0).stream).poll_read(context, out)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gathered<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut gathering = lock(&self.0);
        if gathering.held.len() >= HELD_MAX {
            ready!(gathering.poll_send(context))?;
        }
        pieces.iter().for_each(|piece| gathering.held.extend_from_slice(piece));
        Poll::Ready(Ok(pieces.iter().map(|piece| piece.len()).sum()))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Whoever polls the connection sends afterwards.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut gathering = lock(&self.0);
        ready!(gathering.poll_send(context))?;
        Pin::new(&mut gathering.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn nothing_leaves_before_it_is_sent_and_then_all_at_once() {
        let (near, mut far) = tokio::io::duplex(1 << 10);
        let (mut gathered, sender) = gathered(near);
        gathered.write_all(b"one ").await.expect("it is only held");
        gathered.flush().await.expect("nothing is done");
        gathered.write_all(b"two").await.expect("it is only held");
        let mut taken = [0; 16];
        let reading = far.read(&mut taken);
        let mut reading = std::pin::pin!(reading);
        let mut context = unwoken();
        assert!(reading.as_mut().poll(&mut context).is_pending());
        std::future::poll_fn(|context| sender.poll_send(context)).await.expect("there is room");
        assert_eq!(reading.await.expect("something has come"), 7);
    }

    #[tokio::test]
    async fn a_slow_reader_holds_the_writer_up() {
        let (near, _far) = tokio::io::duplex(16);
        let (mut gathered, _sender) = gathered(near);
        gathered.write_all(&[0; HELD_MAX]).await.expect("it is only held");
        let mut context = unwoken();
        assert!(Pin::new(&mut gathered).poll_write(&mut context, b"more").is_pending());
    }

    fn unwoken() -> Context<'static> {
        Context::from_waker(std::task::Waker::noop())
    }
}
