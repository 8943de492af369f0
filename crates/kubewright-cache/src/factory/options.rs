//! Options of a factory and of its informers.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kubewright_core::{CanBeNamespaced, FieldSelector, GroupVersionResource, NamespaceScope, Object, Selector, Str};
use kubewright_net::observation::Observer;

use crate::informer::{InformerOptions, QueueKind, Recreated};
use crate::list_watch::ListWatch;
use crate::lister_watcher::ListerWatcher;
use crate::metrics::InformerMetrics;
use crate::queue::Transform;
use crate::reflector::{ErrorHandler, ReflectorError, ReflectorOptions};
use crate::store::Indexers;

/// Options of all informers of a factory.
#[derive(Default, Clone)]
#[doc(alias = "NewSharedInformerFactoryWithOptions")]
pub struct FactoryOptions {
    /// Empty means all.
    pub(super) namespaces: Vec<Str>,
    pub(super) label_selector: Selector,
    pub(super) field_selector: FieldSelector,
    pub(super) resync: Option<Duration>,
    pub(super) resync_of: HashMap<TypeId, Duration>,
    pub(super) transform_of: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
    pub(super) indexers_of: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
    pub(super) which_of: HashMap<TypeId, ScopeOptions>,
    pub(super) on_error: Option<ErrorHandler>,
    pub(super) reflector: ReflectorOptions<()>,
    pub(super) queue: QueueKind,
    pub(super) recreated: Recreated,
    pub(super) metrics: Option<InformerMetrics>,
    pub(super) observer: Option<Arc<dyn Observer>>,
}

impl FactoryOptions {
    /// Restricts caches to one namespace.
    /// [`AllNamespaces`](kubewright_core::AllNamespaces) by default.
    #[must_use]
    #[doc(alias = "WithNamespace")]
    pub fn namespace(mut self, namespace: impl Into<NamespaceScope>) -> Self {
        self.namespaces = one_or_all(namespace.into());
        self
    }

    /// Restricts caches to these namespaces, for clients without cluster-wide permissions. With an
    /// empty list, or an empty name in it, caches never sync.
    ///
    /// Each namespace has its own list and watch; all feed one cache. The cache has synced when the
    /// initial lists of all namespaces are complete. After that, a namespace that becomes
    /// unreadable does not block the others.
    #[must_use]
    #[doc(alias = "DefaultNamespaces")]
    pub fn namespaces(mut self, namespaces: impl IntoIterator<Item = impl Into<Str>>) -> Self {
        self.namespaces = named(namespaces);
        self
    }

    /// Restricts caches to objects that match the label selector.
    #[doc(alias = "NewFilteredSharedInformerFactory")]
    #[must_use]
    #[doc(alias = "WithTweakListOptions")]
    #[doc(alias = "DefaultLabelSelector")]
    pub fn labels(mut self, selector: Selector) -> Self {
        self.label_selector = selector;
        self
    }

    /// Restricts caches to objects that match the field selector.
    #[must_use]
    #[doc(alias = "DefaultFieldSelector")]
    pub fn fields(mut self, selector: FieldSelector) -> Self {
        self.field_selector = selector;
        self
    }

    /// Resyncs handlers once per `period`. Off by default.
    #[must_use]
    #[doc(alias = "SyncPeriod")]
    pub fn resync_every(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }

    /// Like [`resync_every`](Self::resync_every), for objects of one type.
    #[must_use]
    #[doc(alias = "WithCustomResyncConfig")]
    pub fn resync_of<T: Object>(mut self, period: Duration) -> Self {
        self.resync_of.insert(TypeId::of::<T>(), period);
        self
    }

    /// Transforms each object of one type once, when it arrives from the server.
    #[must_use]
    #[doc(alias = "WithTransform")]
    pub fn transform_of<T: Object>(mut self, transform: Transform<T>) -> Self {
        self.transform_of.insert(TypeId::of::<T>(), Arc::new(transform));
        self
    }

    /// Adds indices to all informers of one type, besides the index by namespace.
    #[must_use]
    #[doc(alias = "IndexField")]
    pub fn indexers_of<T: Object>(mut self, indexers: Indexers<T>) -> Self {
        self.indexers_of.insert(TypeId::of::<T>(), Arc::new(indexers));
        self
    }

    /// Restricts the caches of one type to a namespace, or extends them to
    /// [`AllNamespaces`](kubewright_core::AllNamespaces), overriding the factory-wide setting.
    #[must_use]
    #[doc(alias = "ByObject")]
    pub fn namespace_of<T: Object>(mut self, namespace: impl Into<NamespaceScope>) -> Self
    where
        T::Scope: CanBeNamespaced,
    {
        self.which_of.entry(TypeId::of::<T>()).or_default().namespaces = Some(one_or_all(namespace.into()));
        self
    }

