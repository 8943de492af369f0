//! SPDY/3.1, as far as Kubernetes uses it: streams with headers, without flow control.

pub mod frame;
mod headers;
mod server;

pub use server::{SpdyEvent, SpdyReceiver, SpdySender, server};
