//! Tracks undecodable objects, so that each one is reported once.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubewright_core::stream::ObjectIdentity;
use kubewright_core::{ObjectKey, Str};

/// Number of keys in [`UndecodableObjects`].
const MAX_KEYS: usize = 16;

/// Keys of objects whose newest state could not be decoded or transformed, with their uids.
#[derive(Debug, Default)]
pub(super) struct UndecodableMarks {
    uid_of: BTreeMap<ObjectKey, Str>,
}

impl UndecodableMarks {
    pub(super) fn is_empty(&self) -> bool {
        self.uid_of.is_empty()
    }

    /// UndecodableMarks an object; returns whether the mark is new.
    pub(super) fn set(&mut self, object: &ObjectIdentity) -> bool {
        self.uid_of.insert(object.key.clone(), object.uid.clone()).as_ref() != Some(&object.uid)
    }

    /// Removes a mark; returns whether there was one.
    pub(super) fn clear(&mut self, key: &ObjectKey) -> bool {
        self.uid_of.remove(key).is_some()
    }

    /// Replaces all marks.
    pub(super) fn keep(&mut self, objects: &[ObjectIdentity]) {
        self.uid_of = objects.iter().map(|object| (object.key.clone(), object.uid.clone())).collect();
    }

    pub(super) fn summary(&self) -> UndecodableObjects {
        UndecodableObjects { count: self.uid_of.len(), keys: self.uid_of.keys().take(MAX_KEYS).cloned().collect() }
    }
}

/// Objects that exist in a state that could not be decoded or transformed. The cache has older
/// states of them, or none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UndecodableObjects {
    /// Their number.
    pub count: usize,
    /// The first 16 keys, in order.
    pub keys: Arc<[ObjectKey]>,
}

impl UndecodableObjects {
    /// The union of two disjoint sets.
    pub(super) fn and(self, other: UndecodableObjects) -> Self {
        if other.count == 0 {
            return self;
        }
        let mut keys: Vec<ObjectKey> = self.keys.iter().chain(&*other.keys).cloned().collect();
        keys.sort();
        keys.truncate(MAX_KEYS);
        UndecodableObjects { count: self.count + other.count, keys: keys.into() }
    }
}
