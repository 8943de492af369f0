//! Finds resources by kind, name, short name and category.

use std::sync::Arc;

use kubewright_core::meta::v1::Status;
use kubewright_core::{
    DynamicObject, GroupKind, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource, NamespaceScope,
    Object,
};

use super::cache::CachedDiscovery;
use super::catalog::{ApiResource, Discovery};
use crate::api::Api;
use crate::error::{Error, Result};
use crate::flowcontrol::TokenBucket;
use crate::rest::Client;

/// A resource and the kind of its objects.
#[derive(Debug, Clone, PartialEq)]
#[doc(alias = "RESTMapping")]
pub struct RestMapping {
    /// The resource.
    pub resource: GroupVersionResource,
    /// The kind of its objects.
    pub kind: GroupVersionKind,
    /// Whether its objects are namespaced.
    pub namespaced: bool,
}

impl RestMapping {
    /// The objects of the resource: in `namespace` if they are namespaced, otherwise those of the
    /// cluster.
    #[inline]
    pub fn api(&self, client: &Client, namespace: impl Into<NamespaceScope>) -> Api<DynamicObject> {
        let api = client.dynamic(self.resource.clone());
        if self.namespaced { api.namespace(namespace) } else { api }
    }
}

/// Finds resources by kind, name, short name and category.
///
/// On a miss the cached discovery may be stale, so it is requested again, at most about once a
/// second for repeated misses. If several groups match, the first in the server's order wins; of
/// several versions, the preferred one.
#[derive(Debug, Clone)]
#[doc(alias = "RESTMapper")]
#[doc(alias = "DeferredDiscoveryRESTMapper")]
#[doc(alias = "ShortcutExpander")]
pub struct RestMapper {
    discovery: CachedDiscovery,
    misses: Arc<TokenBucket>,
    /// Rate limit for retries of failed versions.
    mends: Arc<TokenBucket>,
}

impl Client {
    /// A mapper with its own discovery cache.
    #[doc(alias = "NewDeferredDiscoveryRESTMapper")]
    #[inline]
    pub fn rest_mapper(&self) -> RestMapper {
        RestMapper::new(CachedDiscovery::new(self.discovery()))
    }
}

impl RestMapper {
    /// A mapper over `discovery`.
    #[inline]
    pub fn new(discovery: CachedDiscovery) -> Self {
        let bucket = || Arc::new(TokenBucket::new(1.0, 10));
        RestMapper { discovery, misses: bucket(), mends: bucket() }
    }

    /// The cached discovery.
    #[inline]
    pub fn discovery(&self) -> &CachedDiscovery {
        &self.discovery
    }

    /// Finds a resource by user input in any case: `deploy`, `deployment`, `deployments.apps`,
    /// `deployments.v1.apps`, or a kind.
    ///
    /// # Errors
    /// [`is_not_found`](crate::Error::is_not_found) if no resource matches.
    #[doc(alias = "ResourceFor")]
    #[inline]
    pub async fn find(&self, text: &str) -> Result<RestMapping> {
        let lower = text.to_lowercase();
        self.look_up(|discovery| find(discovery, &lower)).await?.ok_or_else(|| {
            missing(&GroupResource::from(text), format!("the server doesn't have a resource type {text:?}"))
        })
    }

    /// A resource in the preferred version. An empty group means the first group that has it.
    ///
    /// # Errors
    /// [`is_not_found`](crate::Error::is_not_found) if there is none.
    #[doc(alias = "KindFor")]
    #[inline]
    pub async fn resource(&self, resource: &GroupResource) -> Result<RestMapping> {
        let found = self.look_up(|discovery| {
            let is_it = |one: &ApiResource| one.plural == resource.resource;
            pick(discovery, &resource.resource, |version, one| in_group(version, &resource.group) && is_it(one))
        });
        let message = || format!("the server doesn't have a resource type {:?}", resource.to_string());
        found.await?.ok_or_else(|| missing(resource, message()))
    }

    /// The resource of a kind: in the first of `versions` that has it, or in the preferred version.
    ///
    /// # Errors
    /// [`is_not_found`](crate::Error::is_not_found) if the kind has no resource.
    #[doc(alias = "RESTMapping")]
    #[inline]
    pub async fn kind(&self, kind: &GroupKind, versions: &[&str]) -> Result<RestMapping> {
        let found = self.look_up(|discovery| {
            let matching =
                |version: &GroupVersion, one: &ApiResource| version.group == kind.group && one.kind.kind == kind.kind;
            match versions {
                [] => pick(discovery, &kind.kind, matching),
                versions => versions.iter().find_map(|wanted| {
                    discovery
                        .resources()
                        .find(|(version, one)| version.version == *wanted && matching(version, one))
                        .map(|(version, one)| mapping(version, one))
                }),
            }
        });
        let message = || match versions {
            [] => format!("no matches for kind {:?} in group {:?}", kind.kind, kind.group),
            versions => format!("no matches for kind {:?} in group {:?}, versions {versions:?}", kind.kind, kind.group),
        };
        let resource = || GroupResource::new(kind.group.clone(), kind.kind.clone());
        found.await?.ok_or_else(|| missing(&resource(), message()))
    }

