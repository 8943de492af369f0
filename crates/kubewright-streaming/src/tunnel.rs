//! A byte stream over WebSocket messages.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use futures_core::Stream;
use futures_util::Sink;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::WebSocketStream;
pub use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::{Error, Message};

/// Reads consecutive WebSocket messages, and writes each chunk as one message.
pub struct Tunnel<S> {
    socket: WebSocketStream<S>,
    /// Received but unread bytes.
    rest: Bytes,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Tunnel<S> {
    /// Over a stream after a WebSocket handshake, at this end of it.
    pub async fn new(stream: S, role: Role) -> Self {
        let socket = WebSocketStream::from_raw_socket(stream, role, None).await;
        Tunnel { socket, rest: Bytes::new() }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Tunnel<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.rest.is_empty() {
            match ready!(Pin::new(&mut self.socket).poll_next(context)) {
                None | Some(Ok(Message::Close(_))) => return Poll::Ready(Ok(())),
                Some(Ok(Message::Binary(bytes))) => self.rest = bytes,
                Some(Ok(Message::Text(_))) => return Poll::Ready(Err(io::Error::other("a message is text"))),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Poll::Ready(Err(failed(error))),
            }
        }
        let length = self.rest.len().min(buffer.remaining());
        buffer.put_slice(&self.rest[..length]);
        self.rest.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Tunnel<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(Pin::new(&mut self.socket).poll_ready(context)).map_err(failed)?;
        let message = Message::Binary(Bytes::copy_from_slice(bytes));
        Pin::new(&mut self.socket).start_send(message).map_err(failed)?;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context).map_err(failed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_close(context).map_err(failed)
    }
}

fn failed(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        other => io::Error::other(other),
    }
}
