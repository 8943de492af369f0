//! Reads and writes of a reconciler, with tracking of its writes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kubewright_cache::{InformerHandle, NamespaceLister};
use kubewright_client::{Api, DeleteResponse, Error, HasStatus, Result, Scope};
use kubewright_core::options::{ApplyOptions, DeleteOptions, ListOptions, Patch};
use kubewright_core::{
    CanBeClusterScoped, CanBeNamespaced, DynamicObject, Kind, NamespaceScope, Object, ObjectKey, ResourceVersion,
    Selector, Str, Value,
};
use tokio::time::{Instant, sleep};

use crate::controller::{Context, Relation};
use crate::own_writes::{CacheLimits, Coverage};
use crate::own_writes::{ExpectedEffect, OwnWrite};

/// How long a read waits for the cache to show a write.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Poll interval of a waiting read.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// The required freshness of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Freshness {
    /// The cached state.
    #[default]
    Cached,
    /// The cached state, including this key's writes to the object. Waits up to 5 s.
    AtLeastMyWrites,
    /// From the server.
    #[doc(alias = "GetAPIReader")]
    Live,
}

/// The cache did not show a write in time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the cache does not show the last write to {object} after {waited:?}")]
pub struct StaleCache {
    /// The object.
    pub object: ObjectKey,
    /// How long the read waited.
    pub waited: Duration,
}

/// The objects of one resource, for a reconciler.
///
/// Writes are those of [`Api`], and tracked: the next reconcile of the key waits until the cache
/// shows them. Writes to kinds and namespaces that the controller does not watch are not waited
/// for.
pub struct OwnApi<K> {
    api: Api<K>,
    context: Context,
    relation: Option<usize>,
}

impl Context {
    /// The objects of a kind in a namespace, or in
    /// [`AllNamespaces`](kubewright_core::AllNamespaces), with tracked writes: the next reconcile
    /// of this key waits until the cache shows them.
    pub fn api<K: Kind>(&self, namespace: impl Into<NamespaceScope>) -> OwnApi<K>
    where
        K::Scope: CanBeNamespaced,
    {
        self.own(self.client().api(namespace))
    }

    /// Like [`api`](Self::api), for cluster-scoped kinds.
    pub fn cluster_api<K: Kind>(&self) -> OwnApi<K>
    where
        K::Scope: CanBeClusterScoped,
    {
        self.own(self.client().cluster_api())
    }

    /// Like [`api`](Self::api), over any `api`, also of another cluster.
    ///
    /// Reads come from the caches of that cluster, and its writes are awaited in them, if the
    /// controller watches an informer whose client is a clone of the client of `api`. Other reads
    /// go to the server.
    pub fn own<K: Object>(&self, api: Api<K>) -> OwnApi<K> {
        OwnApi::new(api, self.clone())
    }
}

impl<K: Object> OwnApi<K> {
    pub(crate) fn new(api: Api<K>, context: Context) -> Self {
        let relations = context.shared().relations();
        let name = api.resource().group_resource().to_string();
        let namespace = namespace_of(&api);
        // A controller may watch the same kind in two clusters.
        let holds = |relation: &Arc<dyn Relation>| relation.is_of(api.client()) && relation.covers(&namespace);
        let is_of_type =
            |relation: &Arc<dyn Relation>| holds(relation) && relation.informer().is::<InformerHandle<K>>();
        let is_named = |relation: &Arc<dyn Relation>| holds(relation) && relation.health(false).name == name.as_str();
        let is_whole = |relation: &Arc<dyn Relation>| relation.cut().is_whole();
        let is_exact = |relation: &Arc<dyn Relation>| is_of_type(relation) && is_named(relation);
        // Prefers a relation with complete objects of the whole resource, then one with a part of
        // them, then one with metadata. Dynamic objects of different kinds share a type, so the
        // type alone decides only if no relation has the name.
        let relation = relations
            .iter()
            .position(|relation| is_exact(relation) && is_whole(relation))
            .or_else(|| relations.iter().position(is_exact))
            .or_else(|| relations.iter().position(is_named))
            .or_else(|| relations.iter().position(is_of_type).filter(|_| !is_dynamic::<K>()))
            // A cache would answer for a namespace without a name; the server's client rejects it.
            .filter(|_| !matches!(api.scope(), Scope::Namespace(name) if name.is_empty()));
        OwnApi { api, context, relation }
    }