    /// The API for an object of any kind, in its own namespace or the client's default namespace.
    ///
    /// With `kubewright_yaml::objects` it implements `kubectl apply --server-side -f`:
    ///
    /// ```
    /// # use kubewright_client::Client;
    /// # use kubewright_core::options::ApplyOptions;
    /// # use kubewright_yaml as yaml;
    /// # async fn example(client: Client, manifest: &str) -> Result<(), Box<dyn std::error::Error>> {
    /// let mapper = client.rest_mapper();
    /// for object in yaml::objects(manifest)? {
    ///     mapper.api_of(&object).await?.apply(&object, &ApplyOptions::new("me")).await?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`is_not_found`](crate::Error::is_not_found) if the server has no such kind, for example
    /// because its CRD is not established yet.
    pub async fn api_of(&self, object: &impl Object) -> Result<Api<DynamicObject>> {
        let kind = object.group_version_kind();
        let mapping = self.kind(&kind.group_kind(), &[&kind.version]).await?;
        let client = self.discovery.client();
        let namespace = if object.namespace().is_empty() { client.default_namespace() } else { object.namespace() };
        Ok(mapping.api(client, namespace))
    }

    /// The resources of a category such as `all`, each in the preferred version. Empty if there is
    /// none.
    #[doc(alias = "CategoryExpander")]
    #[doc(alias = "Expand")]
    #[inline]
    pub async fn category(&self, name: &str) -> Result<Vec<RestMapping>> {
        let discovery = self.discovery.get().await?;
        let members = discovery.preferred_resources().filter(|(_, one)| one.categories.iter().any(|have| have == name));
        Ok(members.map(|(version, one)| mapping(version, one)).collect())
    }

    /// The kind of a resource's scale subresource.
    ///
    /// # Errors
    /// [`is_not_found`](crate::Error::is_not_found) if it has none.
    #[doc(alias = "ScaleKindResolver")]
    #[inline]
    pub async fn scale_kind(&self, resource: &GroupVersionResource) -> Result<GroupVersionKind> {
        let found = self
            .look_up(|discovery| discovery.resource(resource)?.subresource("scale").map(|scale| scale.kind.clone()));
        let resource = resource.group_resource();
        found.await?.ok_or_else(|| missing(&resource, format!("{resource} have no scale")))
    }

    /// Looks in the cache and, on a miss that may be due to staleness, in current discovery.
    ///
    /// A hit costs no request, even while parts of the server fail.
    async fn look_up<R>(&self, look: impl Fn(&Discovery) -> Option<R>) -> Result<Option<R>> {
        let known = self.discovery.known().await?;
        if let Some(found) = look(&known) {
            return Ok(Some(found));
        }
        // A version with a transient failure may contain it and is retried first. The separate rate
        // limit keeps misses of unknown resources from blocking this.
        if known.failures.iter().any(|failure| failure.is_transient)
            && self.mends.try_accept()
            && let Some(found) = look(&*self.discovery.get().await?)
        {
            return Ok(Some(found));
        }
        if !self.misses.try_accept() {
            return Ok(None);
        }
        Ok(look(&*self.discovery.refresh().await?))
    }
}

/// The error concerns a missing resource, not an object without a name.
#[inline]
fn missing(resource: &GroupResource, message: String) -> Error {
    let mut status = Status::not_found(resource, "");
    status.message = Some(message.into());
    status.into()
}

/// Finds a resource by user input in lower case.
#[inline]
fn find(discovery: &Discovery, text: &str) -> Option<RestMapping> {
    if let Some(exact) = GroupVersionResource::parse_arg(text) {
        let version = exact.group_version();
        let named = |found: &GroupVersion, one: &ApiResource| *found == version && is_called(one, &exact.resource);
        if let Some((version, one)) = discovery.resources().find(|(found, one)| named(found, one)) {
            return Some(mapping(version, one));
        }
    }
    let wanted = GroupResource::from(text);
    let called =
        pick(discovery, text, |version, one| in_group(version, &wanted.group) && is_called(one, &wanted.resource));
    called.or_else(|| {
        let short = |one: &ApiResource| one.short_names.contains(&wanted.resource);
        pick(discovery, text, |version, one| in_group(version, &wanted.group) && short(one))
    })
}

/// A group may be abbreviated up to a dot: `ingresses.networking`.
#[inline]
fn in_group(version: &GroupVersion, wanted: &str) -> bool {
    let starts = |rest: &str| rest.is_empty() || rest.starts_with('.');
    wanted.is_empty() || version.group.strip_prefix(wanted).is_some_and(starts)
}

/// Kinds match case-insensitively, resource names in lower case.
#[inline]
fn is_called(resource: &ApiResource, name: &str) -> bool {
    let singular = if resource.singular.is_empty() { resource.kind.kind.as_str() } else { &resource.singular };
    resource.plural == name || singular.eq_ignore_ascii_case(name) || resource.kind.kind.eq_ignore_ascii_case(name)
}

/// The first match in the server's order.
fn pick(
    discovery: &Discovery,
    name: &str,
    matches: impl Fn(&GroupVersion, &ApiResource) -> bool,
) -> Option<RestMapping> {
    let mut found = discovery.preferred_resources().filter(|(version, one)| matches(version, one));
    let (version, first) = found.next()?;
    if let Some((other, _)) = found.find(|(other, _)| other.group != version.group) {
        tracing::debug!(name, chosen = %version, also = %other, "several groups have a resource of this name");
    }
    Some(mapping(version, first))
}

#[inline]
fn mapping(version: GroupVersion, resource: &ApiResource) -> RestMapping {
    RestMapping {
        resource: version.with_resource(resource.plural.clone()),
        kind: resource.kind.clone(),
        namespaced: resource.namespaced,
    }
}
