//! The network side of a Kubernetes client: configuration, credentials, TLS, connections.
//!
//! [`Config`] says which server to reach and how. [`Config::connect`] makes an [`HttpTransport`],
//! which sends requests over pooled connections. A server, too, uses the HTTP/2 driver ([`http2`])
//! and the reader of certificates ([`der`]).
//!
//! Each folder imports only those above it in this list: `kubeconfig` (files), `credentials`,
//! `config`, `transport` (the interface), `authentication`, `connection` (the implementation).
//!
//! ```
//! use kubewright_net::config::Config;
//!
//! let mut config = Config::new("https://cluster.example:6443")?;
//! config.credentials.token = Some("s3cret".into());
//! assert!(!format!("{config:?}").contains("s3cret"));
//! # Ok::<(), kubewright_net::config::ConfigError>(())
//! ```

// On docs.rs, items say which feature they need.
#![cfg_attr(docsrs, feature(doc_cfg))]

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