    /// Restricts the caches of one type to these namespaces, overriding the factory-wide setting.
    /// Without a name they never sync, as with [`namespaces`](Self::namespaces).
    #[must_use]
    #[doc(alias = "ByObject")]
    pub fn namespaces_of<T: Object>(mut self, namespaces: impl IntoIterator<Item = impl Into<Str>>) -> Self
    where
        T::Scope: CanBeNamespaced,
    {
        self.which_of.entry(TypeId::of::<T>()).or_default().namespaces = Some(named(namespaces));
        self
    }

    /// Label selector for the caches of one type, overriding the factory-wide selector.
    #[must_use]
    #[doc(alias = "ByObject")]
    pub fn labels_of<T: Object>(mut self, selector: Selector) -> Self {
        self.which_of.entry(TypeId::of::<T>()).or_default().label_selector = Some(selector);
        self
    }

    /// Field selector for the caches of one type, overriding the factory-wide selector.
    #[must_use]
    #[doc(alias = "ByObject")]
    pub fn fields_of<T: Object>(mut self, selector: FieldSelector) -> Self {
        self.which_of.entry(TypeId::of::<T>()).or_default().field_selector = Some(selector);
        self
    }

    /// Calls `handler` with the errors of all reflectors.
    #[must_use]
    pub fn on_error(mut self, handler: ErrorHandler) -> Self {
        self.on_error = Some(handler);
        self
    }

    /// Options of the reflectors: back-off, page size, timeouts, streaming lists.
    ///
    /// Options of a single reflector (name, resync, transform, expected kind, error handler) do not
    /// exist for the type `()`.
    #[must_use]
    pub fn reflector(mut self, options: ReflectorOptions<()>) -> Self {
        self.reflector = options;
        self
    }

    /// The kind of queue that informers use. In order by default.
    #[must_use]
    pub fn queue(mut self, queue: QueueKind) -> Self {
        self.queue = queue;
        self
    }

    /// How handlers see an object that was deleted and recreated while no watch was open.
    #[must_use]
    pub fn recreated(mut self, recreated: Recreated) -> Self {
        self.recreated = recreated;
        self
    }

    /// Exposes all informers in these metrics.
    #[must_use]
    #[doc(alias = "WithInformerName")]
    pub fn metrics(mut self, metrics: &InformerMetrics) -> Self {
        self.metrics = Some(metrics.clone());
        self
    }

    /// Exposes all informers in these metrics, unless others are set.
    #[must_use]
    pub fn default_metrics(mut self, metrics: &InformerMetrics) -> Self {
        self.metrics.get_or_insert_with(|| metrics.clone());
        self
    }

    /// Reports changes of all caches, and reads of them by reconciles, to this observer. Off by
    /// default.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// The options of an informer of one type.
    pub(super) fn for_informer<T: Object>(
        &self,
        name: &str,
        resource: GroupVersionResource,
        transform: Option<Transform<T>>,
    ) -> InformerOptions<T> {
        let objects = TypeId::of::<T>();
        let of_type = || self.transform_for(objects)?.downcast_ref::<Transform<T>>().cloned();
        let mut reflector = self.reflector.of_another_type().name(name);
        if let Some(transform) = transform.or_else(of_type) {
            reflector = reflector.transform(transform);
        }
        if let Some(handler) = self.on_error.clone() {
            reflector = reflector.on_error(untyped(handler));
        }
        let indexers = self.indexers_of.get(&objects).and_then(|indexers| indexers.downcast_ref::<Indexers<T>>());
        InformerOptions {
            indexers: Indexers::by_namespace().and(indexers.cloned().unwrap_or_default()),
            reflector,
            resync: self.resync_for(objects),
            queue: self.queue,
            recreated: self.recreated,
            metrics: self.metrics_as(name),
            resource: Some(resource),
            observer: None,
        }
    }

    fn transform_for(&self, objects: TypeId) -> Option<&(dyn Any + Send + Sync)> {
        self.transform_of.get(&objects).map(|transform| &**transform)
    }

    fn resync_for(&self, objects: TypeId) -> Option<Duration> {
        self.resync_of.get(&objects).copied().or(self.resync).filter(|period| !period.is_zero())
    }

    fn metrics_as(&self, name: &str) -> Option<(InformerMetrics, String)> {
        self.metrics.as_ref().map(|metrics| (metrics.clone(), name.to_owned()))
    }
}

/// Sorted, deduplicated namespaces.
///
/// An empty list becomes one empty name, which requests reject: it must not select the whole
/// cluster.
fn named(namespaces: impl IntoIterator<Item = impl Into<Str>>) -> Vec<Str> {
    let mut these: Vec<Str> = namespaces.into_iter().map(Into::into).collect();
    these.sort_unstable();
    these.dedup();
    if these.is_empty() { vec![Str::new()] } else { these }
}

