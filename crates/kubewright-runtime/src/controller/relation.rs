//! One kind that a controller watches, and how its events become keys of the main kind.

use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use kubewright_cache::{Event, HandlerRegistration, InformerHandle, InformerStopped, Scoped};
use kubewright_core::meta::v1::OwnerReference;
use kubewright_core::{GroupKind, Object, ObjectKey, Str};

use super::health::RelationHealth;
use super::predicate::Predicate;
use super::reason::{Change, Reason};
use super::shared::Shared;
use crate::consistency::Write;
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
    fn synced(&self) -> Pin<Box<dyn Future<Output = bool> + Send + '_>>;
    /// Whether it has failed since it last succeeded, so that nobody should wait for it.
    fn is_failing(&self) -> bool;
    fn lag(&self) -> usize;
    /// Whether the cache has what was written.
    fn has_seen(&self, write: &Write) -> bool;
    /// The right of this replica to reconcile the object of this key.
    fn right(&self, sharding: &Sharding, key: &ObjectKey) -> Right;
    /// Whether it watches only the share of this replica.
    fn is_share(&self, sharding: &Sharding) -> bool;
    /// Whether it has objects of this namespace, the empty one standing for all or for the cluster.
    fn covers(&self, namespace: &str) -> bool;
    /// The informer, to be found by type.
    fn informer(&self) -> &dyn Any;
    fn detach(&self);
}

/// A watch before it is attached.
pub(crate) type Attach = Box<dyn FnOnce(&Arc<Shared>, AllKeys) -> Result<Arc<dyn Relation>, InformerStopped> + Send>;

struct Attached<K> {
    name: Str,
    informer: InformerHandle<K>,
    registration: HandlerRegistration,
}

/// A watch of `informer` whose events that pass lead to reconciles of what `mapping` says.
pub(crate) fn watch<K: Object>(
    name: Str,
    informer: InformerHandle<K>,
    predicate: Option<Predicate<K>>,
    mapping: Mapping<K>,
) -> Attach {
    Box::new(move |shared, all_keys| {
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
        Ok(Arc::new(Attached { name, informer, registration }) as Arc<dyn Relation>)
    })
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
        let watch = self.informer.health();
        RelationHealth { name: self.name.clone(), is_main, has_synced: self.has_synced(), watch }
    }

    fn has_synced(&self) -> bool {
        self.registration.has_synced()
    }

    fn synced(&self) -> Pin<Box<dyn Future<Output = bool> + Send + '_>> {
        Box::pin(self.registration.synced())
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
