//! Options of a related kind: which objects are cached, which of their events count, and which keys
//! they lead to.
//!
//! A relation has three independent parts, so that every combination can be written:
//!
//! * The constructor chooses mapping and form: [`Owns::new`] and [`Watches::mapped`] cache whole
//!   objects, `metadata` caches their metadata, and `informer` uses a given cache. It fixes the
//!   type of the cached object, so predicates and mappings of another type do not compile.
//! * Selectors and namespaces restrict the cache. A given informer has its own scope, so these
//!   methods do not exist for it.
//! * Predicate, priority and [`optional`](RelationOptions::optional) apply to every relation.
//!
//! controller-runtime passes such options as variadic arguments, and kube-rs has a method for each
//! combination. Here [`owns`](crate::Controller::owns) and [`watches`](crate::Controller::watches)
//! are the short forms for the defaults.

use std::fmt;
use std::sync::Arc;

use kubewright_cache::{InformerHandle, InformerScope, SharedInformerFactory};
use kubewright_core::meta::v1::PartialObjectMetadata;
use kubewright_core::{
    CanBeNamespaced, FieldSelector, GroupVersionResource, Kind, NamespaceScope, Object, ObjectKey, Selector, Str,
};

use super::mapping::{Mapping, OwnerKind, owner};
use super::predicate::Predicate;
use super::relation::Watch;

/// Options of a kind whose objects the main kind owns, for
/// [`Controller::owns_with`](crate::Controller::owns_with).
///
/// ```
/// # use kubewright_api::core::v1::{ConfigMap, Pod, Secret};
/// # use kubewright_apiserver::ApiServer;
/// # use kubewright_cache::SharedInformerFactory;
/// # use kubewright_runtime::{Controller, Owns, Predicate};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ApiServer::in_memory().start().await?;
/// # let factory = SharedInformerFactory::new(&server.client(), Default::default());
/// let controller = Controller::<ConfigMap>::new("copy", &factory)
///     .owns_with(Owns::metadata::<Secret>().when(Predicate::labels_changed()).optional())
///     .owns_with(Owns::<Pod>::new().labels("app=web".parse()?).namespace("default").every_owner());
/// # drop(controller);
/// # Ok(()) }
/// ```
#[doc(alias = "OwnsOption")]
pub type Owns<O, S = FactoryCache<O>> = RelationOptions<O, ToOwner, S>;

/// Options of a kind whose objects a function maps to keys of the main kind, for
/// [`Controller::watches_with`](crate::Controller::watches_with).
///
/// ```
/// # use kubewright_api::core::v1::{ConfigMap, Namespace, Pod};
/// # use kubewright_apiserver::ApiServer;
/// # use kubewright_cache::SharedInformerFactory;
/// # use kubewright_core::{Object, ObjectKey};
/// # use kubewright_runtime::{Controller, Predicate, Watches};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ApiServer::in_memory().start().await?;
/// # let factory = SharedInformerFactory::new(&server.client(), Default::default());
/// let of_app = |pod: &Pod| pod.labels().get("app").map(|app| ObjectKey::namespaced(pod.namespace(), app));
/// let controller = Controller::<ConfigMap>::new("apps", &factory)
///     .watches_with(Watches::mapped(of_app).when(Predicate::labels_changed()).priority(10))
///     .watches_with(Watches::metadata::<Namespace>(|namespace| vec![ObjectKey::namespaced(namespace.name(), "quota")]));
/// # drop(controller);
/// # Ok(()) }
/// ```
#[doc(alias = "WatchesOption")]
pub type Watches<O, S = FactoryCache<O>> = RelationOptions<O, ToKeys<O>, S>;

/// Options of a relation to objects that are cached as `O`, mapped to keys by `M`, from the cache
/// `S`. See [`Owns`] and [`Watches`].
#[must_use]
pub struct RelationOptions<O, M, S> {
    mapping: M,
    cache: S,
    predicate: Option<Predicate<O>>,
    priority: Option<i32>,
    is_optional: bool,
}

/// Maps an object to its owners of the main kind.
#[derive(Debug, Default)]
pub struct ToOwner {
    every_owner: bool,
}

/// Maps an object by a function.
pub struct ToKeys<O>(MapFn<O>);

type MapFn<O> = Arc<dyn Fn(&O) -> Vec<ObjectKey> + Send + Sync>;

/// A cache of the controller's factory.
pub struct FactoryCache<O> {
    resource: Str,
    scope: InformerScope<O>,
    informer: fn(&SharedInformerFactory, InformerScope<O>) -> InformerHandle<O>,
}

/// A cache that was passed as an informer.
pub struct GivenCache<O> {
    resource: Str,
    informer: InformerHandle<O>,
}

