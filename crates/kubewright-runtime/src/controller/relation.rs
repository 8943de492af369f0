//! A watched kind, whose events lead to reconciles of the keys that its mapping names.
//!
//! A controller starts when all its required relations have synced.

use std::any::Any;
use std::sync::Arc;

use kubewright_cache::{
    BoxFuture, Event, HandlerRegistration, Health, HealthState, InformerHandle, InformerScope, InformerStopped,
    Unsynced,
};
use kubewright_client::Client;
use kubewright_core::{Object, ObjectKey, Str};

use super::health::RelationHealth;
use super::mapping::Mapping;
use super::predicate::{EventFilter, Predicate};
use super::reason::{Reason, ReasonKind};
use super::shared::SharedController;
use crate::own_writes::{CacheLimits, OwnWrite};
use crate::sharding::{Permission, Sharding};
use crate::unwind::caught;

/// All keys of the main kind that pass its filter, for events that affect all.
pub(crate) type AllKeys = Arc<dyn Fn() -> Vec<ObjectKey> + Send + Sync>;

/// An attached watch, type-erased.
pub(crate) trait Relation: Send + Sync {
    fn health(&self, is_main: bool) -> RelationHealth;
    fn has_synced(&self) -> bool;
    /// Resolves when the handler has received the initial list; false if the informer stopped
    /// before.
    fn synced(&self) -> BoxFuture<'_, bool>;
    /// Whether the controller starts without it.
    fn is_optional(&self) -> bool;
    /// Whether its reflector has failed since its last success.
    fn is_failing(&self) -> bool;
    fn lag(&self) -> usize;
    /// Whether the cache shows a write.
    fn has_seen(&self, write: &OwnWrite) -> bool;
    /// Whether the cache proves that the written object was deleted without an event.
    fn has_lost(&self, write: &OwnWrite) -> bool;
    /// This replica's permission to reconcile the object of this key.
    fn right(&self, sharding: &Sharding, key: &ObjectKey) -> Permission;
    /// Whether it watches only this replica's shards.
    fn is_share(&self, sharding: &Sharding) -> bool;
    /// The limits of its cache.
    fn cut(&self) -> CacheLimits;
    /// Whether its cache does not follow the server: the resource does not exist, or the reflector
    /// has stopped.
    fn is_adrift(&self) -> bool;
    /// Whether the cache could not decode the newest state of the object of this key.
    fn is_undecodable(&self, key: &ObjectKey) -> bool;
    /// Whether it covers this namespace; the empty name means all namespaces, or cluster
    /// scope.
    fn covers(&self, namespace: &str) -> bool;
    /// Whether its objects are those of the server that `client` talks to, as far as is known.
    fn is_of(&self, client: &Client) -> bool;
    /// The informer, for a downcast.
    fn informer(&self) -> &dyn Any;
    fn detach(&self);
}

/// The cache of a relation, known before it is attached.
pub(crate) trait CacheSource: Send + Sync {
    fn name(&self) -> &Str;
    fn has_synced(&self) -> bool;
    /// Resolves when the cache has synced; false if the informer stopped before.
    fn synced(&self) -> BoxFuture<'_, bool>;
    fn health(&self) -> Option<Health>;
}

/// A watch of one kind before it is attached.
pub(super) struct Watch<K> {
    /// The name of the resource.
    pub(super) name: Str,
    pub(super) informer: InformerHandle<K>,
    pub(super) predicate: Option<Predicate<K>>,
    pub(super) mapping: Mapping<K>,
    /// The priority of keys of live changes.
    pub(super) priority: Option<i32>,
    pub(super) is_optional: bool,
}

/// A [`Watch`], type-erased.
pub(crate) struct WatchSpec {
    pub(super) source: Arc<dyn CacheSource>,
    pub(super) is_optional: bool,
    /// The keys that its cached objects lead to, as listed objects. Taken once.
    pub(super) listed: Option<ListedKeys>,
    attach: Attach,
}

/// The keys of the objects in a cache that pass their predicate and this filter.
pub(super) type ListedKeys = Box<dyn Fn(Option<&EventFilter>) -> Vec<ObjectKey> + Send + Sync>;

type Attach = Box<dyn FnOnce(&Arc<SharedController>, AllKeys) -> Result<Arc<dyn Relation>, InformerStopped> + Send>;

impl WatchSpec {
    /// Adds the handler to the informer.
    ///
    /// # Errors
    /// If the informer has stopped.
    pub(super) fn attach(
        self,
        shared: &Arc<SharedController>,
        all_keys: AllKeys,
    ) -> Result<Arc<dyn Relation>, InformerStopped> {
        (self.attach)(shared, all_keys)
    }
}

