//! Clients of the Kubernetes API.
//!
//! A [`Transport`](transport::Transport) carries requests to a server: over TCP, TLS, or as a
//! function call. [`Client`] is a cheap handle on a transport; everything else builds on it.
//!
//! Start at [`Api`] for typed objects, and at [`rest`] for requests by verb and path.
//!
//! ```
//! use kubewright_api::core::v1::ConfigMap;
//! use kubewright_apiserver::ApiServer;
//! use kubewright_core::Object;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = ApiServer::in_memory().start().await?;
//! let client = server.client(); // for a cluster: Client::try_default().await?
//! let maps = client.api::<ConfigMap>("default");
//! let mut map = ConfigMap::default();
//! map.set_name("settings");
//! maps.create(&map).await?;
//! assert_eq!(maps.get("settings").await?.name(), "settings");
//! # Ok(()) }
//! ```

// On docs.rs, items say which feature they need.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod api;
#[cfg(feature = "apply")]
pub mod apply;
#[cfg(feature = "certificate-manager")]
pub mod certificate;
pub mod clientset;
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
pub mod watch;

#[doc(hidden)]
pub use kubewright_net::task;
pub use kubewright_net::{Config, Secret, clock, config, observation};

/// Credentials of a client, and why they could not be obtained.
pub mod credentials {
    pub use kubewright_net::authentication::{ExecError, OidcError};
    pub use kubewright_net::credentials::*;
}

/// Transports: the interface between clients and the network, and its implementation over HTTP.
pub mod transport {
    pub use kubewright_net::connection::{HttpTransport, Protocol};
    pub use kubewright_net::transport::*;
}

pub use api::{Api, DeleteResponse, HasProxy, HasScale, HasStatus, ListStream, Scope, SubresourceApi, WatchStream};
pub use error::{Error, Result};
pub use metadata::MetadataApi;
pub use pager::{PagedItems, Pager};
pub use rest::Client;
pub use retry::{RetryPolicy, retry_on, retry_on_conflict};
#[cfg(feature = "autoscaling")]
pub use scale::ScaleApi;
