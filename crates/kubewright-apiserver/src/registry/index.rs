//! Secondary indices over the newest state of the store.
//!
//! The store notifies [`Indices`] of each write under its lock, so the indices match the accepted
//! writes exactly. At startup they are rebuilt from the stored objects.
//!
//! Lock order: the store's lock, then one of these. Callers that hold the lock of an index must not
//! call the store.

use std::sync::{Mutex, MutexGuard, PoisonError};

use kubewright_core::Value;

use super::{aggregation, claims, definition_names};
use crate::admission::quota::QuotaUsage;
use kubewright_auth::authorization;
use kubewright_objects::lookup::{IndexTerm, TermIndex};
use kubewright_objects::object::StoredObject;
use kubewright_objects::service_numbers::{self, ServiceNumbers};
use kubewright_storage::{EventKind, Key, Observer, StoreEvent};

/// All indices of a registry.
#[derive(Default)]
pub(crate) struct Indices {
    terms: Mutex<TermIndex<IndexTerm>>,
    services: Mutex<ServiceNumbers>,
    usage: Mutex<QuotaUsage>,
}

impl Indices {
    /// Adds a stored object at startup.
    pub(crate) fn restore(&self, key: &Key, object: &StoredObject, revision: u64) {
        self.change(key, revision, None, Some(object));
    }

    /// Objects by what they refer to.
    pub(crate) fn terms(&self) -> MutexGuard<'_, TermIndex<IndexTerm>> {
        self.terms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cluster IPs and node ports in use.
    pub(crate) fn services(&self) -> MutexGuard<'_, ServiceNumbers> {
        self.services.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The usage of namespaces with a quota.
    pub(crate) fn usage(&self) -> MutexGuard<'_, QuotaUsage> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, key: &Key, revision: u64, before: Option<&StoredObject>, after: Option<&StoredObject>) {
        if let Some(terms) = terms_of(key.resource()) {
            let terms =
                |object: Option<&StoredObject>| object.map(|object| terms(key, &object.tree())).unwrap_or_default();
            self.terms().replace(key, terms(before), terms(after));
        }
        if service_numbers::COUNTED.contains(&key.resource()) {
            self.services().change(key, before, after);
        }
        self.usage().change(key, revision, before, after);
    }
}

impl Observer<StoredObject> for Indices {
    fn apply(&self, event: &StoreEvent<StoredObject>) {
        let (before, after) = sides(event);
        self.change(&event.key, event.revision, before, after);
    }

    fn revert(&self, event: &StoreEvent<StoredObject>) {
        let (before, after) = sides(event);
        self.change(&event.key, event.revision, after, before);
        self.usage().reset(&event.key);
    }
}

/// The object before and after a write.
fn sides(event: &StoreEvent<StoredObject>) -> (Option<&StoredObject>, Option<&StoredObject>) {
    let before = event.previous.as_ref().map(|entry| &*entry.object);
    (before, (event.kind != EventKind::Deleted).then_some(&*event.object))
}

/// The function that extracts the index terms of a resource, if it has any.
fn terms_of(resource: &str) -> Option<fn(&Key, &Value) -> Vec<IndexTerm>> {
    match resource {
        "clusterrolebindings.rbac.authorization.k8s.io" | "rolebindings.rbac.authorization.k8s.io" => {
            Some(authorization::subject_terms)
        }
        "clusterroles.rbac.authorization.k8s.io" => Some(aggregation::aggregation_terms),
        "customresourcedefinitions.apiextensions.k8s.io" => Some(definition_names::name_terms),
        "pods" => Some(claims::pod_terms),
        _ => None,
    }
}
