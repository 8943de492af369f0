//! One resource and what can be done with its objects.
//!
//! [`Api`] is generic over the type of object: a generated one, a user's own [`Kind`], or
//! [`DynamicObject`](kubewright_core::DynamicObject) where the type is not known. It is thin: each verb builds a
//! [`Request`] and decodes the answer, so that a program pays for the types it uses only where bytes become objects.
//!
//! Lists are decoded as they arrive, item by item, whether they are collected by [`Api::list`] or handed on by
//! [`Api::list_stream`]; the bytes of a whole answer are never held.

mod delete;
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
use crate::rest::{Form, Request, RestClient};

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
    client: Client,
    resource: GroupVersionResource,
    /// What is known of the resource when the program is compiled.
    info: Option<&'static ResourceInfo>,
    scope: Scope,
    form: Form,
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
        let resource = GroupVersionResource::from_static(info.kind.group, info.kind.version, info.plural);
        Api { info: Some(info), ..Api::new(client, resource, scope) }
    }

    /// The objects of a resource that is given at run time.
    pub fn new(client: &Client, resource: GroupVersionResource, scope: Scope) -> Self {
        Api { client: client.clone(), resource, info: None, scope, form: Form::Object, objects: PhantomData }
    }

    pub(crate) fn form(mut self, form: Form) -> Self {
        self.form = form;
        self
    }

    /// The same resource through a client that [gives up](Client::answer_timeout) on answers which do not begin.
    #[must_use]
    pub fn answer_timeout(mut self, timeout: Duration) -> Self {
        self.client = self.client.answer_timeout(timeout);
        self
    }

    /// The same unless its client [has been told already](Client::default_answer_timeout) when to give up.
    #[must_use]
    pub fn default_answer_timeout(mut self, timeout: Duration) -> Self {
        self.client = self.client.default_answer_timeout(timeout);
        self
    }

    /// The same resource in this namespace.
    #[must_use]
    #[doc(alias = "Namespace")]
    pub fn namespace(mut self, namespace: impl Into<Str>) -> Self {
        self.scope = match namespace.into() {
            namespace if namespace.is_empty() => Scope::AllNamespaces,
            namespace => Scope::Namespace(namespace),
        };
        self
    }

    /// The same resource, its objects decoded as another type: one with fewer fields, or one that keeps bytes.
    #[must_use]
    pub fn decoded_as<U: Object>(&self) -> Api<U> {
        Api {
            client: self.client.clone(),
            resource: self.resource.clone(),
            info: self.info,
            scope: self.scope.clone(),
            form: self.form,
            objects: PhantomData,
        }
    }

    /// The client it asks through.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The resource.
    pub fn resource(&self) -> &GroupVersionResource {
        &self.resource
    }

    /// Which objects of the resource.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    fn rest(&self) -> RestClient {
        self.client.rest().group_version(self.resource.group_version())
    }

    /// A request about the resource.
    fn request(&self, method: Method) -> Request<'static> {
        let request = self.rest().verb(method).resource(self.resource.resource.clone()).form(self.form);
        match &self.scope {
            Scope::Cluster => request,
            Scope::AllNamespaces => request.namespace(""),
            Scope::Namespace(namespace) => request.namespace(namespace.clone()),
        }
    }

    /// A request about one object.
    pub(crate) fn request_of(&self, method: Method, name: &str) -> Request<'static> {
        self.request(method).name(name)
    }

    /// Why a verb cannot be asked for, where the resource is known not to have it.
    fn lacks(&self, verb: &str) -> Option<String> {
        let info = self.info.filter(|info| !info.verbs.is_empty() && !info.has_verb(verb))?;
        Some(format!("the resource {} has no verb {verb}", info.plural))
    }
}

/// Accepts protobuf where the type can be decoded from it.
fn accepting<'a, T: Object>(request: Request<'a>) -> Request<'a> {
    if T::HAS_PROTOBUF { request.accept_protobuf() } else { request }
}

impl<T> Clone for Api<T> {
    fn clone(&self) -> Self {
        Api {
            client: self.client.clone(),
            resource: self.resource.clone(),
            info: self.info,
            scope: self.scope.clone(),
            form: self.form,
            objects: PhantomData,
        }
    }
}

impl<T> fmt::Debug for Api<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").field("resource", &self.resource).field("scope", &self.scope).finish_non_exhaustive()
    }
}
