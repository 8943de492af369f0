//! Keys and values as a backend keeps them: text and bytes.

use std::sync::Arc;

use crate::event::{EventKind, StoreEvent, VersionedValue};

/// A value that a backend can keep as JSON.
pub trait Encoded {
    /// The JSON from which the value can be restored, shared with the value.
    fn to_json(&self) -> Arc<[u8]>;
}

/// A value and its revision, as JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredVersion {
    /// The revision of the write that made the value.
    pub revision: u64,
    /// The value.
    pub json: Arc<[u8]>,
}

/// A key of the store and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRecord {
    /// The resource of the key.
    pub resource: String,
    /// The path of the key in its resource.
    pub path: String,
    /// The current value.
    pub version: StoredVersion,
}

/// A write: the new value of a key and the one before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteRecord {
    /// The resource of the key.
    pub resource: String,
    /// The path of the key in its resource.
    pub path: String,
    /// The revision of the write.
    pub revision: u64,
    /// The kind of the write.
    pub kind: EventKind,
    /// The new value; of a deletion, the last one.
    pub json: Arc<[u8]>,
    /// The value before the write.
    pub previous: Option<StoredVersion>,
}

/// An event of the log as the file holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRecord {
    /// The resource of the key.
    pub resource: String,
    /// The path of the key in its resource.
    pub path: String,
    /// The revision of the write.
    pub revision: u64,
    /// The kind of the write.
    pub kind: EventKind,
    /// The last value of a deletion; empty for other kinds.
    pub last: Arc<[u8]>,
    /// The value before the write.
    pub previous: Option<StoredVersion>,
}

/// A record that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The resource of the key.
    pub resource: String,
    /// The path of the key in its resource.
    pub path: String,
    /// Why it cannot be used.
    pub reason: String,
}

/// The value to give back to a key whose write has failed. None removes the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undo {
    /// The resource of the key.
    pub resource: String,
    /// The path of the key in its resource.
    pub path: String,
    /// The committed value.
    pub version: Option<StoredVersion>,
}

/// The content of a data file.
#[derive(Debug, Default)]
pub struct DataFileContents {
    /// The revision to go on from; none if the file is new.
    pub revision: Option<u64>,
    /// The current objects.
    pub objects: Vec<StoredRecord>,
    /// The newest events, ascending and complete up to `revision`.
    pub events: Vec<EventRecord>,
    /// Records that cannot be used.
    pub damaged: Vec<Damage>,
}

impl DataFileContents {
    /// The number of bytes of all keys and values.
    pub(crate) fn size(&self) -> u64 {
        let objects = self.objects.iter().map(|object| {
            let key = object.resource.len() + object.path.len();
            key + object.version.json.len()
        });
        let events = self.events.iter().map(|event| {
            let key = event.resource.len() + event.path.len();
            key + event.last.len() + event.previous.as_ref().map_or(0, |previous| previous.json.len())
        });
        objects.chain(events).sum::<usize>() as u64
    }
}

impl StoredVersion {
    /// A stored value as its bytes.
    pub fn of<V: Encoded>(entry: &VersionedValue<V>) -> Self {
        StoredVersion { revision: entry.revision, json: entry.object.to_json() }
    }
}

impl WriteRecord {
    /// The record of an event.
    pub fn of<V: Encoded>(event: &StoreEvent<V>) -> Self {
        let (resource, path) = event.key.parts();
        WriteRecord {
            resource: resource.to_owned(),
            path: path.to_owned(),
            revision: event.revision,
            kind: event.kind,
            json: event.object.to_json(),
            previous: event.previous.as_ref().map(StoredVersion::of),
        }
    }
}
