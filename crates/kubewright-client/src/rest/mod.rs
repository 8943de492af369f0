//! Requests by verb and path: what all clients come down to.
//!
//! A [`Request`] is built, sent, and answered by a [`Response`] that is held whole or a [`Streaming`] one that is
//! read as it comes. On the way a request waits for the rate limit, is sent again where that is safe and the server
//! asks for it, and is spoken in protobuf or JSON, whichever the server understands for the resource.
//!
//! Decisions:
//! - A request is sent again after 429 or 5xx with a `Retry-After` of whole seconds, as in Go. Unlike there, what
//!   is not idempotent (POST and PATCH) is repeated only after 429 and 503, which say that nothing was done: after
//!   a 504 with advice to retry, Go creates twice. A connection that broke is retried for GET alone.
//! - Errors of the builder stick: the first is reported when the request would be sent, and nothing is.
//! - There is no global state: limits, handlers and metrics belong to a [`Client`].

mod attempt;
mod failure;
mod impersonation;
mod metrics;
mod negotiation;
mod path;
#[cfg(feature = "metrics")]
mod prometheus;
mod request;
mod response;
mod retry;
mod warning;

use http::Method;
use kubewright_core::GroupVersion;

use crate::client::Client;

pub use impersonation::Impersonation;
pub use metrics::{AttemptReport, RequestMetrics};
pub(crate) use negotiation::{Form, Negotiation};
#[cfg(feature = "metrics")]
pub use prometheus::PrometheusMetrics;
pub use request::{Encode, Request};
pub use response::{Response, Streaming};
pub(crate) use warning::WarningHandler;
pub use warning::{Warning, log_warning, log_warnings_once};

/// Starts requests by their verb.
///
/// ```
/// # use kubewright_client::{Client, Result};
/// # use kubewright_core::{DynamicObject, GroupVersion};
/// # async fn example(client: Client) -> Result<()> {
/// let rest = client.rest().group_version(GroupVersion::new("apps", "v1"));
/// let web = rest.get().namespace("default").resource("deployments").name("web").send().await?;
/// let web: DynamicObject = web.into()?;
/// let health = client.rest().get().absolute_path("/healthz").send().await?;
/// assert_eq!(health.bytes(), "ok");
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[doc(alias = "RESTClient")]
pub struct RestClient {
    client: Client,
    group_version: GroupVersion,
}

impl RestClient {
    pub(crate) fn new(client: Client) -> Self {
        RestClient { client, group_version: GroupVersion::from_static("", "v1") }
    }

    /// The group and version that resources are looked for in. Core `v1` by default.
    #[must_use]
    #[doc(alias = "APIVersion")]
    pub fn group_version(mut self, group_version: GroupVersion) -> Self {
        self.group_version = group_version;
        self
    }

    /// Reads.
    #[doc(alias = "Get")]
    pub fn get(&self) -> Request<'static> {
        self.verb(Method::GET)
    }

    /// Creates, or acts.
    #[doc(alias = "Post")]
    pub fn post(&self) -> Request<'static> {
        self.verb(Method::POST)
    }

    /// Replaces.
    #[doc(alias = "Put")]
    pub fn put(&self) -> Request<'static> {
        self.verb(Method::PUT)
    }

    /// Changes.
    #[doc(alias = "Patch")]
    pub fn patch(&self) -> Request<'static> {
        self.verb(Method::PATCH)
    }

    /// Deletes.
    #[doc(alias = "Delete")]
    pub fn delete(&self) -> Request<'static> {
        self.verb(Method::DELETE)
    }

    /// A request of any method.
    #[doc(alias = "Verb")]
    pub fn verb(&self, method: Method) -> Request<'static> {
        Request::new(self.client.clone(), method, self.group_version.clone())
    }
}
