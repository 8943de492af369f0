//! HTTP around the service: bodies, compression, connections, listening.

/// The part of `AsyncWrite` that a wrapper leaves to its `stream`: all but the shutdown.
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

mod answer;
mod body;
mod compression;
mod connection;
mod connection_limit;
mod date;
mod http2;
mod idle;
mod in_flight;
mod lingering;
mod listener;
mod memory;
mod preface;
mod request_body;
mod warnings;
mod watches;
mod work;

pub(crate) use answer::Answer;
pub use body::Body;
pub(crate) use compression::{accepts_gzip, compress};
pub(crate) use connection::Connections;
pub(crate) use connection_limit::{ConnectionLimit, MAX_CONNECTIONS};
pub(crate) use in_flight::{InFlight, MAX_IN_FLIGHT, Place};
pub(crate) use listener::listen;
pub(crate) use memory::{LIST_BYTES, MemoryBudget, REQUEST_BYTES};
pub(crate) use request_body::{BufferedBody, RequestBody};
pub(crate) use warnings::Warnings;
