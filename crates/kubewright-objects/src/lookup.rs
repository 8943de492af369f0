//! Read access to stored objects for modules below the registry.
//!
//! The registry calls authentication, authorization and admission, and they read stored objects.
//! They access the registry through [`ObjectReader`] only.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::{Arc, MutexGuard};

use kubewright_core::Str;
use kubewright_storage::{Key, KeyRange, VersionedValue};

use crate::object::StoredObject;
use kubewright_resources::catalog::Catalog;

/// Reads stored objects.
pub trait ObjectReader: Send + Sync {
    /// The served resources.
    fn catalog(&self) -> Arc<Catalog>;

    /// Reads the last durable version of an object, for responses to readers.
    fn durable(&self, key: &Key) -> Option<VersionedValue<StoredObject>>;

    /// Reads an object for a write. It may not be durable yet.
    fn newest(&self, key: &Key) -> Option<VersionedValue<StoredObject>>;

    /// Reads all objects of a scope for a write. They may not be durable yet.
    fn all(&self, scope: &KeyRange) -> Vec<VersionedValue<StoredObject>>;

    /// The index of objects by what they refer to, as of the last write.
    fn terms(&self) -> MutexGuard<'_, TermIndex<IndexTerm>>;
}

/// An index term: what an object refers to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum IndexTerm {
    /// The user of a binding.
    User {
        /// The namespace of the binding. Empty for cluster bindings.
        namespace: Str,
        /// The name of the user.
        name: Str,
    },
    /// The group of a binding.
    Group {
        /// The namespace of the binding. Empty for cluster bindings.
        namespace: Str,
        /// The name of the group.
        name: Str,
    },
    /// A claim that a pod uses.
    Claim {
        /// The namespace of the claim.
        namespace: Str,
        /// The name of the claim.
        name: Str,
    },
    /// The node that a pod is bound to.
    Node {
        /// The name of the node.
        name: Str,
    },
    /// A resource name that a definition has accepted.
    ResourceName {
        /// The API group.
        group: Str,
        /// A plural, singular or short name.
        name: Str,
    },
    /// A kind that a definition has accepted.
    Kind {
        /// The API group.
        group: Str,
        /// The kind, or the kind of lists.
        name: Str,
    },
    /// A definition of this group waits for names.
    WaitingForNames {
        /// The API group.
        group: Str,
    },
    /// An aggregated ClusterRole.
    AggregatedRole,
}

/// The keys of objects by their terms.
#[derive(Debug)]
pub struct TermIndex<T> {
    /// Invariant: no set is empty.
    keys_of: HashMap<T, BTreeSet<Key>>,
}

impl<T> Default for TermIndex<T> {
    fn default() -> Self {
        TermIndex { keys_of: HashMap::new() }
    }
}

impl<T: Hash + Eq> TermIndex<T> {
    /// Replaces the terms of an object.
    pub fn replace(&mut self, key: &Key, before: Vec<T>, after: Vec<T>) {
        if before == after {
            return;
        }
        for term in before {
            if let Some(keys) = self.keys_of.get_mut(&term) {
                keys.remove(key);
                if keys.is_empty() {
                    self.keys_of.remove(&term);
                }
            }
        }
        for term in after {
            self.keys_of.entry(term).or_default().insert(key.clone());
        }
    }

    /// The objects with a term, sorted by key.
    pub fn keys<Q: Hash + Eq + ?Sized>(&self, term: &Q) -> impl Iterator<Item = &Key>
    where
        T: std::borrow::Borrow<Q>,
    {
        self.keys_of.get(term).into_iter().flatten()
    }

    /// Whether any object has a term.
    pub fn contains<Q: Hash + Eq + ?Sized>(&self, term: &Q) -> bool
    where
        T: std::borrow::Borrow<Q>,
    {
        self.keys_of.contains_key(term)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_term_leads_to_the_objects_that_contain_it_now() {
        let mut index = TermIndex::<Str>::default();
        let (a, b) = (Key::cluster("things", "a"), Key::cluster("things", "b"));
        let terms = |terms: &[&str]| terms.iter().map(|term| Str::from(*term)).collect::<Vec<_>>();
        index.replace(&b, vec![], terms(&["x", "y", "x"]));
        index.replace(&a, vec![], terms(&["x"]));
        assert_eq!(index.keys("x").collect::<Vec<_>>(), [&a, &b]);
        index.replace(&b, terms(&["x", "y", "x"]), terms(&["z"]));
        assert_eq!(index.keys("x").collect::<Vec<_>>(), [&a]);
        assert!(!index.contains("y") && index.contains("z"));
        index.replace(&a, terms(&["x"]), vec![]);
        index.replace(&b, terms(&["z"]), vec![]);
        assert!(index.keys_of.is_empty(), "{index:?}");
    }
}
