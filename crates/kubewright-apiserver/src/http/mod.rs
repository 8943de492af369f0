//! Requests and responses of HTTP: bodies, compression, limits. `serving` has the connections.

/// Forwards `AsyncWrite` to `self.stream`, except for the shutdown.
macro_rules! writes_to_stream {
    () => {
        fn poll_write(
            mut self: std::pin::Pin<&mut Self>,
            context: &mut std::task::Context<'_>,
            bytes: &[u8],
        ) -> std::task::Poll<std::io::Result<usize>> {
            std::pin::Pin::new(&mut self.stream).poll_write(context, bytes)
        }

        fn poll_write_vectored(
            mut self: std::pin::Pin<&mut Self>,
            context: &mut std::task::Context<'_>,
            pieces: &[std::io::IoSlice<'_>],
        ) -> std::task::Poll<std::io::Result<usize>> {
            std::pin::Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
        }

        fn is_write_vectored(&self) -> bool {
            self.stream.is_write_vectored()
        }

        fn poll_flush(
            mut self: std::pin::Pin<&mut Self>,
            context: &mut std::task::Context<'_>,
        ) -> std::task::Poll<std::io::Result<()>> {
            std::pin::Pin::new(&mut self.stream).poll_flush(context)
        }
    };
}
pub(crate) use writes_to_stream;

mod body;
mod compression;
mod connection_limit;
mod in_flight;
mod incoming;
pub(crate) mod lingering_close;
mod memory;
mod request_body;
mod response;

pub(crate) use body::ChunkSource;
pub use body::ResponseBody;
pub(crate) use compression::{accepts_gzip, compress};
pub(crate) use connection_limit::{ActiveRequest, ConnectionLimit, ConnectionSlot, MAX_CONNECTIONS};
pub(crate) use in_flight::{InFlight, InFlightPermit, MAX_IN_FLIGHT, MAX_WATCHES, MAX_WATCHES_PER_USER};
pub(crate) use incoming::IncomingRequest;
pub(crate) use memory::{MemoryBudget, REQUEST_BYTES, RESPONSE_BYTES};
pub(crate) use request_body::{BufferedBody, RequestBody};
pub(crate) use response::{ApiResponse, too_many_bytes};
