//! A Kubernetes API server in a library.
//!
//! Start at [`ApiServer`], which makes a server; [`Service`] is the same without a socket. A request goes through these
//! places in this order: `http` (bytes), `request` (what it is about), `authentication` (who asks), `authorization`
//! (whether they may), `routes` (which handler), `decoding` (the object), `registry` (the verb), `admission` (webhooks and
//! policies, defaults and rules; those of custom resources come from `schema`, and both write rules in `cel`),
//! [`storage`] (the write and its revision), `encoding` (the answer). `housekeeping` follows the log of writes and deletes
//! what nothing owns any more.
//!
//! ```
//! use kubewright_apiserver::ApiServer;
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = ApiServer::in_memory().start().await?;
//! assert!(server.kubeconfig().contains("clusters:"));
//! server.stop().await;
//! # Ok(()) }
//! ```

pub mod accept;
mod admission;
mod authentication;
mod authorization;
mod catalog;
mod cel;
mod conversion;
mod decoding;
pub mod discovery;
mod encoding;
mod faults;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod hash;
mod housekeeping;
mod http;
mod metrics;
mod object;
mod offload;
pub mod openapi;
mod pages;
mod patching;
mod private_file;
mod random;
mod regex;
mod registry;
mod rejection;
mod request;
mod reviews;
mod routes;
mod schema;
mod seldom;
mod server;
mod service;
pub mod storage;
pub mod table;
mod tree;
mod webhook_client;

pub use authentication::{TokenFileError, Tokens};
pub use faults::{Fault, Faults};
pub use http::Body;
pub use pages::GIT_VERSION;
pub use server::{ApiServer, RunningServer, StartError};
pub use service::Service;
