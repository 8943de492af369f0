//! Type-erased byte streams.

use tokio::io::{AsyncRead, AsyncWrite};

/// The streams under connections: sockets, TLS, in-memory pipes.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> ByteStream for S {}

/// A boxed stream.
pub(crate) type BoxedStream = Box<dyn ByteStream>;