/// An informer with the name of its resource.
pub(crate) struct NamedInformer<K> {
    pub(crate) name: Str,
    pub(crate) informer: InformerHandle<K>,
}

impl<K: Object> CacheSource for NamedInformer<K> {
    fn name(&self) -> &Str {
        &self.name
    }

    fn has_synced(&self) -> bool {
        self.informer.has_synced()
    }

    fn synced(&self) -> BoxFuture<'_, bool> {
        Box::pin(self.informer.synced())
    }

    fn health(&self) -> Option<Health> {
        self.informer.health()
    }
}

/// The sources that have not synced, each with its last failure.
pub(crate) fn unsynced<'a>(sources: impl IntoIterator<Item = &'a Arc<dyn CacheSource>>) -> Vec<Unsynced> {
    let missing = sources.into_iter().filter(|source| !source.has_synced());
    missing.map(|source| Unsynced { name: source.name().to_string(), health: source.health() }).collect()
}

struct Attached<K> {
    name: Str,
    is_optional: bool,
    informer: InformerHandle<K>,
    registration: HandlerRegistration,
}

impl<K: Object> From<Watch<K>> for WatchSpec {
    fn from(watch: Watch<K>) -> Self {
        let source = Arc::new(NamedInformer { name: watch.name.clone(), informer: watch.informer.clone() });
        let is_optional = watch.is_optional;
        let (store, predicate, mapping) =
            (watch.informer.store().clone(), watch.predicate.clone(), watch.mapping.clone());
        let listed: ListedKeys = Box::new(move |filter| {
            // If a filter panics, the object passes: otherwise a request for all objects would
            // include none.
            let passes = |object: &Arc<K>| {
                let event = Event::Added { object: object.clone(), is_in_initial_list: true };
                let passes = || {
                    predicate.as_ref().is_none_or(|predicate| predicate.passes(&event))
                        && filter.is_none_or(|filter| filter.passes_any(&event))
                };
                caught(passes).unwrap_or(true)
            };
            let keys = |object: &Arc<K>| {
                let keys = || mapping(Some(object), &object.key());
                caught(keys).ok().flatten().unwrap_or_default()
            };
            store.list().iter().filter(|object| passes(object)).flat_map(keys).collect()
        });
        WatchSpec {
            source,
            is_optional,
            listed: Some(listed),
            attach: Box::new(|shared, all_keys| watch.attach(shared, all_keys)),
        }
    }
}

impl<K: Object> Watch<K> {
    fn attach(self, shared: &Arc<SharedController>, all_keys: AllKeys) -> Result<Arc<dyn Relation>, InformerStopped> {
        let Watch { name, informer, predicate, mapping, priority, is_optional } = self;
        let route = EventRoute { shared: shared.clone(), source: name.clone(), all_keys, priority };
        let registration = informer.add_handler(move |event: &Event<K>| {
            if route.shared.writes.is_anybody_waiting() {
                route.wake(&event.key());
            }
            if route.passes(event, predicate.as_ref()) {
                let object = event.key();
                let concerned = |state: Option<&K>| route.call(|| mapping(state, &object)).flatten();
                let mut keys = concerned(event.object().map(|object| &**object));
                // Keys that the old state affected must be reconciled too.
                let mut before = None;
                if let Event::Updated { old, .. } = event {
                    before = concerned(Some(old));
                    keys = keys.filter(|_| before.is_some());
                }
                // If the mapping panics, the event affects all keys: no change is lost.
                route.enqueue(object, kind_of(event), keys, before);
            }
        })?;
        Ok(Arc::new(Attached { name, is_optional, informer, registration }))
    }
}

/// The factory's namespaces; cluster-scoped objects are in none of them.
pub(super) fn scoped<K: Object>(is_namespaced: bool) -> InformerScope<K> {
    if is_namespaced { InformerScope::default() } else { InformerScope::default().cluster_wide() }
}

fn kind_of<K: Object>(event: &Event<K>) -> ReasonKind {
    match event {
        Event::Added { is_in_initial_list: true, .. } => ReasonKind::Listed,
        Event::Added { .. } => ReasonKind::Added,
        Event::Updated { .. } if event.is_resync() => ReasonKind::Resynced,
        Event::Updated { .. } => ReasonKind::Updated,
        Event::Deleted(_) => ReasonKind::Deleted,
    }
}

