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
    uid_of: Option<Arc<BTreeMap<ObjectKey, Str>>>,
}

impl Marks {
    pub(super) fn contains(&self, key: &ObjectKey) -> bool {
        self.uid_of.as_ref().is_some_and(|uid_of| uid_of.contains_key(key))
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &ObjectKey> {
        self.uid_of.iter().flat_map(|uid_of| uid_of.keys())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.uid_of.is_none()
    }

    pub(super) fn insert(&mut self, object: ObjectIdentity) {
        let uid_of = self.uid_of.get_or_insert_default();
        if uid_of.get(&object.key) != Some(&object.uid) {
            Arc::make_mut(uid_of).insert(object.key, object.uid);
        }
    }

    pub(super) fn remove(&mut self, key: &ObjectKey) {
        let Some(uid_of) = self.uid_of.as_mut().filter(|uid_of| uid_of.contains_key(key)) else { return };
        Arc::make_mut(uid_of).remove(key);
        if uid_of.is_empty() {
            self.uid_of = None;
        }
    }

    /// Removes the marks of a namespace, or all marks if it is empty.
    pub(super) fn clear(&mut self, namespace: &str) {
        let Some(uid_of) = &mut self.uid_of else { return };
        if !namespace.is_empty() {
            Arc::make_mut(uid_of).retain(|key, _| *key.namespace() != *namespace);
        }
        if namespace.is_empty() || uid_of.is_empty() {
            self.uid_of = None;
        }
    }
}
