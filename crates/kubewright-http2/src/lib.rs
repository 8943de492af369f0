//! How a connection of HTTP/2 is driven, at either end: by one task, which polls the connection and its streams and then sends all that
//! they wrote.
//!
//! hyper wants an executor for the streams of a connection, and flushes after every frame that is not tiny. With a task for each stream an
//! event for many watches would schedule each of them and wake the connection in between, and a request with a body would leave as
//! two records of TLS in two system calls. Here one wake-up finds all who have something to do, and what they say leaves together.
//!
//! [`drive`] wraps the socket; hyper is given the [`Gathered`] socket and the [`Streams`] as executor, and whoever owns the connection polls
//! it by [`Driver::poll_with`]. Whatever else drives a connection can do without the executor, as the server does. Streams and connection wake
//! each other all the time, which the task hears without being scheduled anew. Used by both ends, this knows nothing of requests.

mod doorbell;
mod driver;
mod gathered;
mod streams;

pub use doorbell::Doorbell;
pub use driver::{Driver, drive};
pub use gathered::Gathered;
pub use streams::Streams;
