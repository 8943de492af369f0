//! A stored value at one revision, and what one write did to it.

use std::sync::Arc;

use kubewright_core::Str;

use crate::key::{Key, name_in, namespace_of};

/// A value and the revision of its write.
#[derive(Debug)]
pub struct VersionedValue<V> {
    /// The value, shared with the store, the log and all other readers.
    pub object: Arc<V>,
    /// The revision of the write of this value.
    pub revision: u64,
}

impl<V> Clone for VersionedValue<V> {
    fn clone(&self) -> Self {
        VersionedValue { object: Arc::clone(&self.object), revision: self.revision }
    }
}

/// The effect of one write.
#[derive(Debug)]
pub struct StoreEvent<V> {
    /// The object that was written.
    pub key: Key,
    /// The kind of the write.
    pub kind: EventKind,
    /// The value after the write; for a deletion, the last value as the deleter stamped it.
    pub object: Arc<V>,
    /// The entry before the write. Absent exactly when the object was created.
    pub previous: Option<VersionedValue<V>>,
    /// The revision of the write. It is unique.
    pub revision: u64,
    /// The topics of the object's indexed value, and of its previous one if it differs.
    pub(crate) indexed: [Option<Str>; 2],
}

impl<V> StoreEvent<V> {
    /// The event of an earlier write, for [`Store::restore`](crate::Store::restore).
    pub fn new(key: Key, kind: EventKind, object: Arc<V>, previous: Option<VersionedValue<V>>, revision: u64) -> Self {
        StoreEvent { key, kind, object, previous, revision, indexed: [None, None] }
    }

    /// The value of the key after the write. None if it was deleted.
    pub(crate) fn result(&self) -> Option<VersionedValue<V>> {
        let exists = self.kind != EventKind::Deleted;
        exists.then(|| VersionedValue { object: Arc::clone(&self.object), revision: self.revision })
    }

    /// The paths of all topics narrower than the resource that this event belongs to.
    pub(crate) fn topic_paths(&self) -> impl Iterator<Item = &str> {
        let path = self.key.path().as_str();
        let by_key = [namespace_of(path), Some(path), name_in(path)];
        by_key.into_iter().flatten().chain(self.indexed.iter().flatten().map(Str::as_str))
    }
}

impl<V> Clone for StoreEvent<V> {
    fn clone(&self) -> Self {
        let StoreEvent { key, kind, object, previous, revision, indexed } = self;
        StoreEvent {
            key: key.clone(),
            kind: *kind,
            object: Arc::clone(object),
            previous: previous.clone(),
            revision: *revision,
            indexed: indexed.clone(),
        }
    }
}

/// The kinds of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// The object was created.
    Created,
    /// The object was changed.
    Modified,
    /// The object was deleted.
    Deleted,
}
