//! Serves HTTP/1.1 and HTTP/2 on connections: listening, TLS, prefaces, time limits and watches.

mod connection;
mod date;
mod http2;
mod idle;
mod listener;
mod preface;
mod tls;
mod watches;
mod work;

pub(crate) use connection::Connections;
pub(crate) use listener::listen;
pub(crate) use tls::Tls;
