//! Requests by verb.

use http::Method;
use kubewright_core::GroupVersion;

use super::client::Client;
use super::request::Request;

/// Starts requests by their verb.
///
/// ```
/// # use kubewright_client::{Client, Result};
/// # use kubewright_core::{DynamicObject, GroupVersion};
/// # async fn example(client: Client) -> Result<()> {
/// let rest = client.rest().group_version(GroupVersion::new("apps", "v1"));
/// let web = rest.get().namespace("default").resource("deployments").name("web").send().await?;
/// let web: DynamicObject = web.decode()?;
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
    /// The group and version of resources. Core `v1` by default.
    #[must_use]
    #[doc(alias = "APIVersion")]
    pub fn group_version(mut self, group_version: GroupVersion) -> Self {
        self.group_version = group_version;
        self
    }

    /// A GET request.
    #[doc(alias = "Get")]
    pub fn get(&self) -> Request<'static> {
        self.verb(Method::GET)
    }

    /// A POST request.
    #[doc(alias = "Post")]
    pub fn post(&self) -> Request<'static> {
        self.verb(Method::POST)
    }

    /// A PUT request.
    #[doc(alias = "Put")]
    pub fn put(&self) -> Request<'static> {
        self.verb(Method::PUT)
    }

    /// A PATCH request.
    #[doc(alias = "Patch")]
    pub fn patch(&self) -> Request<'static> {
        self.verb(Method::PATCH)
    }

    /// A DELETE request.
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

impl Client {
    /// Requests by verb and path.
    #[doc(alias = "RESTClient")]
    pub fn rest(&self) -> RestClient {
        RestClient { client: self.clone(), group_version: GroupVersion::from_static("", "v1") }
    }
}