/// The list of one namespace; empty for all.
fn one_or_all(scope: NamespaceScope) -> Vec<Str> {
    match scope {
        NamespaceScope::All => Vec::new(),
        NamespaceScope::Named(namespace) => vec![namespace],
    }
}

/// Wraps an error handler in a closure that does not depend on the object type.
fn untyped(handler: ErrorHandler) -> impl Fn(&ReflectorError) + Send + Sync + 'static {
    move |error| handler(error)
}

impl fmt::Debug for FactoryOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FactoryOptions")
            .field("namespaces", &self.namespaces)
            .field("labels", &self.label_selector)
            .field("fields", &self.field_selector)
            .field("resync", &self.resync)
            .finish_non_exhaustive()
    }
}

/// The scope of one informer, where it differs from the factory's.
pub struct InformerScope<T> {
    pub(super) scope: ScopeOptions,
    pub(super) transform: Option<Transform<T>>,
    /// Wraps the lister-watcher of the informer.
    pub(super) wrapper: Option<WrapListWatch<T>>,
}

/// The part of [`InformerScope`] that does not depend on the object type.
#[derive(Default, Clone)]
pub(super) struct ScopeOptions {
    pub(super) namespaces: Option<Vec<Str>>,
    pub(super) label_selector: Option<Selector>,
    pub(super) field_selector: Option<FieldSelector>,
    /// The name of the transform, which is part of the informer's identity; empty if there is none.
    pub(super) transform: Str,
    /// The name of the lister-watcher wrapper, which is part of the informer's identity; empty if
    /// there is none.
    pub(super) wrapper: Str,
}

impl ScopeOptions {
    /// Sets the namespace unless one is set.
    pub(super) fn default_namespace(&mut self, namespace: &Str) {
        self.namespaces.get_or_insert_with(|| vec![namespace.clone()]);
    }
}

/// Wraps a lister-watcher.
pub(super) type WrapListWatch<T> = Box<dyn FnOnce(ListWatch<T>) -> Box<dyn ListerWatcher<T>> + Send>;

impl<T> Default for InformerScope<T> {
    fn default() -> Self {
        InformerScope { scope: ScopeOptions::default(), transform: None, wrapper: None }
    }
}

impl<T> InformerScope<T> {
    /// Restricts the cache to this namespace, or extends it to
    /// [`AllNamespaces`](kubewright_core::AllNamespaces).
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<NamespaceScope>) -> Self
    where
        T: Object<Scope: CanBeNamespaced>,
    {
        self.scope.namespaces = Some(one_or_all(namespace.into()));
        self
    }

    /// Restricts the cache to these namespaces. Without a name it never syncs, as with
    /// [`FactoryOptions::namespaces`].
    #[must_use]
    pub fn namespaces(mut self, namespaces: impl IntoIterator<Item = impl Into<Str>>) -> Self
    where
        T: Object<Scope: CanBeNamespaced>,
    {
        self.scope.namespaces = Some(named(namespaces));
        self
    }

    /// Reads the whole cluster, whatever the namespaces of the factory; for kinds of any scope.
    #[must_use]
    pub fn cluster_wide(mut self) -> Self {
        self.scope.namespaces = Some(Vec::new());
        self
    }

    /// Restricts the cache to objects that match the label selector.
    #[must_use]
    pub fn labels(mut self, selector: Selector) -> Self {
        self.scope.label_selector = Some(selector);
        self
    }

    /// Restricts the cache to objects that match the field selector.
    #[must_use]
    pub fn fields(mut self, selector: FieldSelector) -> Self {
        self.scope.field_selector = Some(selector);
        self
    }

    /// Transforms each object once. Informers whose transforms have the same name are shared.
    #[must_use]
    pub fn transform(mut self, name: impl Into<Str>, transform: Transform<T>) -> Self {
        self.scope.transform = name.into();
        self.transform = Some(transform);
        self
    }

    /// Wraps the lister-watcher, for example to filter objects. Informers whose wrappers have the
    /// same name are shared. Ignored if the informer watches several namespaces.
    #[must_use]
    pub fn wrap<L: ListerWatcher<T>>(
        mut self,
        name: impl Into<Str>,
        between: impl FnOnce(ListWatch<T>) -> L + Send + 'static,
    ) -> Self {
        self.scope.wrapper = name.into();
        self.wrapper = Some(Box::new(|list_watch| Box::new(between(list_watch))));
        self
    }
}

impl<T> fmt::Debug for InformerScope<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scoped").field("namespaces", &self.scope.namespaces).finish_non_exhaustive()
    }
}
