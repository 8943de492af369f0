//! One resource and what can be done with its objects.
//!
//! [`Api`] is generic over the type of object: a generated one, a user's own [`Kind`], or
//! [`DynamicObject`](kubewright_core::DynamicObject) where the type is not known. It is thin: each verb builds a
//! [`Request`] and decodes the answer, so that a program pays for the types it uses only where bytes become objects.
//!
//! Lists are decoded as they arrive, item by item, whether they are collected by [`Api::list`] or handed on by
//! [`Api::list_stream`]; the bytes of a whole answer are never held.

mod delete;
mod endpoint;
mod list_stream;
mod proxy;
mod read;
mod scope;
mod subresource;
mod verbs;
mod watch_stream;
mod write;

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use http::Method;
use kubewright_core::{GroupVersionResource, Kind, Object, ResourceInfo, Str};

use crate::client::Client;
use crate::rest::{Form, Request};
use endpoint::Endpoint;

pub use delete::Deleted;
pub use list_stream::ListStream;
pub use proxy::HasProxy;
pub use scope::Scope;
pub use subresource::{HasScale, HasStatus, SubresourceApi};
pub use verbs::{CreateApi, ReadApi};
pub use watch_stream::WatchStream;

/// The objects of one resource, in one namespace, in all of them, or of the cluster.
///
/// ```
/// # use kubewright_client::{Api, Client, Result};
/// # use kubewright_core::{Kind, Object};
/// # async fn example<Pod: Kind>(client: Client) -> Result<()> {
/// let pods = Api::<Pod>::namespaced(&client, "default");
/// let web = pods.get("web-0").await?;
/// for pod in pods.list(&Default::default()).await? {
///     println!("{}", pod.name());
/// }
/// # Ok(()) }
/// ```
pub struct Api<T> {
    endpoint: Endpoint,
    objects: PhantomData<fn() -> T>,
}

impl<T: Kind> Api<T> {
    /// The objects in this namespace; the empty one stands for all. For a resource of the cluster it means nothing.
    pub fn namespaced(client: &Client, namespace: impl Into<Str>) -> Self {
        let all = Api::all(client);
        if T::RESOURCE.namespaced { all.namespace(namespace) } else { all }
    }

    /// The objects in the client's default namespace.
    pub fn default_namespaced(client: &Client) -> Self {
        Api::namespaced(client, client.default_namespace())
    }

    /// The objects of all namespaces, or of the cluster: to list and to watch, and for a resource of the cluster
    /// everything.
    #[doc(alias = "NamespaceAll")]
    pub fn all(client: &Client) -> Self {
        let scope = if T::RESOURCE.namespaced { Scope::AllNamespaces } else { Scope::Cluster };
        Api::known(client, T::RESOURCE, scope)
    }
}

impl<T> Api<T> {
    pub(crate) fn known(client: &Client, info: &'static ResourceInfo, scope: Scope) -> Self {
        Self::at(Endpoint::known(client, info, scope))
    }

    /// The objects of a resource that is given at run time.
    pub fn new(client: &Client, resource: GroupVersionResource, scope: Scope) -> Self {
        Self::at(Endpoint::new(client, resource, scope))
    }

    fn at(endpoint: Endpoint) -> Self {
        Api { endpoint, objects: PhantomData }
    }

    pub(crate) fn form(mut self, form: Form) -> Self {
        self.endpoint.form = form;
        self
    }

    /// The same resource through a client that [gives up](Client::answer_timeout) on answers which do not begin.
    #[must_use]
    pub fn answer_timeout(mut self, timeout: Duration) -> Self {
        self.endpoint.client = self.endpoint.client.answer_timeout(timeout);
        self
    }

    /// The same unless its client [has been told already](Client::default_answer_timeout) when to give up.
    #[must_use]
    pub fn default_answer_timeout(mut self, timeout: Duration) -> Self {
        self.endpoint.client = self.endpoint.client.default_answer_timeout(timeout);
        self
    }

    /// The same resource in this namespace.
    #[must_use]
    #[doc(alias = "Namespace")]
    pub fn namespace(mut self, namespace: impl Into<Str>) -> Self {
        self.endpoint.scope = match namespace.into() {
            namespace if namespace.is_empty() => Scope::AllNamespaces,
            namespace => Scope::Namespace(namespace),
        };
        self
    }

    /// The same resource, its objects decoded as another type: one with fewer fields, or one that keeps bytes.
    #[must_use]
    pub fn decoded_as<U: Object>(&self) -> Api<U> {
        Api::at(self.endpoint.clone())
    }

    /// The client it asks through.
    pub fn client(&self) -> &Client {
        &self.endpoint.client
    }

    /// The resource.
    pub fn resource(&self) -> &GroupVersionResource {
        &self.endpoint.resource
    }

    /// Which objects of the resource.
    pub fn scope(&self) -> &Scope {
        &self.endpoint.scope
    }

    /// A request about one object.
    pub(crate) fn request_of(&self, method: Method, name: &str) -> Request<'static> {
        self.endpoint.request_of(method, name)
    }
}

/// Accepts protobuf where the type can be decoded from it.
fn accepting<T: Object>(request: Request<'_>) -> Request<'_> {
    endpoint::accepting(request, T::HAS_PROTOBUF)
}

impl<T> Clone for Api<T> {
    fn clone(&self) -> Self {
        Api::at(self.endpoint.clone())
    }
}

impl<T> fmt::Debug for Api<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Endpoint { resource, scope, .. } = &self.endpoint;
        f.debug_struct("Api").field("resource", resource).field("scope", scope).finish_non_exhaustive()
    }
}