impl<K: Kind> Owns<K> {
    /// Watches whole objects. Their owner references lead to their controller.
    pub fn new() -> Self {
        RelationOptions::over(ToOwner::default(), whole_objects())
    }
}

impl Owns<PartialObjectMetadata> {
    /// Like [`new`](Owns::new), but watches and caches only the metadata.
    #[doc(alias = "OnlyMetadata")]
    pub fn metadata<K: Kind>() -> Self {
        RelationOptions::over(ToOwner::default(), metadata_of::<K>())
    }
}

impl<O: Object> Owns<O, GivenCache<O>> {
    /// The objects of any informer: of a partial type, or of a kind that is known at run time.
    ///
    /// `resource` is the name of the resource, such as `deployments.apps`, to match tracked writes.
    /// The caller starts informers of another factory than the controller's.
    pub fn informer(resource: impl Into<Str>, informer: InformerHandle<O>) -> Self {
        RelationOptions::over(ToOwner::default(), GivenCache { resource: resource.into(), informer })
    }
}

impl<O: Object, S> Owns<O, S> {
    /// Maps to every owner of the main kind. Only to the controller by default.
    #[doc(alias = "MatchEveryOwner")]
    pub fn every_owner(mut self) -> Self {
        self.mapping.every_owner = true;
        self
    }
}

impl<K: Kind> Watches<K> {
    /// Watches whole objects. `map` is called for the old and the new state.
    #[doc(alias = "EnqueueRequestsFromMapFunc")]
    pub fn mapped<I: IntoIterator<Item: Into<ObjectKey>>>(map: impl Fn(&K) -> I + Send + Sync + 'static) -> Self {
        RelationOptions::over(to_keys(map), whole_objects())
    }
}

impl Watches<PartialObjectMetadata> {
    /// Like [`mapped`](Watches::mapped), but watches and caches only the metadata.
    #[doc(alias = "WatchesMetadata")]
    pub fn metadata<K: Kind>(map: impl Fn(&PartialObjectMetadata) -> Vec<ObjectKey> + Send + Sync + 'static) -> Self {
        RelationOptions::over(to_keys(map), metadata_of::<K>())
    }
}

impl<O: Object> Watches<O, GivenCache<O>> {
    /// The objects of any informer: of another cluster, of a partial type, or of a kind that is
    /// known at run time.
    ///
    /// `resource` is the name of the resource, such as `deployments.apps`, to match tracked writes.
    /// The caller starts informers of another factory than the controller's.
    #[doc(alias = "source.Informer")]
    pub fn informer<I: IntoIterator<Item: Into<ObjectKey>>>(
        resource: impl Into<Str>,
        informer: InformerHandle<O>,
        map: impl Fn(&O) -> I + Send + Sync + 'static,
    ) -> Self {
        RelationOptions::over(to_keys(map), GivenCache { resource: resource.into(), informer })
    }
}

impl<O: Object, M> RelationOptions<O, M, FactoryCache<O>> {
    /// Restricts the cache to objects that match the label selector. All objects by default.
    pub fn labels(mut self, selector: Selector) -> Self {
        self.cache.scope = self.cache.scope.labels(selector);
        self
    }

    /// Restricts the cache to objects that match the field selector. All objects by default.
    pub fn fields(mut self, selector: FieldSelector) -> Self {
        self.cache.scope = self.cache.scope.fields(selector);
        self
    }

    /// Restricts the cache to this namespace, or extends it to
    /// [`AllNamespaces`](kubewright_core::AllNamespaces). The factory's namespaces by default.
    pub fn namespace(mut self, namespace: impl Into<NamespaceScope>) -> Self
    where
        O::Scope: CanBeNamespaced,
    {
        self.cache.scope = self.cache.scope.namespace(namespace);
        self
    }

    /// Restricts the cache to these namespaces. The factory's namespaces by default. Without a name
    /// the cache never syncs.
    pub fn namespaces(mut self, namespaces: impl IntoIterator<Item = impl Into<Str>>) -> Self
    where
        O::Scope: CanBeNamespaced,
    {
        self.cache.scope = self.cache.scope.namespaces(namespaces);
        self
    }
}

impl<O: Object, M, S> RelationOptions<O, M, S> {
    fn over(mapping: M, cache: S) -> Self {
        RelationOptions { mapping, cache, predicate: None, priority: None, is_optional: false }
    }

    /// Lets only events pass that satisfy `predicate`, and deletions. Several predicates must all
    /// be satisfied. All events pass by default.
    #[doc(alias = "WithPredicates")]
    pub fn when(mut self, predicate: Predicate<O>) -> Self {
        self.predicate = Some(match self.predicate.take() {
            Some(before) => before.and(predicate),
            None => predicate,
        });
        self
    }

