//! One kind that a controller watches, and how its events become keys of the main kind.
//!
//! A controller starts when all its relations have synced, except those that are optional.

use std::any::Any;
use std::sync::Arc;

use kubewright_cache::{
    BoxFuture, Event, HandlerRegistration, Health, HealthState, InformerHandle, InformerStopped, Scoped, Unsynced,
};
use kubewright_core::meta::v1::OwnerReference;
use kubewright_core::{GroupKind, Object, ObjectKey, Str};

use super::health::RelationHealth;
use super::predicate::Predicate;
use super::reason::{Change, Reason};
use super::shared::Shared;
use crate::consistency::{Cut, Write};
use crate::sharding::{Right, Sharding};
use crate::unwind::caught;

/// Which objects of the main kind an object is about. `None` says that it cannot be known: then it is about all of them.
pub(crate) type Mapping<K> = Arc<dyn Fn(Option<&K>, &ObjectKey) -> Option<Vec<ObjectKey>> + Send + Sync>;

/// All keys of the main kind that its filter lets pass, for events of which nothing is known.
pub(crate) type AllKeys = Arc<dyn Fn() -> Vec<ObjectKey> + Send + Sync>;

/// A watch that has been attached, whatever its type.
pub(crate) trait Relation: Send + Sync {
    fn health(&self, is_main: bool) -> RelationHealth;
    fn has_synced(&self) -> bool;
    /// Resolves when the handler has been given the first list; false if the informer stopped
    /// before.
    fn synced(&self) -> BoxFuture<'_, bool>;
    /// Whether the controller starts without waiting for it.
    fn is_optional(&self) -> bool;
    /// Whether its reflector has failed since it last succeeded.
    fn is_failing(&self) -> bool;
    fn lag(&self) -> usize;
    /// Whether the cache has what was written.
    fn has_seen(&self, write: &Write) -> bool;
    /// Whether the cache proves that the written object is gone, without an event about it.
    fn has_lost(&self, write: &Write) -> bool;
    /// The right of this replica to reconcile the object of this key.
    fn right(&self, sharding: &Sharding, key: &ObjectKey) -> Right;
    /// Whether it watches only the share of this replica.
    fn is_share(&self, sharding: &Sharding) -> bool;
    /// The limits of its cache.
    fn cut(&self) -> Cut;
    /// Whether its cache does not follow the server: the resource is absent, or the reflector has
    /// stopped.
    fn is_adrift(&self) -> bool;
    /// Whether the cache could not decode the newest state of the object of this key.
    fn is_undecodable(&self, key: &ObjectKey) -> bool;
    /// Whether it has objects of this namespace, the empty one standing for all or for the cluster.
    fn covers(&self, namespace: &str) -> bool;
    /// The informer, to be found by type.
    fn informer(&self) -> &dyn Any;
    fn detach(&self);
}

/// The cache of a relation, known before the relation is attached.
pub(crate) trait Source: Send + Sync {
    fn name(&self) -> &Str;
    fn has_synced(&self) -> bool;
    /// Resolves when the cache is complete; false if the informer stopped before.
    fn synced(&self) -> BoxFuture<'_, bool>;
    fn health(&self) -> Option<Health>;
}

/// A watch before it is attached.
pub(crate) struct Watch {
    pub(super) source: Arc<dyn Source>,
    pub(super) is_optional: bool,
    attach: Attach,
}

type Attach = Box<dyn FnOnce(&Arc<Shared>, AllKeys, bool) -> Result<Arc<dyn Relation>, InformerStopped> + Send>;

impl Watch {
    /// Adds the handler to the informer.
    ///
    /// # Errors
    /// If the informer has stopped.
    pub(super) fn attach(self, shared: &Arc<Shared>, all_keys: AllKeys) -> Result<Arc<dyn Relation>, InformerStopped> {
        (self.attach)(shared, all_keys, self.is_optional)
    }
}

/// An informer under the name of its resource.
pub(crate) struct Named<K> {
    pub(crate) name: Str,
    pub(crate) informer: InformerHandle<K>,
}

impl<K: Object> Source for Named<K> {
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
pub(crate) fn unsynced<'a>(sources: impl IntoIterator<Item = &'a Arc<dyn Source>>) -> Vec<Unsynced> {
    let missing = sources.into_iter().filter(|source| !source.has_synced());
    missing.map(|source| Unsynced { name: source.name().to_string(), health: source.health() }).collect()
}

struct Attached<K> {
    name: Str,
    is_optional: bool,
    informer: InformerHandle<K>,
    registration: HandlerRegistration,
}