    /// The API without tracking of writes.
    pub fn untracked(&self) -> &Api<K> {
        &self.api
    }

    /// The object of this name; `None` if it does not exist.
    ///
    /// Objects outside of the controller's caches are read from the server: types that it does not
    /// watch, other namespaces, and objects excluded by a selector or by sharding. So are types
    /// whose cache has not synced, and objects that the cache could not decode. With
    /// [`AtLeastMyWrites`](Freshness::AtLeastMyWrites) this also applies to a cache that no longer
    /// follows the server.
    ///
    /// # Errors
    /// If the request fails, or the cache is stale.
    pub async fn get(&self, name: &str, freshness: Freshness) -> Result<Option<Arc<K>>, crate::BoxError> {
        if let Some(informer) = self.informer(freshness) {
            let key = ObjectKey::namespaced(self.namespace(), name);
            if freshness == Freshness::AtLeastMyWrites {
                self.seen(&informer, &key).await?;
            }
            let snapshot = informer.store().snapshot();
            let found = snapshot.get_by_key(&key).cloned();
            if !snapshot.is_undecodable(&key) && (found.is_some() || has_every_object(&informer)) {
                return Ok(found);
            }
        }
        Ok(self.api.get_opt(name).await?.map(Arc::new))
    }

    /// The matching objects of the namespace, sorted by name.
    ///
    /// Reads from the server under the same conditions as [`get`](Self::get). A cache with a label
    /// selector is read only if `selector` has the same requirements. With
    /// [`AtLeastMyWrites`](Freshness::AtLeastMyWrites) the result includes everything that this key
    /// has written of the type.
    ///
    /// # Errors
    /// If the request fails, or the cache is stale.
    #[doc(alias = "MatchingLabels")]
    #[doc(alias = "InNamespace")]
    pub async fn list(&self, selector: &Selector, freshness: Freshness) -> Result<Vec<Arc<K>>, crate::BoxError> {
        let informer = self.informer(freshness);
        let has_all =
            |informer: &InformerHandle<K>| CacheLimits::of(informer).has_all_of(selector) && self.decodes_all(informer);
        let Some(informer) = informer.filter(has_all) else {
            return self.list_live(&ListOptions::default().labels(selector.clone())).await;
        };
        if freshness == Freshness::AtLeastMyWrites {
            self.shows_own_writes(&informer).await?;
        }
        let lister = informer.lister();
        let mut objects = match self.api.scope() {
            Scope::Namespace(namespace) => NamespaceLister::new(lister, namespace.clone()).list(selector),
            _ => lister.list(selector),
        };
        objects.sort_by_key(|object| object.key());
        Ok(objects)
    }

    /// The objects with this value in an index of the cache, sorted by name, with the freshness of
    /// [`list`](Self::list); restricted to the namespace, if there is one.
    ///
    /// If the cache does not hold all of them, they are listed from the server, and the index
    /// function is called for each.
    ///
    /// # Errors
    /// If no cache of the controller has such an index, the request fails, or the cache is stale.
    #[doc(alias = "MatchingFields")]
    pub async fn by_index(
        &self,
        index: &str,
        value: &str,
        freshness: Freshness,
    ) -> Result<Vec<Arc<K>>, crate::BoxError> {
        let has_all = |informer: &InformerHandle<K>| CacheLimits::of(informer).is_whole() && self.decodes_all(informer);
        let informer = self.informer(freshness).filter(has_all);
        let Some(informer) = informer else { return self.by_index_live(index, value).await };
        if freshness == Freshness::AtLeastMyWrites {
            self.shows_own_writes(&informer).await?;
        }
        let mut objects = informer.store().by_index(index, value)?;
        if let Scope::Namespace(namespace) = self.api.scope() {
            objects.retain(|object| object.namespace() == namespace.as_str());
        }
        objects.sort_by_key(|object| object.key());
        Ok(objects)
    }

    async fn by_index_live(&self, index: &str, value: &str) -> Result<Vec<Arc<K>>, crate::BoxError> {
        let resource = self.api.resource().group_resource();
        let relations = self.context.shared().relations();
        let named = relations.iter().filter(|relation| relation.health(false).name == resource.to_string().as_str());
        let informer = named.filter_map(|relation| relation.informer().downcast_ref::<InformerHandle<K>>()).next();
        let snapshot = informer.map(|informer| informer.store().snapshot());
        let Some(snapshot) = snapshot else {
            return Err(format!("no cache of {resource} has an index {index}").into());
        };
        let mut selected = Vec::new();
        for object in self.list_live(&ListOptions::default()).await? {
            if snapshot.values(index, &object)?.iter().any(|other| *other == *value) {
                selected.push(object);
            }
        }
        Ok(selected)
    }

