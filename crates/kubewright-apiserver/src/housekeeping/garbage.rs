//! Objects whose owners are gone, and owners that wait for what they own.

use std::collections::{BTreeSet, HashMap};

use kubewright_core::options::PropagationPolicy;
use kubewright_core::{List, Str, Value};

use super::deletions::{Controller, Deletion, Deletions};
use super::{change, remove_finalizer};
use crate::object::{Meta, tree};
use crate::registry::{FOREGROUND, ORPHAN, Registry};
use crate::storage::Key;

/// Who owns what, as far as the log has been followed.
#[derive(Default)]
pub(super) struct Garbage {
    /// Objects that exist, by their uid.
    key_of: HashMap<Str, Key>,
    /// What refers to a uid as its owner.
    dependents_of: HashMap<Str, BTreeSet<Key>>,
    /// The owners that an object referred to when we looked last.
    owners_of: HashMap<Key, Vec<Str>>,
}

impl Garbage {
    /// Remembers an object and its owners.
    pub(super) fn learn(&mut self, key: &Key, value: &Value) {
        self.key_of.insert(value.uid().into(), key.clone());
        let owners: Vec<Str> =
            value.owner_references().iter().map(|owner| tree::text(owner, &["uid"]).into()).collect();
        let before = match owners.is_empty() {
            true => self.owners_of.remove(key),
            false => self.owners_of.insert(key.clone(), owners.clone()),
        };
        self.unlink(key, before.unwrap_or_default());
        for owner in owners {
            self.dependents_of.entry(owner).or_default().insert(key.clone());
        }
    }

    /// Forgets an object, and says what referred to it.
    pub(super) fn forget(&mut self, key: &Key, value: &Value) -> BTreeSet<Key> {
        self.key_of.remove(value.uid());
        let owners = self.owners_of.remove(key).unwrap_or_default();
        self.unlink(key, owners);
        self.dependents_of.get(value.uid()).cloned().unwrap_or_default()
    }

    fn unlink(&mut self, key: &Key, owners: Vec<Str>) {
        for owner in owners {
            if let Some(dependents) = self.dependents_of.get_mut(&owner) {
                dependents.remove(key);
                if dependents.is_empty() {
                    self.dependents_of.remove(&owner);
                }
            }
        }
    }

    /// Does what an object needs now: to be collected itself, or to let go of what it owns.
    pub(super) fn look_after(&self, registry: &Registry, deletions: &mut Deletions, key: &Key, value: &Value) {
        let finalizers = value.finalizers();
        let has = |name: &str| finalizers.iter().any(|finalizer| finalizer == name);
        if value.is_being_deleted() && has(ORPHAN) {
            self.release(registry, value);
            remove_finalizer(registry, key, value, ORPHAN);
        } else if value.is_being_deleted() && has(FOREGROUND) {
            self.delete_dependents(registry, deletions, key, value);
        }
        if !value.owner_references().is_empty() {
            self.check_owners(registry, deletions, key, "");
            // An owner that waits for its dependents has to know when one of them stops blocking it.
            self.look_at_waiting_owners(registry, deletions, value);
        }
    }

    /// Looks at each dependent of an object that is gone, and at owners that waited for the object.
    pub(super) fn collect(
        &self,
        registry: &Registry,
        deletions: &mut Deletions,
        gone: &Value,
        dependents: BTreeSet<Key>,
    ) {
        for key in &dependents {
            self.check_owners(registry, deletions, key, gone.uid());
        }
        self.look_at_waiting_owners(registry, deletions, gone);
    }

    fn look_at_waiting_owners(&self, registry: &Registry, deletions: &mut Deletions, dependent: &Value) {
        for owner in dependent.owner_references() {
            let Some(key) = self.key_of.get(tree::text(owner, &["uid"])) else { continue };
            let Some(entry) = registry.store.get(key) else { continue };
            let value = entry.object.value();
            if value.is_being_deleted() && value.finalizers().iter().any(|finalizer| finalizer == FOREGROUND) {
                self.delete_dependents(registry, deletions, key, value);
            }
        }
    }

