//! Coalesces the writes of a connection: one system call and one TLS record for many frames.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// Buffer limit. Writers then wait for the peer (backpressure).
const MAX_BUFFERED: usize = 64 << 10;

/// A stream that buffers writes and flushes until its [`Driver`](crate::http2::Driver) sends them.
pub struct Gathered<S>(Arc<Mutex<Gathering<S>>>);

/// Sends the buffered output.
pub(crate) struct Flusher<S>(Arc<Mutex<Gathering<S>>>);

struct Gathering<S> {
    stream: S,
    held: BytesMut,
    /// Data was written since the last flush.
    is_dirty: bool,
    /// A send error. The writer was already told that its write succeeded, so it is reported on the
    /// next call.
    failed: Option<io::ErrorKind>,
    /// Wakers of a writer that waits for room, and of a reader: the sender wakes them, because the
    /// inner stream only remembers the last waker.
    writer: Option<Waker>,
    reader: Option<Waker>,
    last_read: Instant,
    /// Since when the peer has read none of the pending bytes.
    stalled_since: Option<Instant>,
    /// Total bytes sent.
    sent: u64,
}

/// Both ends of a stream. One task uses them, so the lock is uncontended.
pub(crate) fn gathered<S>(stream: S) -> (Gathered<S>, Flusher<S>) {
    let (held, writer, reader, last_read) = (BytesMut::new(), None, None, Instant::now());
    let (is_dirty, failed, stalled_since, sent) = (false, None, None, 0);
    let gathering = Gathering { stream, held, is_dirty, failed, writer, reader, last_read, stalled_since, sent };
    let shared = Arc::new(Mutex::new(gathering));
    (Gathered(Arc::clone(&shared)), Flusher(shared))
}

fn lock<S>(shared: &Mutex<Gathering<S>>) -> MutexGuard<'_, Gathering<S>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S> Gathering<S> {
    fn check(&self) -> io::Result<()> {
        self.failed.map_or(Ok(()), |kind| Err(kind.into()))
    }
}