    /// Lists from the server: the namespace, or all namespaces of the controller's cache.
    async fn list_live(&self, options: &ListOptions) -> Result<Vec<Arc<K>>, crate::BoxError> {
        let relations = self.context.shared().relations();
        let informer = self.relation.and_then(|relation| relations.get(relation)?.informer().downcast_ref());
        let namespaces = informer.map(|informer: &InformerHandle<K>| informer.namespaces().to_vec());
        let namespaces = namespaces.filter(|_| self.namespace().is_empty()).unwrap_or_default();
        let mut objects: Vec<Arc<K>> = Vec::new();
        if namespaces.is_empty() {
            objects.extend(self.api.list(options).await?.into_iter().map(Arc::new));
        }
        for namespace in namespaces {
            let api = self.api.clone().with_scope(Scope::Namespace(namespace));
            objects.extend(api.list(options).await?.into_iter().map(Arc::new));
        }
        objects.sort_by_key(|object| object.key());
        Ok(objects)
    }

    /// The synced cache of complete objects to read with this freshness, if there is one.
    fn informer(&self, freshness: Freshness) -> Option<InformerHandle<K>> {
        if freshness == Freshness::Live {
            return None;
        }
        let relations = self.context.shared().relations();
        let relation = relations.get(self.relation?)?;
        if freshness == Freshness::AtLeastMyWrites && relation.is_adrift() {
            return None;
        }
        let informer = relation.informer().downcast_ref::<InformerHandle<K>>()?;
        informer.has_synced().then(|| informer.clone())
    }

    /// Whether the cache could decode all objects of the namespace. Otherwise a list of it would be
    /// incomplete.
    fn decodes_all(&self, informer: &InformerHandle<K>) -> bool {
        let namespace = self.namespace();
        let snapshot = informer.store().snapshot();
        !snapshot.undecodable_keys().any(|key| namespace.is_empty() || key.namespace() == namespace.as_str())
    }

    async fn shows_own_writes(&self, informer: &InformerHandle<K>) -> Result<(), StaleCache> {
        for write in self.own_writes() {
            self.shows(informer, &write).await?;
        }
        Ok(())
    }

    fn own_writes(&self) -> Vec<OwnWrite> {
        let mut writes = self.context.shared().writes.writes_of(self.context.key());
        writes.retain(|write| Some(write.relation) == self.relation);
        writes
    }

    async fn seen(&self, informer: &InformerHandle<K>, key: &ObjectKey) -> Result<(), StaleCache> {
        for write in self.own_writes().iter().filter(|write| write.object == *key) {
            self.shows(informer, write).await?;
        }
        Ok(())
    }

