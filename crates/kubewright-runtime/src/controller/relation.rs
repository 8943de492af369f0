//! One kind that a controller watches, and how its events become keys of the main kind.

use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use kubewright_cache::{Event, HandlerRegistration, InformerHandle, InformerStopped};
use kubewright_core::{GroupKind, Object, ObjectKey, Str};

use super::health::RelationHealth;
use super::predicate::Predicate;
use super::reason::{Change, Reason};
use super::shared::Shared;
use crate::consistency::Write;
use crate::sharding::{Right, Sharding};

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
        let (told, source) = (shared.clone(), name.clone());
        let registration = informer.add_handler(move |event: &Event<K>| {
            told.seen(event);
            if predicate.as_ref().is_none_or(|predicate| predicate.passes(event)) {
                told.tell(event, &source, &mapping, &all_keys);
            }
        })?;
        Ok(Arc::new(Attached { name, informer, registration }) as Arc<dyn Relation>)
    })
}

/// The object itself.
pub(crate) fn itself<K>() -> Mapping<K> {
    Arc::new(|_, key| Some(vec![key.clone()]))
}

/// Owners of this kind: the one that controls, or all.
pub(crate) fn owner<K: Object>(kind: GroupKind, is_namespaced: bool, every_owner: bool) -> Mapping<K> {
    Arc::new(move |object, key| {
        let references = object?.owner_references();
        let owners = references.iter().filter(|reference| {
            let group = reference.api_version.rsplit_once('/').map_or("", |(group, _)| group);
            reference.kind == kind.kind && kind.group == group && (every_owner || reference.controller == Some(true))
        });
        let namespace = if is_namespaced { key.namespace().clone() } else { Str::new() };
        Some(owners.map(|owner| ObjectKey::namespaced(namespace.clone(), owner.name.clone())).collect())
    })
}

impl Shared {
    /// Wakes keys that wait for what they have written.
    fn seen<K: Object>(&self, event: &Event<K>) {
        if self.writes.is_anybody_waiting() {
            for key in self.writes.take_waiting_for(&event.key()) {
                self.queue.add(key);
            }
        }
    }

    fn tell<K: Object>(&self, event: &Event<K>, source: &Str, mapping: &Mapping<K>, all_keys: &AllKeys) {
        let object = event.key();
        let change = match event {
            Event::Added { is_in_initial_list: true, .. } => Change::Listed,
            Event::Added { .. } => Change::Added,
            Event::Updated { .. } if event.is_reminder() => Change::Reminded,
            Event::Updated { .. } => Change::Updated,
            Event::Deleted(_) => Change::Deleted,
        };
        let mut keys = match mapping(event.object().map(|object| &**object), &object) {
            Some(keys) => keys,
            None => all_keys(),
        };
        // Who was concerned before an update has to know as well.
        if let Event::Updated { old, .. } = event {
            keys.extend(mapping(Some(old), &object).unwrap_or_default());
            keys.sort_unstable();
            keys.dedup();
        }
        for key in keys {
            let reason = Reason { source: source.clone(), object: Some(object.clone()), change };
            self.enqueue(key, reason, Shared::urgency(change));
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
        write.is_in(snapshot.get_by_key(&write.object).map(|object| &**object), snapshot.resource_version())
    }

    fn right(&self, sharding: &Sharding, key: &ObjectKey) -> Right {
        let snapshot = self.informer.store().snapshot();
        let uid = snapshot.get_by_key(key).map(|object| object.uid());
        let by_key = || sharding.permit(key).map_or(Right::Denied, Right::Granted);
        sharding.right_by_uid(&self.informer, uid, snapshot.resource_version()).unwrap_or_else(by_key)
    }

    fn is_share(&self, sharding: &Sharding) -> bool {
        sharding.watches_share(&self.informer)
    }

    fn informer(&self) -> &dyn Any {
        &self.informer
    }

    fn detach(&self) {
        self.registration.remove();
    }
}
