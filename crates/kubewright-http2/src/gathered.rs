//! Gathers what a connection writes in one go, and sends it at once: one system call and one record of TLS, however many frames there are.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// So much is held back at most; more waits until the other side has taken some.
const HELD_MAX: usize = 64 << 10;

/// A stream whose writes and flushes only gather, until its [`Driver`](crate::Driver) sends.
pub struct Gathered<S>(Arc<Mutex<Gathering<S>>>);

/// Sends what was gathered.
pub(crate) struct Sender<S>(Arc<Mutex<Gathering<S>>>);

struct Gathering<S> {
    stream: S,
    held: BytesMut,
    /// Something was written since the stream was flushed last.
    is_dirty: bool,
    /// Why nothing can be sent any more. Whoever wrote it has been told that all is well, so it is told when it comes back.
    failed: Option<io::ErrorKind>,
    /// Who waits for room, and who for something to read: to be woken by the sender, since a stream that both have asked
    /// remembers only the last.
    writer: Option<Waker>,
    reader: Option<Waker>,
    last_read: Instant,
}

/// Both sides of a stream. They are used by one task, so nobody ever waits for the lock.
pub(crate) fn gathered<S>(stream: S) -> (Gathered<S>, Sender<S>) {
    let (held, writer, reader, last_read) = (BytesMut::new(), None, None, Instant::now());
    let gathering = Gathering { stream, held, is_dirty: false, failed: None, writer, reader, last_read };
    let shared = Arc::new(Mutex::new(gathering));
    (Gathered(Arc::clone(&shared)), Sender(shared))
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
    /// Ready when all is sent, or nothing ever will be.
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

    /// Sends for somebody who cannot go on before that is done.
    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.poll_send(context).is_pending() {
            self.writer = Some(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(self.check())
    }
}

impl<S> Sender<S> {
    /// When something was read last.
    pub(crate) fn last_read(&self) -> Instant {
        lock(&self.0).last_read
    }
}

impl<S: AsyncWrite + Unpin> Sender<S> {
    /// Sends what is held back; pending while the other side takes no more.
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
        if gathering.held.len() >= HELD_MAX {
            ready!(gathering.poll_room(context))?;
        }
        pieces.iter().for_each(|piece| gathering.held.extend_from_slice(piece));
        Poll::Ready(Ok(pieces.iter().map(|piece| piece.len()).sum()))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Whoever polls the connection sends afterwards.
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
        std::future::poll_fn(|context| sender.poll_send(context)).await;
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

    #[tokio::test]
    async fn whoever_had_no_room_is_told_when_there_is_some() {
        let (near, mut far) = tokio::io::duplex(1 << 10);
        let (mut gathered, sender) = gathered(near);
        let writing = tokio::spawn(async move {
            gathered.write_all(&[0; HELD_MAX]).await.expect("it is only held");
            gathered.write_all(b"more").await.expect("there is room again");
        });
        let reading = tokio::spawn(async move { far.read_exact(&mut [0; HELD_MAX + 4]).await.expect("all arrives") });
        let sending = std::future::poll_fn(|context| {
            // It asks the stream after the writer did, each time.
            let _ = sender.poll_send(context);
            context.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        tokio::select! {
            () = sending => {}
            read = reading => assert_eq!(read.expect("no panic"), HELD_MAX + 4),
        }
        writing.await.expect("no panic");
    }

    #[tokio::test]
    async fn whoever_wrote_what_cannot_be_sent_is_told_when_it_comes_back() {
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
