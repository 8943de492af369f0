//! Drives HTTP/2 connections, for client and server: one task polls the connection and then sends
//! its output.
//!
//! h2 flushes after every frame that is not tiny, so a request with a body would be sent as two TLS
//! records in two system calls. Here the output of a connection and its streams is coalesced.
//! [`drive`] wraps the socket; h2 gets the [`Gathered`] socket, and the owner of the connection
//! polls it with [`Driver::poll_with`]. Streams and connection wake each other without rescheduling
//! the task. This module knows nothing of requests.

mod doorbell;
mod driver;
mod gathered;

pub use doorbell::Doorbell;
pub use driver::{Driver, drive};
pub use gathered::Gathered;
