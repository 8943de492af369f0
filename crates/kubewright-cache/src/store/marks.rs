//! The set of objects whose newest state cannot be decoded.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubewright_core::stream::ObjectIdentity;
use kubewright_core::{ObjectKey, Str};

/// Keys of objects whose newest state could not be decoded or transformed, with their uids.
///
/// Snapshots share the map. A transaction that changes it copies it once, which is cheap because
/// such objects are rare.
#[derive(Default, Clone)]
pub(super) struct Marks {
    uid_of: Arc<BTreeMap<ObjectKey, Str>>,
}

impl Marks {
    pub(super) fn contains(&self, key: &ObjectKey) -> bool {
        self.uid_of.contains_key(key)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &ObjectKey> {
        self.uid_of.keys()
    }

    pub(super) fn insert(&mut self, object: ObjectIdentity) {
        if self.uid_of.get(&object.key) != Some(&object.uid) {
            Arc::make_mut(&mut self.uid_of).insert(object.key, object.uid);
        }
    }

    pub(super) fn remove(&mut self, namespace: &str, name: &str) {
        // Without marks, as is usual, no key is created.
        if !self.uid_of.is_empty() && self.contains(&ObjectKey::namespaced(namespace, name)) {
            Arc::make_mut(&mut self.uid_of).remove(&ObjectKey::namespaced(namespace, name));
        }
    }

    /// Removes the marks of a namespace, or all marks if it is empty.
    pub(super) fn clear(&mut self, namespace: &str) {
        if !self.uid_of.is_empty() {
            Arc::make_mut(&mut self.uid_of).retain(|key, _| !namespace.is_empty() && *key.namespace() != *namespace);
        }
    }
}
