//! Records why a stream broke, before h2 replaces the error.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::failure::broken_connection;
use crate::transport::BoxedStream;
use crate::transport::TransportError;

/// A stream that records why it broke.
///
/// h2 reports one error to all waiters and keeps only its kind and text, so it would be unknown
/// whether the server rejected our certificate. The error recorded here is available before any
/// waiter is notified.
pub(super) struct ErrorRecorder {
    stream: BoxedStream,
    broke: Arc<OnceLock<TransportError>>,
}

impl ErrorRecorder {
    /// Records in `broke` why `stream` cannot be read, unless it is set.
    pub(super) fn new(stream: BoxedStream, broke: Arc<OnceLock<TransportError>>) -> Self {
        ErrorRecorder { stream, broke }
    }
}

impl AsyncRead for ErrorRecorder {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let read = ready!(Pin::new(&mut self.stream).poll_read(context, out));
        Poll::Ready(read.map_err(|error| {
            let kind = error.kind();
            let _ = self.broke.set(broken_connection(error));
            kind.into()
        }))
    }
}

impl AsyncWrite for ErrorRecorder {
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
