//! Response bodies.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;

use super::error::TransportError;

/// A response body as it arrives. That of a watch continues until one side ends it.
pub struct Body {
    chunks: Pin<Box<dyn Stream<Item = Result<Bytes, TransportError>> + Send>>,
}

impl Body {
    /// A body of these chunks.
    pub fn new(chunks: impl Stream<Item = Result<Bytes, TransportError>> + Send + 'static) -> Self {
        Body { chunks: Box::pin(chunks) }
    }

    /// The next chunk, or `None` at the end. Cancel safe.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, TransportError> {
        poll_fn(|context| self.chunks.as_mut().poll_next(context)).await.transpose()
    }
}

impl Stream for Body {
    type Item = Result<Bytes, TransportError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.chunks.as_mut().poll_next(context)
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Body")
    }
}