    /// Deletes an object if none of its owners exists any more, or drops the references to those that do not. Of the owner `gone` it is
    /// known that it does not.
    pub(super) fn check_owners(&self, registry: &Registry, deletions: &mut Deletions, key: &Key, gone: &str) {
        let Some(entry) = registry.store.get(key) else { return };
        let value = entry.object.value();
        let references = value.owner_references();
        if value.is_being_deleted() || references.is_empty() {
            return;
        }
        let (mut solid, mut waiting) = (Vec::new(), Vec::new());
        for reference in references {
            match self.owner(registry, key, reference) {
                Some(owner) if is_waiting(&owner) => waiting.push(reference),
                Some(_) => solid.push(reference),
                None if tree::text(reference, &["uid"]) == gone => {}
                None if !could_exist(registry, key, reference) => return,
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
            // The owner waits in the foreground, and so do its dependents if they own something.
            (true, false) if self.dependents_of.contains_key(value.uid()) => PropagationPolicy::Foreground,
            (true, false) => PropagationPolicy::Background,
            (true, true) => own_policy(value),
        };
        // One that is refused comes back to us.
        deletions.delete(Deletion {
            by: Controller::GarbageCollector,
            key: key.clone(),
            uid: value.uid().into(),
            policy,
            gone: gone.into(),
        });
    }

    /// The owner that a reference names, if it exists and may own the object.
    fn owner(&self, registry: &Registry, key: &Key, reference: &Value) -> Option<Value> {
        let owner = self.key_of.get(tree::text(reference, &["uid"]))?;
        let is_reachable = owner.namespace().is_none() || owner.namespace() == key.namespace();
        let entry = registry.store.get(owner).filter(|_| is_reachable)?;
        let value = entry.object.value().clone();
        let is_same = value.name() == tree::text(reference, &["name"])
            && tree::text(&value, &["kind"]) == tree::text(reference, &["kind"])
            && value.uid() == tree::text(reference, &["uid"]);
        is_same.then_some(value)
    }

    /// Deletes what an object owns, and lets it go when nothing is left that blocks it.
    fn delete_dependents(&self, registry: &Registry, deletions: &mut Deletions, key: &Key, owner: &Value) {
        let dependents = self.dependents_of.get(owner.uid()).cloned().unwrap_or_default();
        let blocks = |key: &&Key| {
            let entry = registry.store.get(key);
            entry.is_some_and(|entry| {
                entry.object.value().owner_references().iter().any(|reference| {
                    tree::text(reference, &["uid"]) == owner.uid() && tree::is_true(reference, &["blockOwnerDeletion"])
                })
            })
        };
        for dependent in &dependents {
            self.check_owners(registry, deletions, dependent, "");
        }
        if !dependents.iter().any(|dependent| blocks(&dependent)) {
            remove_finalizer(registry, key, owner, FOREGROUND);
        }
    }

    /// Removes the references to an object from all that it owns.
    fn release(&self, registry: &Registry, owner: &Value) {
        for key in self.dependents_of.get(owner.uid()).into_iter().flatten() {
            change(registry, key, |value| {
                let rest = value.owner_references().iter().filter(|one| tree::text(one, &["uid"]) != owner.uid());
                let rest: List<Value> = rest.cloned().collect();
                match rest.is_empty() {
                    true => drop(value.remove_meta("ownerReferences")),
                    false => value.set_meta("ownerReferences", rest),
                }
            });
        }
    }
}

/// Whether anybody can tell if the owner exists that a reference names. Of a kind that is not served nobody can, and nothing in a namespace
/// can be found from an object of the cluster, so that such a dependent is left alone.
fn could_exist(registry: &Registry, dependent: &Key, reference: &Value) -> bool {
    let catalog = registry.catalog();
    let kind = catalog.of_kind(tree::text(reference, &["apiVersion"]), tree::text(reference, &["kind"]));
    kind.is_some_and(|kind| !kind.namespaced || dependent.namespace().is_some())
}

/// Whether an object is deleted in the foreground.
fn is_waiting(owner: &Value) -> bool {
    owner.is_being_deleted() && owner.finalizers().iter().any(|finalizer| finalizer == FOREGROUND)
}

/// The policy that the finalizers of an object ask for.
fn own_policy(value: &Value) -> PropagationPolicy {
    let finalizers = value.finalizers();
    let has = |name: &str| finalizers.iter().any(|finalizer| finalizer == name);
    match (has(ORPHAN), has(FOREGROUND)) {
        (true, _) => PropagationPolicy::Orphan,
        (_, true) => PropagationPolicy::Foreground,
        _ => PropagationPolicy::Background,
    }
}
