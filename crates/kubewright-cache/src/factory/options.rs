//! What can be chosen about a factory and about one of its informers.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kubewright_core::{FieldSelector, GroupVersionResource, Object, Selector, Str};

use crate::informer::{InformerOptions, QueueKind, Recreated};
use crate::list_watch::ListWatch;
use crate::lister_watcher::ListerWatcher;
use crate::metrics::Metrics;
use crate::queue::Transform;
use crate::reflector::{ErrorHandler, ReflectorError, ReflectorOptions};
use crate::store::Indexers;

/// Choices about all informers of a factory.
#[derive(Default, Clone)]
#[doc(alias = "NewSharedInformerFactoryWithOptions")]
pub struct FactoryOptions {
    pub(super) namespaces: Vec<Str>,
    pub(super) label_selector: Selector,
    pub(super) field_selector: FieldSelector,
    pub(super) resync: Option<Duration>,
    pub(super) resync_of: HashMap<TypeId, Duration>,
    pub(super) transform_of: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
    pub(super) indexers_of: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
    pub(super) which_of: HashMap<TypeId, Which>,
    pub(super) on_error: Option<ErrorHandler>,
    pub(super) reflector: ReflectorOptions<()>,
    pub(super) queue: QueueKind,
    pub(super) recreated: Recreated,
    pub(super) metrics: Option<Metrics>,
}

impl FactoryOptions {
    /// Only objects of this namespace. All by default.
    #[must_use]
    #[doc(alias = "WithNamespace")]
    pub fn namespace(self, namespace: impl Into<Str>) -> Self {
        self.namespaces([namespace])
    }

    /// Only objects of these namespaces, for who may not look into all. None, or an empty one among them, stands for all.
    ///
    /// Each is listed and watched on its own, into one cache, which has synced when it has the objects of all. After that, one that
    /// cannot be read any more does not hold up the others.
    #[must_use]
    #[doc(alias = "DefaultNamespaces")]
    pub fn namespaces(mut self, namespaces: impl IntoIterator<Item = impl Into<Str>>) -> Self {
        self.namespaces = these(namespaces);
        self
    }

    /// Only objects with such labels.
    #[doc(alias = "NewFilteredSharedInformerFactory")]
    #[must_use]
    #[doc(alias = "WithTweakListOptions")]
    #[doc(alias = "DefaultLabelSelector")]
    #[inline]
    pub fn labels(mut self, selector: Selector) -> Self {
        self.label_selector = selector;
        self
    }

    /// Only objects with such fields.
    #[must_use]
    #[doc(alias = "DefaultFieldSelector")]
    #[inline]
    pub fn fields(mut self, selector: FieldSelector) -> Self {
        self.field_selector = selector;
        self
    }

    /// Reminds handlers of all objects once each `period`. Off by default.
    #[must_use]
    #[doc(alias = "SyncPeriod")]
    pub fn resync_every(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }

    /// The same for objects of one type.
    #[must_use]
    #[doc(alias = "WithCustomResyncConfig")]
    pub fn resync_of<T: Object>(mut self, period: Duration) -> Self {
        self.resync_of.insert(TypeId::of::<T>(), period);
        self
    }

    /// Changes each object of one type once, as it comes from the server.
    #[must_use]
    #[doc(alias = "WithTransform")]
    pub fn transform_of<T: Object>(mut self, transform: Transform<T>) -> Self {
        self.transform_of.insert(TypeId::of::<T>(), Arc::new(transform));
        self
    }

    /// Gives all informers of one type these indices besides the one by namespace.
    #[must_use]
    #[doc(alias = "IndexField")]
    pub fn indexers_of<T: Object>(mut self, indexers: Indexers<T>) -> Self {
        self.indexers_of.insert(TypeId::of::<T>(), Arc::new(indexers));
        self
    }

    /// Of one type only the objects of this namespace; the empty one stands for all.
    #[must_use]
    #[doc(alias = "ByObject")]
    pub fn namespace_of<T: Object>(self, namespace: impl Into<Str>) -> Self {
        self.namespaces_of::<T>([namespace])
    }

    /// Of one type only the objects of these namespaces, in place of what is said for all; none stands for all.
    #[must_use]
    #[doc(alias = "ByObject")]
    pub fn namespaces_of<T: Object>(mut self, namespaces: impl IntoIterator<Item = impl Into<Str>>) -> Self {
        self.which_of.entry(TypeId::of::<T>()).or_default().namespaces = Some(these(namespaces));
        self
    }

    /// Of one type only objects with such labels, in place of what is said for all.
    #[must_use]
    #[doc(alias = "ByObject")]
    pub fn labels_of<T: Object>(mut self, selector: Selector) -> Self {
        self.which_of.entry(TypeId::of::<T>()).or_default().label_selector = Some(selector);
        self
    }

    /// Of one type only objects with such fields, in place of what is said for all.
    #[must_use]
    #[doc(alias = "ByObject")]
    pub fn fields_of<T: Object>(mut self, selector: FieldSelector) -> Self {
        self.which_of.entry(TypeId::of::<T>()).or_default().field_selector = Some(selector);
        self
    }

    /// Tells of what goes wrong in any reflector.
    #[must_use]
    #[inline]
    pub fn on_error(mut self, handler: ErrorHandler) -> Self {
        self.on_error = Some(handler);
        self
    }

