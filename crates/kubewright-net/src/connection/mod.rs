//! Connections to servers: HTTP over TCP, TLS and proxies.
//!
//! Start at [`HttpTransport`], which a [`Config`](crate::config::Config) makes with `connect`.

mod address;
mod cancel;
mod connector;
mod error_recorder;
mod failure;
mod gzip;
mod http1;
mod http2;
mod http_transport;
mod lenient_end;
mod opener;
mod pool;
mod proxy;
mod response;
mod tls;
mod trusted_certificate;
mod verifier;

pub use connector::Protocol;
pub use http_transport::HttpTransport;
