//! A stored value at one revision, and what one write did to it.

use std::sync::Arc;

use super::Key;

/// A value and the revision of the write that made it.
#[derive(Debug)]
pub struct Entry<V> {
    /// The value, shared with the store, the log and all other readers.
    pub object: Arc<V>,
    /// The revision of the write that made this value.
    pub revision: u64,
}

impl<V> Clone for Entry<V> {
    fn clone(&self) -> Self {
        Entry { object: Arc::clone(&self.object), revision: self.revision }
    }
}

/// What one write did.
#[derive(Debug)]
pub struct Event<V> {
    /// The object that was written.
    pub key: Key,
    /// What happened to it.
    pub kind: EventKind,
    /// The value after the write; for a deletion, the last value as the deleter stamped it.
    pub object: Arc<V>,
    /// What was there before. Absent exactly when the object was created.
    pub previous: Option<Entry<V>>,
    /// The revision of the write. No other event has the same.
    pub revision: u64,
}

impl<V> Clone for Event<V> {
    fn clone(&self) -> Self {
        let Event { key, kind, object, previous, revision } = self;
        Event {
            key: key.clone(),
            kind: *kind,
            object: Arc::clone(object),
            previous: previous.clone(),
            revision: *revision,
        }
    }
}

/// What can happen to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// There was none, now there is one.
    Created,
    /// It has a new value.
    Modified,
    /// It is gone.
    Deleted,
}