    /// How reflectors work: back-off, page size, duration of watches, patience, streaming lists.
    ///
    /// Options about one reflector (name, resync, transform, expected kind, error handler) do not
    /// exist for the type `()`.
    #[must_use]
    #[inline]
    pub fn reflector(mut self, options: ReflectorOptions<()>) -> Self {
        self.reflector = options;
        self
    }

    /// Which queue informers use. In order by default.
    #[must_use]
    pub fn queue(mut self, queue: QueueKind) -> Self {
        self.queue = queue;
        self
    }

    /// What handlers are told of objects that were deleted and created anew unseen.
    #[must_use]
    pub fn recreated(mut self, recreated: Recreated) -> Self {
        self.recreated = recreated;
        self
    }

    /// Shows all informers in these metrics.
    #[must_use]
    #[doc(alias = "WithInformerName")]
    #[inline]
    pub fn metrics(mut self, metrics: &Metrics) -> Self {
        self.metrics = Some(metrics.clone());
        self
    }

    /// Shows all informers in these metrics unless they are shown in others.
    #[must_use]
    pub fn default_metrics(mut self, metrics: &Metrics) -> Self {
        self.metrics.get_or_insert_with(|| metrics.clone());
        self
    }

    /// The options of an informer for objects of one type.
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
            reflector = reflector.on_error(calling(handler));
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
        }
    }

    fn transform_for(&self, objects: TypeId) -> Option<&(dyn Any + Send + Sync)> {
        self.transform_of.get(&objects).map(|transform| &**transform)
    }

    fn resync_for(&self, objects: TypeId) -> Option<Duration> {
        self.resync_of.get(&objects).copied().or(self.resync).filter(|period| !period.is_zero())
    }

    fn metrics_as(&self, name: &str) -> Option<(Metrics, String)> {
        self.metrics.as_ref().map(|metrics| (metrics.clone(), name.to_owned()))
    }
}

/// Namespaces, each once and in order; none for all.
fn these(namespaces: impl IntoIterator<Item = impl Into<Str>>) -> Vec<Str> {
    let mut these: Vec<Str> = namespaces.into_iter().map(Into::into).collect();
    these.sort_unstable();
    these.dedup();
    if these.first().is_some_and(|first| first.is_empty()) { Vec::new() } else { these }
}

/// A handler of errors, in a function that does not depend on a type.
fn calling(handler: ErrorHandler) -> impl Fn(&ReflectorError) + Send + Sync + 'static {
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

/// Which objects one informer is about, where that differs from what the factory says.
pub struct Scoped<T> {
    pub(super) which: Which,
    pub(super) transform: Option<Transform<T>>,
    /// What stands between the client and the informer.
    pub(super) through: Option<Through<T>>,
}

/// The same as far as it does not depend on the type of the objects.
#[derive(Default, Clone)]
pub(super) struct Which {
    pub(super) namespaces: Option<Vec<Str>>,
    pub(super) label_selector: Option<Selector>,
    pub(super) field_selector: Option<FieldSelector>,
    /// The name of the transform, by which two are told apart; empty if there is none.
    pub(super) transform: Str,
    /// The same of what stands between.
    pub(super) through: Str,
}

impl Which {
    /// In this namespace unless another is given.
    pub(super) fn default_namespace(&mut self, namespace: &Str) {
        self.namespaces.get_or_insert_with(|| these([namespace.clone()]));
    }
}

/// Puts something between a client and an informer.
pub(super) type Through<T> = Box<dyn FnOnce(ListWatch<T>) -> Box<dyn ListerWatcher<T>> + Send>;

impl<T> Default for Scoped<T> {
    fn default() -> Self {
        Scoped { which: Which::default(), transform: None, through: None }
    }
}

impl<T> Scoped<T> {
    /// Only objects of this namespace.
    #[must_use]
    pub fn namespace(self, namespace: impl Into<Str>) -> Self {
        self.namespaces([namespace])
    }

    /// Only objects of these namespaces; none, or an empty one among them, stands for all.
    #[must_use]
    pub fn namespaces(mut self, namespaces: impl IntoIterator<Item = impl Into<Str>>) -> Self {
        self.which.namespaces = Some(these(namespaces));
        self
    }

    /// Only objects with such labels.
    #[must_use]
    #[inline]
    pub fn labels(mut self, selector: Selector) -> Self {
        self.which.label_selector = Some(selector);
        self
    }

    /// Only objects with such fields.
    #[must_use]
    #[inline]
    pub fn fields(mut self, selector: FieldSelector) -> Self {
        self.which.field_selector = Some(selector);
        self
    }

    /// Changes each object once; informers whose transforms have the same name are one.
    #[must_use]
    pub fn transform(mut self, name: impl Into<Str>, transform: Transform<T>) -> Self {
        self.which.transform = name.into();
        self.transform = Some(transform);
        self
    }

    /// Puts something between the client and the informer, which lists and watches through it. Informers with something of
    /// the same name between are one. Not where each of several namespaces is watched on its own: there nothing is between.
    #[must_use]
    pub fn through<L: ListerWatcher<T>>(
        mut self,
        name: impl Into<Str>,
        between: impl FnOnce(ListWatch<T>) -> L + Send + 'static,
    ) -> Self {
        self.which.through = name.into();
        self.through = Some(Box::new(|list_watch| Box::new(between(list_watch))));
        self
    }
}

impl<T> fmt::Debug for Scoped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scoped").field("namespaces", &self.which.namespaces).finish_non_exhaustive()
    }
}
