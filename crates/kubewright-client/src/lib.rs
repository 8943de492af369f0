//! Clients of the Kubernetes API.
//!
//! A [`Transport`](transport::Transport) carries requests to a server, whichever way: TCP, TLS, or a
//! function call. All clients stand on one [`Client`], a cheap handle on a transport.
//!
//! Start at [`Api`] for objects of a type, and at [`rest`] for requests by verb and path.

pub mod api;
mod client;
mod dynamic;
mod error;
pub mod flowcontrol;
mod metadata;
mod pager;
mod random;
pub mod rest;
mod retry;
pub mod transport;

pub use api::{Api, Deleted, HasScale, HasStatus, ListStream, Scope, SubresourceApi, WatchStream};
pub use client::Client;
pub use error::{Error, Result};
pub use metadata::MetadataApi;
pub use pager::{PagedItems, Pager};
pub use retry::{RetryPolicy, retry_on, retry_on_conflict};
