//! The watches of a controller: its main kind, owned objects, other kinds, channels and timers.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use kubewright_cache::InformerHandle;
use kubewright_core::meta::v1::PartialObjectMetadata;
use kubewright_core::{GroupVersionResource, Kind, Object, ObjectKey, Str};
use tokio::sync::mpsc;

use super::relation::{self, Mapping, scoped};
use super::{Controller, ControllerHandle, Predicate};

impl<T: Object> Controller<T> {
    /// Filters the events of the main kind. All pass by default.
    #[doc(alias = "WithEventFilter")]
    #[doc(alias = "WithPredicates")]
    #[must_use]
    pub fn filter(mut self, predicate: Predicate<T>) -> Self {
        self.filter = Some(match self.filter.take() {
            Some(before) => before.and(predicate),
            None => predicate,
        });
        self
    }

    /// Watches objects that an object of the main kind controls, by their owner references.
    #[doc(alias = "EnqueueRequestForOwner")]
    #[doc(alias = "Owns")]
    #[must_use]
    pub fn owns<K: Kind>(self) -> Self {
        self.owns_when(Predicate::<K>::new(|_| true))
    }

    /// Like [`owns`](Self::owns), for events that pass.
    #[must_use]
    pub fn owns_when<K: Kind>(self, predicate: Predicate<K>) -> Self {
        let mapping = relation::owner(self.kind.clone(), self.is_namespaced, false);
        let informer = self.settings.factory.informer::<K>();
        self.related(name_of::<K>(), informer, Some(predicate), mapping)
    }

    /// Watches objects that an object of the main kind owns, as controller or not.
    #[doc(alias = "MatchEveryOwner")]
    #[must_use]
    pub fn owns_with_every_owner<K: Kind>(self) -> Self {
        let mapping = relation::owner(self.kind.clone(), self.is_namespaced, true);
        let informer = self.settings.factory.informer::<K>();
        self.related(name_of::<K>(), informer, None, mapping)
    }

    /// Like [`owns`](Self::owns), but watches and caches only the metadata.
    #[doc(alias = "OnlyMetadata")]
    #[must_use]
    pub fn owns_metadata<K: Kind>(self) -> Self {
        let mapping = relation::owner(self.kind.clone(), self.is_namespaced, false);
        let informer = self.settings.factory.metadata(resource_of::<K>(), scoped(K::RESOURCE.namespaced));
        self.related(name_of::<K>(), informer, None, mapping)
    }

    /// Like [`owns`](Self::owns), with any informer: of a selector, or of a kind that is known at
    /// run time. `name` is that of the resource, such as `deployments.apps`, to match tracked
    /// writes.
    #[must_use]
    pub fn owns_informer<K: Object>(self, name: impl Into<Str>, informer: InformerHandle<K>) -> Self {
        let mapping = relation::owner(self.kind.clone(), self.is_namespaced, false);
        self.related(name.into(), informer, None, mapping)
    }

    /// Watches another kind and reconciles the keys that `map` returns; called for the old and the
    /// new state.
    #[doc(alias = "Watches")]
    #[doc(alias = "EnqueueRequestsFromMapFunc")]
    #[must_use]
    pub fn watches<K: Kind>(self, map: impl Fn(&K) -> Vec<ObjectKey> + Send + Sync + 'static) -> Self {
        self.watches_when(Predicate::<K>::new(|_| true), map)
    }

    /// Like [`watches`](Self::watches), for events that pass.
    #[must_use]
    pub fn watches_when<K: Kind>(
        self,
        predicate: Predicate<K>,
        map: impl Fn(&K) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) -> Self {
        let informer = self.settings.factory.informer::<K>();
        self.watches_informer(name_of::<K>(), informer, predicate, map)
    }

    /// Like [`watches`](Self::watches), but watches and caches only the metadata.
    #[doc(alias = "WatchesMetadata")]
    #[must_use]
    pub fn watches_metadata<K: Kind>(
        self,
        map: impl Fn(&PartialObjectMetadata) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) -> Self {
        let informer = self.settings.factory.metadata(resource_of::<K>(), scoped(K::RESOURCE.namespaced));
        self.watches_informer(name_of::<K>(), informer, Predicate::new(|_| true), map)
    }

    /// Like [`watches`](Self::watches), with any informer.
    #[doc(alias = "WatchesRawSource")]
    #[must_use]
    pub fn watches_informer<K: Object>(
        self,
        name: impl Into<Str>,
        informer: InformerHandle<K>,
        predicate: Predicate<K>,
        map: impl Fn(&K) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) -> Self {
        let mapping: Mapping<K> = Arc::new(move |object, _| Some(map(object?)));
        self.related(name.into(), informer, Some(predicate), mapping)
    }

    /// Lets the controller start without the relation that was added last, or without the main kind
    /// if there is none.
    ///
    /// For a custom resource whose definition may not be installed. The relation is still watched:
    /// it catches up when its list succeeds. Otherwise a kind that cannot be listed keeps the
    /// controller from starting.
    #[must_use]
    pub fn optional(mut self) -> Self {
        match self.settings.relations.last_mut() {
            Some(relation) => relation.is_optional = true,
            None => self.settings.is_main_optional = true,
        }
        self
    }

    fn related<K: Object>(
        mut self,
        name: Str,
        informer: InformerHandle<K>,
        predicate: Option<Predicate<K>>,
        mapping: Mapping<K>,
    ) -> Self {
        self.settings.relations.push(relation::watch(name, informer, predicate, mapping));
        self
    }

    /// Reconciles keys from a channel. Its bound applies backpressure to senders.
    #[doc(alias = "Channel")]
    #[must_use]
    pub fn channel(self, name: impl Into<Str>, mut keys: mpsc::Receiver<ObjectKey>) -> Self {
        let name = name.into();
        let source = name.clone();
        self.feed(name, move |handle| async move {
            while let Some(key) = keys.recv().await {
                handle.request(key, source.clone());
            }
        })
    }

    /// Reconciles all objects of the main kind once per `period`, if they pass the filter as listed
    /// objects.
    ///
    /// The keys are spread over the period with jitter, and added at low priority. A period of zero
    /// makes the start fail.
    #[must_use]
    pub fn every(mut self, period: Duration) -> Self {
        self.settings.periods.push(period);
        self
    }

    /// Runs a task next to the workers that may request reconciles. Dropped when the controller
    /// stops.
    #[doc(alias = "source.Func")]
    #[must_use]
    pub fn feed<F: Future<Output = ()> + Send + 'static>(
        mut self,
        name: impl Into<Str>,
        task: impl FnOnce(ControllerHandle) -> F + Send + 'static,
    ) -> Self {
        self.settings.feeds.push((name.into(), Box::new(|handle| Box::pin(task(handle)))));
        self
    }
}

fn resource_of<K: Kind>() -> GroupVersionResource {
    let kind = &K::RESOURCE.kind;
    GroupVersionResource::from_static(kind.group, kind.version, K::RESOURCE.plural)
}

fn name_of<K: Kind>() -> Str {
    resource_of::<K>().group_resource().to_string().into()
}