impl<S: AsyncWrite + Unpin> Gathering<S> {
    /// Ready when everything is sent, or sending has failed.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Err(error) = ready!(self.poll_all(context)) {
            self.failed = Some(error.kind());
            self.held.clear();
            self.is_dirty = false;
            self.reader.take().inspect(Waker::wake_by_ref);
        }
        self.writer.take().inspect(Waker::wake_by_ref);
        Poll::Ready(())
    }

    fn poll_all(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.held.is_empty() {
            let Poll::Ready(written) = Pin::new(&mut self.stream).poll_write(context, &self.held) else {
                self.stalled_since.get_or_insert_with(Instant::now);
                return Poll::Pending;
            };
            self.stalled_since = None;
            match written? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => {
                    self.held.advance(written);
                    self.sent += written as u64;
                }
            }
            self.is_dirty = true;
        }
        if self.is_dirty {
            ready!(Pin::new(&mut self.stream).poll_flush(context))?;
            self.is_dirty = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Sends for a writer that needs room.
    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.poll_send(context).is_pending() {
            self.writer = Some(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(self.check())
    }
}

impl<S> Flusher<S> {
    /// When data was last received.
    pub(crate) fn last_read(&self) -> Instant {
        lock(&self.0).last_read
    }

    /// Since when the peer has read none of the pending bytes.
    pub(crate) fn stalled_since(&self) -> Option<Instant> {
        lock(&self.0).stalled_since
    }

    /// Total bytes sent.
    pub(crate) fn sent(&self) -> u64 {
        lock(&self.0).sent
    }
}

impl<S: AsyncWrite + Unpin> Flusher<S> {
    /// Sends the buffer; pending while the peer does not read.
    pub(crate) fn poll_send(&self, context: &mut Context<'_>) -> Poll<()> {
        lock(&self.0).poll_send(context)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Gathered<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut gathering = lock(&self.0);
        gathering.check()?;
        let state = Pin::new(&mut gathering.stream).poll_read(context, out);
        if state.is_ready() {
            gathering.last_read = Instant::now();
        } else if !gathering.reader.as_ref().is_some_and(|reader| reader.will_wake(context.waker())) {
            gathering.reader = Some(context.waker().clone());
        }
        state
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
        gathering.check()?;
        if gathering.held.len() >= MAX_BUFFERED {
            ready!(gathering.poll_room(context))?;
        }
        let before = gathering.held.len();
        for piece in pieces {
            let room = MAX_BUFFERED - gathering.held.len();
            gathering.held.extend_from_slice(&piece[..piece.len().min(room)]);
        }
        Poll::Ready(Ok(gathering.held.len() - before))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// The driver sends after polling the connection.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(lock(&self.0).check())
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut gathering = lock(&self.0);
        ready!(gathering.poll_room(context))?;
        Pin::new(&mut gathering.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn writes_are_buffered_until_the_flush_and_then_sent_together() {
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
        std::future::poll_fn(|context| sender.poll_send(context)).await;
        assert_eq!(reading.await.expect("something has come"), 7);
    }

    #[tokio::test]
    async fn a_slow_reader_applies_backpressure() {
        let (near, _far) = tokio::io::duplex(16);
        let (mut gathered, _sender) = gathered(near);
        gathered.write_all(&[0; MAX_BUFFERED]).await.expect("it is only held");
        let mut context = unwoken();
        assert!(Pin::new(&mut gathered).poll_write(&mut context, b"more").is_pending());
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_part_of_a_large_write_is_held_and_the_stall_is_known() {
        let (near, mut far) = tokio::io::duplex(16);
        let (mut gathered, sender) = gathered(near);
        let large = vec![0; 3 * MAX_BUFFERED];
        let pieces = [IoSlice::new(&large), IoSlice::new(&large)];
        let written = gathered.write_vectored(&pieces).await.expect("it is only held");
        assert_eq!(written, MAX_BUFFERED);
        let start = Instant::now();
        assert!(sender.poll_send(&mut unwoken()).is_pending());
        tokio::time::advance(std::time::Duration::from_secs(5)).await;
        assert!(sender.poll_send(&mut unwoken()).is_pending());
        assert_eq!(sender.stalled_since(), Some(start));
        far.read_exact(&mut [0; 16]).await.expect("bytes wait");
        assert!(sender.poll_send(&mut unwoken()).is_pending());
        assert_eq!(sender.stalled_since(), Some(Instant::now()), "some bytes were taken");
    }

    #[tokio::test]
    async fn a_blocked_writer_is_woken_when_space_is_free() {
        let (near, mut far) = tokio::io::duplex(1 << 10);
        let (mut gathered, sender) = gathered(near);
        let writing = tokio::spawn(async move {
            gathered.write_all(&[0; MAX_BUFFERED]).await.expect("it is only held");
            gathered.write_all(b"more").await.expect("there is room again");
        });
        let reading =
            tokio::spawn(async move { far.read_exact(&mut [0; MAX_BUFFERED + 4]).await.expect("all arrives") });
        let sending = std::future::poll_fn(|context| {
            // It polls the stream after the writer, each time.
            let _ = sender.poll_send(context);
            context.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        tokio::select! {
            () = sending => {}
            read = reading => assert_eq!(read.expect("no panic"), MAX_BUFFERED + 4),
        }
        writing.await.expect("no panic");
    }

    #[tokio::test]
    async fn a_write_error_is_reported_at_the_next_write() {
        let (near, far) = tokio::io::duplex(1 << 10);
        let (mut gathered, sender) = gathered(near);
        gathered.write_all(b"lost").await.expect("it is only held");
        drop(far);
        std::future::poll_fn(|context| sender.poll_send(context)).await;
        for error in [gathered.write_all(b"more").await.err(), gathered.read_u8().await.err()] {
            assert_eq!(error.expect("it was noticed").kind(), io::ErrorKind::BrokenPipe);
        }
    }

    fn unwoken() -> Context<'static> {
        Context::from_waker(std::task::Waker::noop())
    }
}
