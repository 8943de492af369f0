//! The garbage collector: deletes dependents of deleted owners, and releases terminating owners.
//!
//! The owner graph follows the log. Work is queued in tasks of one object each. So an owner with
//! many objects does not block other work, and is not scanned again for each dependent.

use std::collections::{HashMap, HashSet, VecDeque};

use kubewright_core::options::PropagationPolicy;
use kubewright_core::{List, Str, Value};

use super::deletions::{DeletingController, Deletion, Deletions};
use super::{change, remove_finalizer};
use crate::registry::{FOREGROUND, ORPHAN, Registry};
use kubewright_objects::lookup::TermIndex;
use kubewright_objects::object::{Meta, tree};
use kubewright_storage::Key;

/// The owner graph as of the followed log position, and the task queue.
#[derive(Default)]
pub(super) struct GarbageCollector {
    /// Dependents by owner UID.
    dependents_of: TermIndex<Str>,
    /// Dependents with `blockOwnerDeletion` by owner UID.
    blockers_of: TermIndex<Str>,
    /// The owner references of each object when last seen.
    references_of: HashMap<Key, Vec<Reference>>,
    /// Terminating owners whose dependents have been queued, by UID, with their policy.
    terminating_owners: HashMap<Str, (Key, PropagationPolicy)>,
    queue: VecDeque<GarbageTask>,
    /// Invariant: the keys of queued [`GarbageTask::Check`] tasks without a known deleted owner.
    checks: HashSet<Key>,
}

/// One owner reference.
#[derive(PartialEq, Eq)]
struct Reference {
    owner: Str,
    blocks: bool,
}

/// Work on one object.
enum GarbageTask {
    /// Delete the object if all its owners are gone. `gone` is a known deleted owner, or empty.
    Check { key: Key, gone: Str },
    /// Remove the references to an owner.
    Release { key: Key, owner: Str },
    /// Release an owner after its dependents were released.
    Orphaned { key: Key, owner: Str },
}

impl GarbageCollector {
    /// Starts a new graph. Queued checks remain.
    pub(super) fn restart(&mut self) {
        let mut queue = std::mem::take(&mut self.queue);
        // Orphaning owners still have their finalizer, so the new scan finds them.
        queue.retain(|task| matches!(task, GarbageTask::Check { .. }));
        *self = GarbageCollector { queue, checks: std::mem::take(&mut self.checks), ..GarbageCollector::default() };
    }

    /// Records the owner references of an object. Returns its former owners.
    pub(super) fn set_owners(&mut self, key: &Key, owner_references: &[Value]) -> Vec<Str> {
        let reference = |reference: &Value| Reference {
            owner: tree::text(reference, &["uid"]).into(),
            blocks: tree::is_true(reference, &["blockOwnerDeletion"]),
        };
        self.set_references(key, owner_references.iter().map(reference).collect())
    }

    fn set_references(&mut self, key: &Key, references: Vec<Reference>) -> Vec<Str> {
        let owners = |references: &[Reference]| references.iter().map(|one| one.owner.clone()).collect::<Vec<_>>();
        let blocked = |references: &[Reference]| {
            references.iter().filter(|one| one.blocks).map(|one| one.owner.clone()).collect::<Vec<_>>()
        };
        let before = self.references_of.remove(key).unwrap_or_default();
        if before != references {
            self.dependents_of.replace(key, owners(&before), owners(&references));
            self.blockers_of.replace(key, blocked(&before), blocked(&references));
        }
        if !references.is_empty() {
            self.references_of.insert(key.clone(), references);
        }
        owners(&before)
    }

    /// Queues the work that an object needs. `before` are its former owners.
    pub(super) fn update(&mut self, registry: &Registry, key: &Key, value: &Value, before: &[Str]) {
        self.queue_dependents(registry, key, value);
        if !value.owner_references().is_empty() {
            self.check(key, "");
        }
        // An owner in foreground deletion may have lost its last blocking dependent.
        let now = value.owner_references().iter().map(|reference| tree::text(reference, &["uid"]));
        for owner in now.chain(before.iter().map(Str::as_str)) {
            self.release_foreground_owner(registry, owner);
        }
    }

