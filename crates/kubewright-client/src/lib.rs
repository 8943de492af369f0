//! Clients of the Kubernetes API.
//!
//! A [`Transport`](transport::Transport) carries requests to a server, whichever way: TCP, TLS, or a
//! function call. All clients stand on one [`Client`], a cheap handle on a transport.
//!
//! Start at [`Api`] for objects of a type, and at [`rest`] for requests by verb and path.

pub mod api;
#[cfg(feature = "apply")]
pub mod apply;
#[cfg(feature = "certificate-manager")]
pub mod certificate;
mod client;
pub mod clientset;
pub mod config;
pub mod credentials;
#[cfg_attr(
    not(feature = "certificate-manager"),
    allow(dead_code, reason = "only requests for certificates are written")
)]
pub mod discovery;
mod dynamic;
mod error;
pub mod flowcontrol;
mod metadata;
mod pager;
#[cfg(feature = "ws")]
pub mod remote;
pub mod rest;
mod retry;
#[cfg(feature = "autoscaling")]
mod scale;
mod secret;
#[doc(hidden)]
pub mod task;
pub mod transport;
pub mod watch;

pub use api::{Api, Deleted, HasProxy, HasScale, HasStatus, ListStream, Scope, SubresourceApi, WatchStream};
pub use client::Client;
pub use config::Config;
pub use error::{Error, Result};
pub use metadata::MetadataApi;
pub use pager::{PagedItems, Pager};
pub use retry::{RetryPolicy, retry_on, retry_on_conflict};
#[cfg(feature = "autoscaling")]
pub use scale::ScaleClient;
pub use secret::Secret;
