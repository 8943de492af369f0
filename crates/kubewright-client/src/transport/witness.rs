//! Notes why a stream can no longer be read, before HTTP/2 makes an error of its own of that.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::TransportError;
use super::failure::broken;
use super::stream::BoxedStream;

/// A stream that tells why it broke.
///
/// h2 tells all who wait for answers, and so keeps only the kind and the words of an error: whether it was the server that did not
/// like our certificate could not be told any more. Noted here, it is known before the first of them hears of it.
pub(super) struct Witness {
    stream: BoxedStream,
    broke: Arc<OnceLock<TransportError>>,
}

impl Witness {
    /// Notes in `broke` why `stream` cannot be read, unless something is there already.
    pub(super) fn new(stream: BoxedStream, broke: Arc<OnceLock<TransportError>>) -> Self {
        Witness { stream, broke }
    }
}

impl AsyncRead for Witness {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let read = ready!(Pin::new(&mut self.stream).poll_read(context, out));
        Poll::Ready(read.map_err(|error| {
            let kind = error.kind();
            let _ = self.broke.set(broken(error));
            kind.into()
        }))
    }
}

impl AsyncWrite for Witness {
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
