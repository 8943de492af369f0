//! Protocol upgrades, for example to WebSocket.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::Response;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::body::Body;
use super::error::TransportError;
use super::stream::{BoxedStream, ByteStream};

/// A pending upgrade.
pub type UpgradeFuture = Pin<Box<dyn Future<Output = Result<Upgrade, TransportError>> + Send>>;

/// The result of an upgrade request.
#[derive(Debug)]
pub enum Upgrade {
    /// The server switched protocols: the response headers, and the connection.
    Switched(Response<()>, Upgraded),
    /// The server sent another response.
    Refused(Response<Body>),
}

/// An upgraded connection.
pub struct Upgraded {
    stream: BoxedStream,
}

impl Upgraded {
    /// A connection over this stream.
    pub fn new(stream: impl ByteStream) -> Self {
        Upgraded { stream: Box::new(stream) }
    }
}

impl std::fmt::Debug for Upgraded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Upgraded")
    }
}

impl AsyncRead for Upgraded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Upgraded {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
