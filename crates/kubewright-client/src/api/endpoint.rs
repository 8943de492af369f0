//! The endpoint of a resource, independent of the object type.
//!
//! This module is compiled once, not once per type.

use http::Method;
use kubewright_core::options::{ListOptions, WatchOptions};
use kubewright_core::{AllNamespaces, GroupVersionResource, ResourceInfo};

use super::Scope;
use crate::error::{Error, Result};
use crate::rest::{Client, Request, ResponseForm, Streaming};
use kubewright_net::task::BoxFuture;
use kubewright_net::transport::TransportErrorKind;

/// Where requests for a resource go.
#[derive(Clone)]
pub(super) struct Endpoint {
    pub(super) client: Client,
    pub(super) resource: GroupVersionResource,
    /// The static description of the resource, if it is known at compile time.
    pub(super) info: Option<&'static ResourceInfo>,
    pub(super) scope: Scope,
    pub(super) form: ResponseForm,
}

impl Endpoint {
    pub(super) fn new(client: &Client, resource: GroupVersionResource, scope: Scope) -> Self {
        Endpoint { client: client.clone(), resource, info: None, scope, form: ResponseForm::Object }
    }

    pub(super) fn known(client: &Client, info: &'static ResourceInfo, scope: Scope) -> Self {
        let resource = GroupVersionResource::from_static(info.kind.group, info.kind.version, info.plural);
        Endpoint { info: Some(info), ..Endpoint::new(client, resource, scope) }
    }

    /// A request for the resource.
    pub(super) fn request(&self, method: Method) -> Request<'static> {
        let rest = self.client.rest().group_version(self.resource.group_version());
        let request = rest.verb(method).resource(self.resource.resource.clone()).form(self.form);
        match &self.scope {
            Scope::Cluster => request,
            Scope::AllNamespaces => request.namespace(AllNamespaces),
            Scope::Namespace(namespace) => {
                let is_cluster_scoped = self.info.is_some_and(|info| !info.namespaced);
                let problem = is_cluster_scoped.then(|| format!("{} are cluster-scoped", self.resource.resource));
                request.namespace(namespace.clone()).refuse(problem)
            }
        }
    }

    /// A request for one object.
    pub(super) fn request_of(&self, method: Method, name: &str) -> Request<'static> {
        self.request(method).name(name)
    }

    /// A list request; accepts protobuf if the type supports it, here and below.
    pub(super) fn list_request(&self, options: &ListOptions, has_protobuf: bool) -> Request<'static> {
        let form = if self.form == ResponseForm::Metadata { ResponseForm::MetadataList } else { self.form };
        accepting(self.request(Method::GET).form(form).options(|query| options.append_query(query)), has_protobuf)
    }

    /// Starts a list.
    pub(super) fn list(&self, options: &ListOptions, has_protobuf: bool) -> BoxFuture<'static, Result<Streaming>> {
        Box::pin(self.list_request(options, has_protobuf).stream())
    }

    /// Starts a watch; `None` if it ended immediately.
    pub(super) fn watch(
        &self,
        options: &WatchOptions,
        has_protobuf: bool,
    ) -> BoxFuture<'static, Result<Option<Streaming>>> {
        let request = self.request(Method::GET).watch().options(|query| options.append_query(query));
        let request = accepting(request, has_protobuf);
        Box::pin(async move {
            match request.stream().await {
                Ok(answer) => Ok(Some(answer)),
                Err(Error::Transport(error))
                    if matches!(error.kind(), TransportErrorKind::Disconnected | TransportErrorKind::Timeout) =>
                {
                    tracing::debug!(error = &error as &dyn std::error::Error, "watch ended before it began");
                    Ok(None)
                }
                Err(error) => Err(error),
            }
        })
    }

    /// Why a verb is not supported, if the resource is known not to have it.
    #[inline]
    pub(super) fn lacks(&self, verb: &str) -> Option<String> {
        let info = self.info.filter(|info| !info.verbs.is_empty() && !info.has_verb(verb))?;
        Some(format!("the resource {} has no verb {verb}", info.plural))
    }
}

pub(super) fn accepting(request: Request<'_>, has_protobuf: bool) -> Request<'_> {
    if has_protobuf { request.accept_protobuf() } else { request }
}