    /// Waits until the cache shows a write.
    async fn shows(&self, informer: &InformerHandle<K>, write: &OwnWrite) -> Result<(), StaleCache> {
        let (key, began) = (&write.object, Instant::now());
        loop {
            let snapshot = informer.store().snapshot();
            let version = snapshot.resource_version_of(key.namespace());
            if write.is_in(snapshot.get_by_key(key).map(|object| &**object), version) {
                return Ok(());
            }
            if began.elapsed() >= READ_TIMEOUT {
                return Err(StaleCache { object: key.clone(), waited: began.elapsed() });
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Creates an object. See [`Api::create`].
    pub async fn create(&self, object: &K) -> Result<K> {
        self.wrote(self.api.create(object).await)
    }

    /// Replaces an object. See [`Api::update`].
    pub async fn update(&self, object: &K) -> Result<K> {
        self.wrote(self.api.update(object).await)
    }

    /// Patches an object. See [`Api::patch`].
    pub async fn patch(&self, name: &str, patch: Patch) -> Result<K> {
        self.wrote(self.api.patch(name, patch).await)
    }

    /// Applies a configuration. See [`Api::apply`].
    pub async fn apply(&self, object: &K, options: &ApplyOptions) -> Result<K> {
        self.wrote(self.api.apply(object, options).await)
    }

    /// Deletes an object. See [`Api::delete`].
    pub async fn delete(&self, name: &str) -> Result<DeleteResponse<K>> {
        self.delete_with(name, &DeleteOptions::default()).await
    }

    /// Deletes an object with options. See [`Api::delete_with`].
    pub async fn delete_with(&self, name: &str, options: &DeleteOptions) -> Result<DeleteResponse<K>> {
        let deleted = self.api.delete_with(name, options).await?;
        if options.dry_run {
            return Ok(deleted);
        }
        let effect = match &deleted {
            DeleteResponse::Object(object) if deleted.is_pending() => {
                ExpectedEffect::Version(object.resource_version().into())
            }
            deleted => ExpectedEffect::Gone(deleted.uid().unwrap_or_default().into()),
        };
        self.note(ObjectKey::namespaced(self.namespace(), name), effect, None);
        Ok(deleted)
    }

    /// Records a write to the object of this name that was made in another way: through its scale
    /// or another subresource, or
    /// [`untracked`](Self::untracked). `version` is the version of the object in the response.
    pub fn record(&self, name: &str, version: impl Into<ResourceVersion>) {
        self.note(ObjectKey::namespaced(self.namespace(), name), ExpectedEffect::Version(version.into()), None);
    }

    pub(super) fn namespace(&self) -> Str {
        namespace_of(&self.api)
    }

    pub(super) fn wrote(&self, result: Result<K>) -> Result<K, Error> {
        if let Ok(object) = &result {
            let effect = if is_gone(object) {
                ExpectedEffect::Gone(object.uid().into())
            } else {
                ExpectedEffect::Version(object.resource_version().into())
            };
            self.note(object.key(), effect, Some(object));
        }
        result
    }

    /// Records a write; `state` is the written object, if known.
    fn note(&self, object: ObjectKey, effect: ExpectedEffect, state: Option<&K>) {
        let relations = self.context.shared().relations();
        let Some(number) = self.relation else { return };
        let Some(relation) = relations.get(number).filter(|relation| relation.covers(object.namespace())) else {
            return;
        };
        let cut = relation.cut();
        let kept = match state {
            Some(state) => cut.keeps(state),
            None if cut.is_whole() => Coverage::Yes,
            None => Coverage::Unknown,
        };
        let write = OwnWrite { relation: number, object, effect, kept, at: Instant::now() };
        self.context.shared().writes.note(self.context.key(), write);
    }
}

/// Whether an object that is not in the cache does not exist, as far as the cache knows.
fn has_every_object<K: Object>(informer: &InformerHandle<K>) -> bool {
    let has_skipped = informer.health().is_some_and(|health| health.skipped > 0);
    CacheLimits::of(informer).is_whole() && !has_skipped
}

fn is_dynamic<K: Object>() -> bool {
    std::any::TypeId::of::<K>() == std::any::TypeId::of::<DynamicObject>()
}

impl<K: HasStatus> OwnApi<K> {
    /// Replaces the status of an object. See [`Api::update_status`].
    pub async fn update_status(&self, object: &K) -> Result<K> {
        self.wrote(self.api.update_status(object).await)
    }

    /// Patches the status of an object. See [`Api::patch_status`].
    pub async fn patch_status(&self, name: &str, patch: Patch) -> Result<K> {
        self.wrote(self.api.patch_status(name, patch).await)
    }

    /// Applies a configuration of the status. See [`Api::apply_status`].
    pub async fn apply_status(&self, object: &K, options: &ApplyOptions) -> Result<K> {
        self.wrote(self.api.apply_status(object, options).await)
    }
}

/// Whether the write deleted its object, by removing the last finalizer.
///
/// The server then returns the object at a version that the cache may have shown already.
fn is_gone(object: &impl Object) -> bool {
    // Almost no write is of such an object, so this need not be fast. An object with a grace period
    // is deleted later.
    object.is_being_deleted()
        && object.finalizers().is_empty()
        && Value::from_json(&object.to_json()).is_ok_and(|tree| {
            let grace = tree.get("metadata").and_then(|metadata| metadata.get("deletionGracePeriodSeconds"));
            grace.and_then(Value::as_i64).unwrap_or_default() == 0
        })
}

/// The namespace of an API; empty for all namespaces and for cluster scope.
fn namespace_of<K>(api: &Api<K>) -> Str {
    match api.scope() {
        Scope::Namespace(namespace) => namespace.clone(),
        _ => Str::new(),
    }
}

impl<K> fmt::Debug for OwnApi<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnApi").field("api", &self.api).finish_non_exhaustive()
    }
}
