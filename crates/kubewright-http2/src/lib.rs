//! How a connection of HTTP/2 is driven, at either end: by one task, which polls the connection and then sends all that it wrote.
//!
//! h2 flushes after every frame that is not tiny, so that a request with a body would leave as two records of TLS in two system calls.
//! Here what a connection and its streams say leaves together. [`drive`] wraps the socket; h2 is given the [`Gathered`] socket, and whoever owns
//! the connection polls it by [`Driver::poll_with`]. Streams and connection wake each other all the time, which the task hears without being
//! scheduled anew. Used by both ends, this knows nothing of requests.

mod doorbell;
mod driver;
mod gathered;

pub use doorbell::Doorbell;
pub use driver::{Driver, drive};
pub use gathered::Gathered;