/// A watch of `informer` whose events that pass lead to reconciles of what `mapping` says.
pub(crate) fn watch<K: Object>(
    name: Str,
    informer: InformerHandle<K>,
    predicate: Option<Predicate<K>>,
    mapping: Mapping<K>,
) -> Watch {
    let source = Arc::new(Named { name: name.clone(), informer: informer.clone() });
    let attach: Attach = Box::new(move |shared, all_keys, is_optional| {
        let route = Route { shared: shared.clone(), source: name.clone(), all_keys };
        let registration = informer.add_handler(move |event: &Event<K>| {
            if route.shared.writes.is_anybody_waiting() {
                route.wake(&event.key());
            }
            // What a predicate cannot judge passes, and what cannot be mapped concerns all: no change is lost.
            let passes = |predicate: &Predicate<K>| route.asked(|| predicate.passes(event)).unwrap_or(true);
            if predicate.as_ref().is_none_or(passes) {
                let object = event.key();
                let concerned = |state: Option<&K>| route.asked(|| mapping(state, &object)).flatten();
                let mut keys = concerned(event.object().map(|object| &**object));
                // Who was concerned before an update has to know as well.
                let mut before = None;
                if let Event::Updated { old, .. } = event {
                    before = concerned(Some(old));
                    keys = keys.filter(|_| before.is_some());
                }
                route.tell(object, change(event), keys, before);
            }
        })?;
        Ok(Arc::new(Attached { name, is_optional, informer, registration }) as Arc<dyn Relation>)
    });
    Watch { source, is_optional: false, attach }
}

/// Wherever the factory looks; but objects of the cluster are in none of its namespaces.
pub(super) fn scoped<K>(is_namespaced: bool) -> Scoped<K> {
    if is_namespaced { Scoped::default() } else { Scoped::default().namespace("") }
}

fn change<K: Object>(event: &Event<K>) -> Change {
    match event {
        Event::Added { is_in_initial_list: true, .. } => Change::Listed,
        Event::Added { .. } => Change::Added,
        Event::Updated { .. } if event.is_reminder() => Change::Reminded,
        Event::Updated { .. } => Change::Updated,
        Event::Deleted(_) => Change::Deleted,
    }
}

/// The object itself.
pub(crate) fn itself<K>() -> Mapping<K> {
    Arc::new(|_, key| Some(vec![key.clone()]))
}

/// Owners of this kind: the one that controls, or all.
pub(crate) fn owner<K: Object>(kind: GroupKind, is_namespaced: bool, every_owner: bool) -> Mapping<K> {
    Arc::new(move |object, key| {
        let references = object?.owner_references();
        let namespace = if is_namespaced { key.namespace().clone() } else { Str::new() };
        Some(owners(&references, &kind, &namespace, every_owner))
    })
}

fn owners(references: &[OwnerReference], kind: &GroupKind, namespace: &Str, every_owner: bool) -> Vec<ObjectKey> {
    let owners = references.iter().filter(|reference| {
        let group = reference.api_version.rsplit_once('/').map_or("", |(group, _)| group);
        reference.kind == kind.kind && kind.group == group && (every_owner || reference.controller == Some(true))
    });
    owners.map(|owner| ObjectKey::namespaced(namespace.clone(), owner.name.clone())).collect()
}

/// The way from a watch to the queue, the same for all types.
struct Route {
    shared: Arc<Shared>,
    source: Str,
    all_keys: AllKeys,
}

impl Route {
    /// Wakes keys that wait for what they have written to `object`.
    fn wake(&self, object: &ObjectKey) {
        for key in self.shared.writes.take_waiting_for(object) {
            self.shared.queue.add(key);
        }
    }

    /// What a function of the user says; nothing if it panics.
    fn asked<R>(&self, function: impl FnOnce() -> R) -> Option<R> {
        let told = |panic: String| tracing::error!(source = %self.source, panic, "a predicate or a mapping panicked");
        caught(function).map_err(told).ok()
    }

    /// Asks for reconciles of `keys`, and where there was an update, of those that were concerned `before`.
    fn tell(&self, object: ObjectKey, change: Change, keys: Option<Vec<ObjectKey>>, before: Option<Vec<ObjectKey>>) {
        let mut keys = keys.unwrap_or_else(|| (self.all_keys)());
        if let Some(before) = before {
            keys.extend(before);
            keys.sort_unstable();
            keys.dedup();
        }
        for key in keys {
            let reason = Reason { source: self.source.clone(), object: Some(object.clone()), change };
            self.shared.enqueue(key, reason, Shared::urgency(change));
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

    fn has_seen(&self, write: &Write) -> bool {
        let snapshot = self.informer.store().snapshot();
        let version = snapshot.resource_version_of(write.object.namespace());
        write.is_in(snapshot.get_by_key(&write.object).map(|object| &**object), version)
    }

    fn has_lost(&self, write: &Write) -> bool {
        let snapshot = self.informer.store().snapshot();
        let version = snapshot.resource_version_of(write.object.namespace());
        write.is_lost_in(snapshot.get_by_key(&write.object), version)
    }

    fn right(&self, sharding: &Sharding, key: &ObjectKey) -> Right {
        let snapshot = self.informer.store().snapshot();
        let uid = snapshot.get_by_key(key).map(|object| object.uid());
        let by_key = || sharding.permit(key).map_or(Right::Denied, Right::Granted);
        let version = snapshot.resource_version_of(key.namespace());
        sharding.right_by_uid(&self.informer, uid, version).unwrap_or_else(by_key)
    }

    fn is_share(&self, sharding: &Sharding) -> bool {
        sharding.watches_share(&self.informer)
    }

    fn cut(&self) -> Cut {
        Cut::of(&self.informer)
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

    fn informer(&self) -> &dyn Any {
        &self.informer
    }

    fn detach(&self) {
        self.registration.remove();
    }
}