/// The path from a watch to the queue, independent of the type.
struct EventRoute {
    shared: Arc<SharedController>,
    source: Str,
    all_keys: AllKeys,
    /// The priority of keys of live changes.
    priority: Option<i32>,
}

impl EventRoute {
    /// Whether an event passes the predicate of the watch and the filter of the controller. If one
    /// of them panics, the event passes: no change is lost.
    fn passes<K: Object>(&self, event: &Event<K>, predicate: Option<&Predicate<K>>) -> bool {
        let passes = |predicate: &Predicate<K>| self.call(|| predicate.passes(event)).unwrap_or(true);
        let is_selected = |filter: &EventFilter| self.call(|| filter.passes_any(event)).unwrap_or(true);
        predicate.is_none_or(passes) && self.shared.events.filter.as_ref().is_none_or(is_selected)
    }

    /// Wakes keys that wait for the cache to show their write to `object`.
    fn wake(&self, object: &ObjectKey) {
        for key in self.shared.writes.take_waiting_for(object) {
            self.shared.queue.add(key);
        }
    }

    /// Calls a user function; `None` if it panics.
    fn call<R>(&self, function: impl FnOnce() -> R) -> Option<R> {
        let told = |panic: String| tracing::error!(source = %self.source, panic, "predicate or mapping panicked");
        caught(function).map_err(told).ok()
    }

    /// Requests reconciles of `keys` and, for an update, of those affected `before`.
    fn enqueue(
        &self,
        object: ObjectKey,
        kind: ReasonKind,
        keys: Option<Vec<ObjectKey>>,
        before: Option<Vec<ObjectKey>>,
    ) {
        let mut keys = keys.unwrap_or_else(|| (self.all_keys)());
        if let Some(before) = before {
            keys.extend(before);
            keys.sort_unstable();
            keys.dedup();
        }
        for key in keys {
            let reason = Reason { source: self.source.clone(), object: Some(object.clone()), kind };
            self.shared.enqueue(key, reason, self.shared.urgency(kind, self.priority));
        }
    }
}

impl<K: Object> Relation for Attached<K> {
    fn health(&self, is_main: bool) -> RelationHealth {
        RelationHealth {
            name: self.name.clone(),
            is_main,
            is_optional: self.is_optional,
            has_synced: self.has_synced(),
            watch: self.informer.health(),
        }
    }

    fn has_synced(&self) -> bool {
        self.registration.has_synced()
    }

    fn synced(&self) -> BoxFuture<'_, bool> {
        Box::pin(self.registration.synced())
    }

    fn is_optional(&self) -> bool {
        self.is_optional
    }

    fn is_failing(&self) -> bool {
        self.informer.health().is_some_and(|health| health.failures > 0)
    }

    fn lag(&self) -> usize {
        self.registration.lag()
    }

    fn has_seen(&self, write: &OwnWrite) -> bool {
        let snapshot = self.informer.store().snapshot();
        let version = snapshot.resource_version_of(write.object.namespace());
        write.is_in(snapshot.get_by_key(&write.object).map(|object| &**object), version)
    }

    fn has_lost(&self, write: &OwnWrite) -> bool {
        let snapshot = self.informer.store().snapshot();
        let version = snapshot.resource_version_of(write.object.namespace());
        write.is_lost_in(snapshot.get_by_key(&write.object), version)
    }

    fn right(&self, sharding: &Sharding, key: &ObjectKey) -> Permission {
        let snapshot = self.informer.store().snapshot();
        let uid = snapshot.get_by_key(key).map(|object| object.uid());
        let by_key = || sharding.permit(key).map_or(Permission::Denied, Permission::Granted);
        let version = snapshot.resource_version_of(key.namespace());
        sharding.right_by_uid(&self.informer, uid, version).unwrap_or_else(by_key)
    }

    fn is_share(&self, sharding: &Sharding) -> bool {
        sharding.watches_share(&self.informer)
    }

    fn cut(&self) -> CacheLimits {
        CacheLimits::of(&self.informer)
    }

    fn is_adrift(&self) -> bool {
        let health = self.informer.health();
        health.is_some_and(|health| matches!(health.state, HealthState::Absent | HealthState::Stopped))
    }

    fn is_undecodable(&self, key: &ObjectKey) -> bool {
        self.informer.store().is_undecodable(key)
    }

    fn covers(&self, namespace: &str) -> bool {
        self.informer.covers(namespace)
    }

    fn is_of(&self, client: &Client) -> bool {
        self.informer.client().shares_transport(client)
    }

    fn informer(&self) -> &dyn Any {
        &self.informer
    }

    fn detach(&self) {
        self.registration.remove();
    }
}
