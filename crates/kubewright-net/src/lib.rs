//! The network side of a Kubernetes client: configuration, credentials, TLS, connections.
//!
//! [`Config`] says which server to reach and how. [`Config::connect`] makes an [`HttpTransport`],
//! which sends requests over pooled connections. A server, too, uses the HTTP/2 driver ([`http2`])
//! and the reader of certificates ([`der`]).
//!
//! Each folder imports only those above it in this list: `kubeconfig` (files), `credentials`,
//! `config`, `transport` (the interface), `authentication`, `connection` (the implementation).

pub mod authentication;
pub mod clock;
pub mod config;
pub mod connection;
pub mod credentials;
mod crypto;
#[doc(hidden)]
pub mod der;
mod environment;
mod error;
#[doc(hidden)]
pub mod http2;
mod kubeconfig;
pub mod observation;
mod observer;
mod proxy_url;
mod secret;
mod server_address;
#[doc(hidden)]
pub mod task;
pub mod transport;

pub use config::Config;
pub use connection::{HttpTransport, Protocol};
pub use secret::Secret;
