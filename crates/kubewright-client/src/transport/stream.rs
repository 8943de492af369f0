//! Streams of bytes of whatever kind, as one type.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

/// What connections are made of: sockets, TLS, pipes in memory.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> ByteStream for S {}

/// A stream of some kind.
pub(super) type BoxedStream = Box<dyn ByteStream>;

/// Opens streams to a server within this process, or by means of the caller's own.
#[derive(Clone)]
pub(super) struct Opener {
    open: Arc<dyn Fn() -> OpenFuture + Send + Sync>,
}

type OpenFuture = Pin<Box<dyn Future<Output = io::Result<BoxedStream>> + Send>>;

impl Opener {
    pub(super) fn new<S: ByteStream, F>(open: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = io::Result<S>> + Send + 'static,
    {
        let open = move || -> OpenFuture {
            let opening = open();
            Box::pin(async move { Ok(Box::new(opening.await?) as BoxedStream) })
        };
        Opener { open: Arc::new(open) }
    }

    pub(super) async fn open(&self) -> io::Result<BoxedStream> {
        (self.open)().await
    }
}