    /// Priority of the keys that live changes lead to; higher goes first. 0 by default.
    ///
    /// Keys of initial lists and resyncs have the
    /// [start-up priority](crate::Controller::start_up_priority), or this one if it is lower.
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Lets the controller start before the cache has synced. Required by default.
    ///
    /// For a custom resource whose definition may not be installed. The relation is still watched:
    /// it catches up when its list succeeds.
    pub fn optional(mut self) -> Self {
        self.is_optional = true;
        self
    }
}

mod sealed {
    use kubewright_cache::{InformerHandle, SharedInformerFactory};
    use kubewright_core::Str;

    pub trait Sealed<O> {
        /// Name of the resource, and its informer.
        fn informer(self, factory: &SharedInformerFactory) -> (Str, InformerHandle<O>);
    }
}

/// The cache of a relation: [`FactoryCache`] or [`GivenCache`].
pub trait RelationCache<O>: sealed::Sealed<O> {}

impl<O: Object> RelationCache<O> for FactoryCache<O> {}

impl<O: Object> sealed::Sealed<O> for FactoryCache<O> {
    fn informer(self, factory: &SharedInformerFactory) -> (Str, InformerHandle<O>) {
        (self.resource, (self.informer)(factory, self.scope))
    }
}

impl<O: Object> RelationCache<O> for GivenCache<O> {}

impl<O: Object> sealed::Sealed<O> for GivenCache<O> {
    fn informer(self, _: &SharedInformerFactory) -> (Str, InformerHandle<O>) {
        (self.resource, self.informer)
    }
}

/// The watch of objects that the main kind `kind` owns.
pub(super) fn owned<O: Object, S: RelationCache<O>>(
    relation: Owns<O, S>,
    factory: &SharedInformerFactory,
    kind: OwnerKind,
) -> Watch<O> {
    let mapping = owner(kind, relation.mapping.every_owner);
    relation.watch(factory, mapping)
}

/// The watch of objects that a function maps to keys.
pub(super) fn watched<O: Object, S: RelationCache<O>>(
    relation: Watches<O, S>,
    factory: &SharedInformerFactory,
) -> Watch<O> {
    let map = relation.mapping.0.clone();
    relation.watch(factory, Arc::new(move |object, _| Some(map(object?))))
}

impl<O: Object, M, S: RelationCache<O>> RelationOptions<O, M, S> {
    fn watch(self, factory: &SharedInformerFactory, mapping: Mapping<O>) -> Watch<O> {
        let (name, informer) = self.cache.informer(factory);
        Watch {
            name,
            informer,
            predicate: self.predicate,
            mapping,
            priority: self.priority,
            is_optional: self.is_optional,
        }
    }
}

fn to_keys<O, I: IntoIterator<Item: Into<ObjectKey>>>(map: impl Fn(&O) -> I + Send + Sync + 'static) -> ToKeys<O> {
    ToKeys(Arc::new(move |object| map(object).into_iter().map(Into::into).collect()))
}

fn whole_objects<K: Kind>() -> FactoryCache<K> {
    FactoryCache {
        resource: name_of::<K>(),
        scope: InformerScope::default(),
        informer: |factory, scope| factory.informer_with(scope),
    }
}

fn metadata_of<K: Kind>() -> FactoryCache<PartialObjectMetadata> {
    FactoryCache {
        resource: name_of::<K>(),
        scope: InformerScope::default(),
        informer: |factory, scope| {
            // Cluster-scoped objects are in no namespace, so no namespaces apply.
            let scope = if K::RESOURCE.namespaced { scope } else { scope.cluster_wide() };
            factory.metadata(resource_of::<K>(), scope)
        },
    }
}

fn resource_of<K: Kind>() -> GroupVersionResource {
    let kind = &K::RESOURCE.kind;
    GroupVersionResource::from_static(kind.group, kind.version, K::RESOURCE.plural)
}

fn name_of<K: Kind>() -> Str {
    resource_of::<K>().group_resource().to_string().into()
}

impl<K: Kind> Default for Owns<K> {
    fn default() -> Self {
        Owns::new()
    }
}

impl<O, M, S> fmt::Debug for RelationOptions<O, M, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RelationOptions")
            .field("priority", &self.priority)
            .field("is_optional", &self.is_optional)
            .finish_non_exhaustive()
    }
}

impl<O> fmt::Debug for ToKeys<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToKeys").finish_non_exhaustive()
    }
}

impl<O> fmt::Debug for FactoryCache<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FactoryCache").field("resource", &self.resource).finish_non_exhaustive()
    }
}

impl<O> fmt::Debug for GivenCache<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GivenCache").field("resource", &self.resource).finish_non_exhaustive()
    }
}