    /// Records a deletion.
    pub(super) fn forget(&mut self, registry: &Registry, key: &Key, value: &Value) {
        self.terminating_owners.remove(value.uid());
        let owners = self.set_references(key, Vec::new());
        let dependents: Vec<Key> = self.dependents_of.keys(value.uid()).cloned().collect();
        for dependent in dependents {
            self.check(&dependent, value.uid());
        }
        for owner in owners {
            self.release_foreground_owner(registry, &owner);
        }
    }

    /// Queues the check of an object.
    pub(super) fn check(&mut self, key: &Key, gone: &str) {
        if !gone.is_empty() || self.checks.insert(key.clone()) {
            self.queue.push_back(GarbageTask::Check { key: key.clone(), gone: gone.into() });
        }
    }

    /// Queues the dependents of a terminating owner, once for each policy.
    fn queue_dependents(&mut self, registry: &Registry, key: &Key, owner: &Value) {
        let policy = match own_policy(owner) {
            PropagationPolicy::Background => None,
            policy => Some(policy).filter(|_| owner.is_being_deleted()),
        };
        let Some(policy) = policy else {
            self.terminating_owners.remove(owner.uid());
            return;
        };
        let before = self.terminating_owners.insert(owner.uid().into(), (key.clone(), policy));
        if before.is_none_or(|(_, before)| before != policy) {
            let dependents: Vec<Key> = self.dependents_of.keys(owner.uid()).cloned().collect();
            for dependent in dependents {
                match policy {
                    PropagationPolicy::Orphan => {
                        self.queue.push_back(GarbageTask::Release { key: dependent, owner: owner.uid().into() });
                    }
                    _ => self.check(&dependent, ""),
                }
            }
            if policy == PropagationPolicy::Orphan {
                self.queue.push_back(GarbageTask::Orphaned { key: key.clone(), owner: owner.uid().into() });
            }
        }
        self.release_foreground_owner(registry, owner.uid());
    }

    /// Releases an owner in foreground deletion that nothing blocks any more.
    fn release_foreground_owner(&self, registry: &Registry, owner: &str) {
        let Some((key, PropagationPolicy::Foreground)) = self.terminating_owners.get(owner) else { return };
        if self.blockers_of.contains(owner) {
            return;
        }
        let Some(entry) = registry.store.newest(key) else { return };
        let value = &*entry.object.tree();
        if value.uid() == owner && is_waiting(value) {
            remove_finalizer(registry, key, value, FOREGROUND);
        }
    }

