//! Clients of the Kubernetes API.
//!
//! A [`Transport`](transport::Transport) carries requests to a server, whichever way: TCP, TLS, or a
//! function call. All clients stand on one [`Client`], a cheap handle on a transport.

mod client;
pub mod config;
pub mod credentials;
mod error;
mod secret;
pub mod transport;

pub use client::Client;
pub use config::Config;
pub use error::{Error, Result};
pub use secret::Secret;
