//! The watches of a controller: filters of its main kind, owned objects, and other kinds.

use kubewright_core::meta::v1::PartialObjectMetadata;
use kubewright_core::{Kind, Object};

use super::mapping::OwnerKind;
use super::relation::Watch;
use super::relation_options::{Owns, RelationCache, Watches, owned, watched};
use super::{Controller, Predicate, Subject};

impl<T: Object> Controller<T> {
    /// Filters the events of the main kind. All pass by default. Deletions always pass.
    #[doc(alias = "WithPredicates")]
    #[must_use]
    pub fn filter(mut self, predicate: Predicate<T>) -> Self {
        self.main.filter = Some(match self.main.filter.take() {
            Some(before) => before.and(predicate),
            None => predicate,
        });
        self
    }

    /// Lets the controller start before the main kind has synced, for a custom resource whose
    /// definition may not be installed. It catches up when the list succeeds.
    #[must_use]
    pub fn optional_main(mut self) -> Self {
        self.main.is_optional = true;
        self
    }

    /// Watches objects that an object of the main kind controls, by their owner references.
    #[doc(alias = "EnqueueRequestForOwner")]
    #[doc(alias = "Owns")]
    #[must_use]
    pub fn owns<K: Kind>(self) -> Self {
        self.owns_with(Owns::<K>::new())
    }

    /// Like [`owns`](Self::owns), with options: only metadata, a predicate, a selector, namespaces,
    /// an informer, every owner, a priority, optional; in any combination.
    #[must_use]
    pub fn owns_with<K: Object>(self, relation: Owns<K, impl RelationCache<K>>) -> Self {
        let watch = owned(relation, &self.settings.factory, self.owner());
        self.related(watch)
    }

    fn owner(&self) -> OwnerKind {
        OwnerKind { kind: self.main.kind.clone(), is_namespaced: self.main.is_namespaced }
    }
}

impl<T: Subject> Controller<T> {
    /// Filters the events of every watch: of the main kind, and of all related kinds, whether they
    /// are added before or after. All pass by default. Deletions always pass.
    ///
    /// The predicate sees the metadata, which all kinds have. It applies in addition to the
    /// predicates of each watch. Channels, streams and timers are not filtered.
    ///
    /// ```
    /// # use kubewright_api::core::v1::{ConfigMap, Secret};
    /// # use kubewright_apiserver::ApiServer;
    /// # use kubewright_cache::SharedInformerFactory;
    /// # use kubewright_core::Object;
    /// # use kubewright_core::meta::v1::PartialObjectMetadata;
    /// # use kubewright_runtime::{Controller, Predicate};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ApiServer::in_memory().start().await?;
    /// # let factory = SharedInformerFactory::new(&server.client(), Default::default());
    /// let is_ours = |object: &PartialObjectMetadata| object.namespace() != "kube-system";
    /// let controller = Controller::<ConfigMap>::new("copy", &factory)
    ///     .with_event_filter(Predicate::objects(is_ours))
    ///     .owns::<Secret>();
    /// # drop(controller);
    /// # Ok(()) }
    /// ```
    #[doc(alias = "WithEventFilter")]
    #[must_use]
    pub fn with_event_filter(mut self, predicate: Predicate<PartialObjectMetadata>) -> Self {
        self.settings.event_filter = Some(match self.settings.event_filter.take() {
            Some(before) => before.and(predicate),
            None => predicate,
        });
        self
    }

    /// Watches another kind and reconciles the keys that `map` returns; called for the old and the
    /// new state.
    #[doc(alias = "Watches")]
    #[doc(alias = "EnqueueRequestsFromMapFunc")]
    #[must_use]
    pub fn watches<K: Kind>(self, map: impl Fn(&K) -> Vec<T::Key> + Send + Sync + 'static) -> Self {
        self.watches_with(Watches::mapped(map))
    }

    /// Like [`watches`](Self::watches), with options: only metadata, a predicate, a selector,
    /// namespaces, an informer, a priority, optional; in any combination.
    #[doc(alias = "WatchesRawSource")]
    #[must_use]
    pub fn watches_with<K: Object>(self, relation: Watches<K, impl RelationCache<K>>) -> Self {
        let watch = watched(relation, &self.settings.factory);
        self.related(watch)
    }

    fn related<K: Object>(mut self, relation: Watch<K>) -> Self {
        self.settings.relations.push(relation.into());
        self
    }
}
