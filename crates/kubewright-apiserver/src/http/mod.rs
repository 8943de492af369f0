//! HTTP around the service: bodies, compression, connections, listening.

mod answer;
mod body;
mod compression;
mod connection;
mod crowd;
mod date;
mod http2;
mod idle;
mod lingering;
mod listener;
mod preface;
mod watches;
mod work;

pub(crate) use answer::Answer;
pub use body::Body;
pub(crate) use compression::{accepts_gzip, compress};
pub(crate) use connection::{Connections, is_too_large};
pub(crate) use crowd::{Crowd, MAX_IN_FLIGHT};
pub(crate) use listener::listen;
