//! Typed access to one resource.
//!
//! [`Api`] is generic over the object type: a generated type, a user-defined [`Kind`], or
//! [`DynamicObject`](kubewright_core::DynamicObject) if the type is not known. It is thin: each
//! verb builds a
//! [`Request`] and decodes the response, so that only decoding is compiled per type.
//!
//! Lists are decoded item by item as they arrive, by [`Api::list`] as well as by
//! [`Api::list_stream`]; a response is never buffered as a whole.

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
use kubewright_core::{
    CanBeClusterScoped, CanBeNamespaced, GroupVersionResource, Kind, NamespaceScope, Object, ResourceInfo, RuntimeScope,
};

use crate::rest::{Client, Request, ResponseForm};
use endpoint::Endpoint;

pub use delete::DeleteResponse;
pub use list_stream::ListStream;
pub use proxy::HasProxy;
pub use scope::Scope;
pub use subresource::{HasScale, HasStatus, SubresourceApi};
pub use verbs::{CreateApi, ReadApi};
pub use watch_stream::WatchStream;

/// The objects of one resource: of a namespace, of all namespaces, or cluster-scoped.
///
/// ```
/// # use kubewright_client::{Api, Client, Result};
/// # use kubewright_core::{Kind, Namespaced, Object};
/// # async fn example<Pod: Kind<Scope = Namespaced>>(client: Client) -> Result<()> {
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
    /// The objects of a namespace, or of [`AllNamespaces`](kubewright_core::AllNamespaces). The
    /// same as [`Client::api`].
    pub fn namespaced(client: &Client, namespace: impl Into<NamespaceScope>) -> Self
    where
        T::Scope: CanBeNamespaced,
    {
        Api::known(client, T::RESOURCE, Scope::from(namespace.into()))
    }

    /// The objects in the client's default namespace.
    pub fn default_namespaced(client: &Client) -> Self
    where
        T::Scope: CanBeNamespaced,
    {
        Api::namespaced(client, client.default_namespace())
    }

    /// All objects of the cluster, for kinds of any scope. Of a namespaced kind they can be listed
    /// and watched; other verbs need a namespace.
    pub fn all(client: &Client) -> Self {
        let scope = if T::RESOURCE.namespaced { Scope::AllNamespaces } else { Scope::Cluster };
        Api::known(client, T::RESOURCE, scope)
    }
}

impl<T: Object<Scope = RuntimeScope>> Api<T> {
    /// The same resource in this namespace, or in all.
    #[must_use]
    #[doc(alias = "Namespace")]
    pub fn namespace(self, namespace: impl Into<NamespaceScope>) -> Self {
        self.with_scope(Scope::from(namespace.into()))
    }
}

impl<T> Api<T> {
    pub(crate) fn known(client: &Client, info: &'static ResourceInfo, scope: Scope) -> Self {
        Self::at(Endpoint::known(client, info, scope))
    }

    /// The objects of a resource that is only known at run time.
    pub fn new(client: &Client, resource: GroupVersionResource, scope: Scope) -> Self {
        Self::at(Endpoint::new(client, resource, scope))
    }

    fn at(endpoint: Endpoint) -> Self {
        Api { endpoint, objects: PhantomData }
    }

    pub(crate) fn form(mut self, form: ResponseForm) -> Self {
        self.endpoint.form = form;
        self
    }

    /// Sets the [response timeout](Client::answer_timeout) of this resource's client.
    #[must_use]
    pub fn answer_timeout(mut self, timeout: Duration) -> Self {
        self.endpoint.client = self.endpoint.client.answer_timeout(timeout);
        self
    }

    /// Sets the response timeout unless its client [has one](Client::default_answer_timeout).
    #[must_use]
    pub fn default_answer_timeout(mut self, timeout: Duration) -> Self {
        self.endpoint.client = self.endpoint.client.default_answer_timeout(timeout);
        self
    }

    /// The same resource with another scope, for code that is generic over the scope. Requests
    /// with a namespace fail if the resource is known to be cluster-scoped.
    #[must_use]
    pub fn with_scope(mut self, scope: Scope) -> Self {
        self.endpoint.scope = scope;
        self
    }

    /// The same resource with another object type: one with fewer fields, or one that stores bytes.
    #[must_use]
    pub fn decoded_as<U: Object>(&self) -> Api<U> {
        Api::at(self.endpoint.clone())
    }

    /// Its client.
    pub fn client(&self) -> &Client {
        &self.endpoint.client
    }

    /// The resource.
    pub fn resource(&self) -> &GroupVersionResource {
        &self.endpoint.resource
    }

    /// The scope of the objects.
    pub fn scope(&self) -> &Scope {
        &self.endpoint.scope
    }

    /// A request for one object.
    pub(crate) fn request_of(&self, method: Method, name: &str) -> Request<'static> {
        self.endpoint.request_of(method, name)
    }
}

impl Client {
    /// The objects of a namespaced kind: of one namespace, or of
    /// [`AllNamespaces`](kubewright_core::AllNamespaces).
    ///
    /// ```
    /// # use kubewright_api::core::v1::{Node, Pod};
    /// # use kubewright_client::{Client, Result};
    /// use kubewright_core::AllNamespaces;
    ///
    /// # async fn example(client: Client) -> Result<()> {
    /// let web = client.api::<Pod>("default").get("web-0").await?;
    /// let pods = client.api::<Pod>(AllNamespaces).list(&Default::default()).await?;
    /// let nodes = client.cluster_api::<Node>().list(&Default::default()).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// A cluster-scoped kind has no namespace:
    ///
    /// ```compile_fail,E0277
    /// # use kubewright_api::core::v1::Node;
    /// # fn example(client: kubewright_client::Client) {
    /// let nodes = client.api::<Node>("x");
    /// # }
    /// ```
    ///
    /// An empty name is not a way to say "all": requests with it fail.
    pub fn api<T: Kind>(&self, namespace: impl Into<NamespaceScope>) -> Api<T>
    where
        T::Scope: CanBeNamespaced,
    {
        Api::namespaced(self, namespace)
    }

    /// The objects of a cluster-scoped kind.
    ///
    /// A namespaced kind needs a namespace:
    ///
    /// ```compile_fail,E0277
    /// # use kubewright_api::core::v1::Pod;
    /// # fn example(client: kubewright_client::Client) {
    /// let pods = client.cluster_api::<Pod>();
    /// # }
    /// ```
    pub fn cluster_api<T: Kind>(&self) -> Api<T>
    where
        T::Scope: CanBeClusterScoped,
    {
        Api::all(self)
    }
}

/// Accepts protobuf if the type supports it.
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
