//! Detects HTTP/2 by the connection preface.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::time::timeout;

use super::connection::FIRST_BYTES_TIMEOUT;

/// The HTTP/2 connection preface.
const PREFACE: [u8; 24] = *b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A stream whose first bytes have been peeked at.
pub(super) struct Rewind<S> {
    first: Bytes,
    stream: S,
}

/// Peeks at the first bytes. Returns true for HTTP/2.
///
/// # Errors
///
/// The first bytes do not arrive in time, or cannot be read.
pub(super) async fn peek<S: AsyncRead + Unpin>(stream: S) -> io::Result<(Rewind<S>, bool)> {
    timeout(FIRST_BYTES_TIMEOUT, read_preface(stream)).await?
}

async fn read_preface<S: AsyncRead + Unpin>(mut stream: S) -> io::Result<(Rewind<S>, bool)> {
    let (mut first, mut length) = ([0; PREFACE.len()], 0);
    while length < PREFACE.len() && first[..length] == PREFACE[..length] {
        let read = stream.read(&mut first[length..]).await?;
        if read == 0 {
            break;
        }
        length += read;
    }
    let is_http2 = first == PREFACE;
    Ok((Rewind { first: Bytes::copy_from_slice(&first[..length]), stream }, is_http2))
}

impl<S: AsyncRead + Unpin> AsyncRead for Rewind<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.first.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, out);
        }
        let length = self.first.len().min(out.remaining());
        out.put_slice(&self.first[..length]);
        self.first.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Rewind<S> {
    crate::http::writes_to_stream!();

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    #[tokio::test]
    async fn peeked_bytes_are_read_again() {
        let (mut near, far) = tokio::io::duplex(64);
        let peeking = tokio::spawn(peek(far));
        for piece in [&PREFACE[..5], &PREFACE[5..], b"more"] {
            near.write_all(piece).await.expect("there is room");
            tokio::task::yield_now().await;
        }
        drop(near);
        let (mut peeked, is_http2) = peeking.await.expect("no panic").expect("no error");
        assert!(is_http2);
        let mut all = Vec::new();
        peeked.read_to_end(&mut all).await.expect("all is there");
        assert_eq!(all, [&PREFACE[..], b"more"].concat());
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_client_times_out() {
        let (_near, far) = tokio::io::duplex(64);
        let silent = peek(far).await.err().expect("it was long enough");
        assert_eq!(silent.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn http1_is_detected_before_a_whole_preface_has_arrived() {
        let (mut near, far) = tokio::io::duplex(64);
        near.write_all(b"PUT /").await.expect("there is room");
        let (peeked, is_http2) = peek(far).await.expect("no error");
        assert!(!is_http2 && *peeked.first == *b"PUT /");
    }
}