    /// Whether the queue is not empty.
    pub(super) fn has_work(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Runs up to `limit` tasks.
    pub(super) fn work(&mut self, registry: &Registry, deletions: &mut Deletions, limit: usize) {
        for _ in 0..limit {
            match self.queue.pop_front() {
                None => return,
                Some(GarbageTask::Check { key, gone }) => {
                    if gone.is_empty() {
                        self.checks.remove(&key);
                    }
                    self.check_owners(registry, deletions, &key, &gone);
                }
                Some(GarbageTask::Release { key, owner }) => release(registry, &key, &owner),
                Some(GarbageTask::Orphaned { key, owner }) => {
                    let found = registry.store.newest(&key);
                    let value = found.as_ref().map(|entry| entry.object.tree()).filter(|value| value.uid() == owner);
                    if let Some(value) = value {
                        remove_finalizer(registry, &key, &value, ORPHAN);
                    }
                }
            }
        }
    }

    /// Deletes an object whose owners are all gone, or removes dangling references. `gone` is a
    /// known deleted owner.
    fn check_owners(&self, registry: &Registry, deletions: &mut Deletions, key: &Key, gone: &str) {
        let Some(entry) = registry.store.newest(key) else { return };
        let value = &*entry.object.tree();
        let references = value.owner_references();
        if value.is_being_deleted() || references.is_empty() {
            return;
        }
        let (mut solid, mut waiting) = (Vec::new(), Vec::new());
        for reference in references {
            match owner(registry, value.namespace(), reference) {
                Some(owner) if is_waiting(&owner) => waiting.push(reference),
                Some(_) => solid.push(reference),
                None if tree::text(reference, &["uid"]) == gone => {}
                None if owner_key(registry, value.namespace(), reference).is_none() => return,
                None => {}
            }
        }
        let policy = match (solid.is_empty(), waiting.is_empty()) {
            (false, _) if solid.len() == references.len() => return,
            (false, _) => {
                let keep: List<Value> = solid.into_iter().cloned().collect();
                change(registry, key, |value| value.set_meta("ownerReferences", keep.clone()));
                return;
            }
            // A foreground owner waits, so dependents with dependents of their own use foreground
            // deletion, too.
            (true, false) if self.dependents_of.contains(value.uid()) => {
                if self.is_in_cycle(registry, value.uid()) {
                    change(registry, key, unblock_owners);
                }
                PropagationPolicy::Foreground
            }
            (true, false) => PropagationPolicy::Background,
            (true, true) => own_policy(value),
        };
        // A rejected deletion returns as a retry.
        deletions.delete(Deletion {
            by: DeletingController::GarbageCollector,
            key: key.clone(),
            uid: value.uid().into(),
            policy,
            gone: gone.into(),
        });
    }

    /// Whether a dependent of an object waits for its own dependents, too.
    ///
    /// Owners and dependents may form a cycle then, in which each would wait for the next one. As
    /// in kube-controller-manager, that is not examined further: not to block is safe in any case.
    fn is_in_cycle(&self, registry: &Registry, uid: &str) -> bool {
        let mut dependents = self.dependents_of.keys(uid);
        dependents.any(|key| registry.store.newest(key).is_some_and(|entry| is_waiting(&entry.object.tree())))
    }
}

/// Makes the references of an object to its owners non-blocking.
fn unblock_owners(value: &mut Value) {
    let mut references: List<Value> = value.owner_references().iter().cloned().collect();
    for reference in references.iter_mut().filter(|one| tree::is_true(one, &["blockOwnerDeletion"])) {
        tree::set(reference, &["blockOwnerDeletion"], false);
    }
    value.set_meta("ownerReferences", references);
}

/// Removes the references to an owner from an object.
fn release(registry: &Registry, key: &Key, owner: &str) {
    change(registry, key, |value| {
        let rest = value.owner_references().iter().filter(|one| tree::text(one, &["uid"]) != owner);
        let rest: List<Value> = rest.cloned().collect();
        if rest.is_empty() {
            value.remove_meta("ownerReferences");
        } else {
            value.set_meta("ownerReferences", rest);
        }
    });
}

/// The existing owner that a reference of an object in `namespace` names.
fn owner(registry: &Registry, namespace: &str, reference: &Value) -> Option<Value> {
    let key = owner_key(registry, namespace, reference)?;
    let value = registry.store.newest(&key)?.object.tree().into_owned();
    let is_same = value.uid() == tree::text(reference, &["uid"]);
    is_same.then_some(value)
}

/// The key of the owner that a reference of an object in `namespace` names.
///
/// `None` if its existence cannot be determined: the kind is not served, the owner is namespaced
/// but the object is not, or the stored owner cannot be decoded. Such an object is left alone.
fn owner_key(registry: &Registry, namespace: &str, reference: &Value) -> Option<Key> {
    let catalog = registry.catalog();
    let resource = catalog.of_kind(tree::text(reference, &["apiVersion"]), tree::text(reference, &["kind"]))?;
    let namespace = if resource.namespaced { Some(namespace).filter(|namespace| !namespace.is_empty())? } else { "" };
    let key = resource.key(namespace, tree::text(reference, &["name"]));
    (!registry.unreadable.contains(&key)).then_some(key)
}

/// Whether an object is in foreground deletion.
fn is_waiting(owner: &Value) -> bool {
    owner.is_being_deleted() && owner.finalizers().iter().any(|finalizer| finalizer == FOREGROUND)
}

/// The propagation policy of an object's finalizers.
fn own_policy(value: &Value) -> PropagationPolicy {
    let finalizers = value.finalizers();
    let has = |name: &str| finalizers.iter().any(|finalizer| finalizer == name);
    match (has(ORPHAN), has(FOREGROUND)) {
        (true, _) => PropagationPolicy::Orphan,
        (_, true) => PropagationPolicy::Foreground,
        _ => PropagationPolicy::Background,
    }
}
