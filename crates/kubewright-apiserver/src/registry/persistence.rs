//! Restores the registry from its data file, and tracks undecodable objects.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kubewright_core::meta::v1::Status;
use tokio::sync::watch as channel;

use super::{Indices, Registry, bounded};
use kubewright_objects::object::StoredObject;
use kubewright_objects::rejection::Rejection;
use kubewright_resources::catalog::Resource;
use kubewright_storage::{
    DataFileContents, Durability, EventKind, EventRecord, Follower, Key, KeyRange, OpenDisk, Store, StoreEvent,
    StoreOptions, StoredRecord, StoredVersion, Undo, VersionedValue,
};

tokio::task_local! {
    /// The first and last revision written by the current task's request.
    static WRITES: Cell<Option<(u64, u64)>>;
}

/// Runs a request. Returns its result with the first and the last revision that it wrote.
pub(crate) async fn track_writes<T>(request: impl Future<Output = T>) -> (T, Option<(u64, u64)>) {
    let tracked = async {
        let answer = request.await;
        (answer, WRITES.with(Cell::get))
    };
    WRITES.scope(Cell::new(None), tracked).await
}

/// Records a write of the current task's request.
pub(super) fn note_write<V>(entry: &VersionedValue<V>) {
    let note = |writes: &Cell<Option<(u64, u64)>>| {
        let first = writes.get().map_or(entry.revision, |(first, _)| first);
        writes.set(Some((first, entry.revision)));
    };
    // The server also writes outside of requests. Ignore those writes.
    let _ = WRITES.try_with(note);
}

/// Stored objects that cannot be decoded, with the reasons.
///
/// Their names stay reserved, and they can be deleted. The garbage collector treats them as
/// existing owners.
#[derive(Default)]
pub(crate) struct UnreadableObjects {
    reasons: Mutex<BTreeMap<Key, String>>,
}

impl UnreadableObjects {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, String>> {
        self.reasons.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, key: Key, reason: String) {
        let resource = key.resource();
        tracing::error!(resource, object = %key, reason, "a stored object cannot be read, and is set aside");
        self.lock().insert(key, reason);
    }

    /// Replaces all of them.
    #[cfg(feature = "etcd")]
    pub(super) fn replace_all(&self, objects: Vec<(Key, String)>) {
        self.lock().clear();
        objects.into_iter().for_each(|(key, reason)| self.add(key, reason));
    }

    pub(crate) fn remove(&self, key: &Key) {
        self.lock().remove(key);
    }

    pub(crate) fn contains(&self, key: &Key) -> bool {
        self.lock().contains_key(key)
    }

    /// The names in a scope, qualified by namespace.
    pub(crate) fn names_in(&self, scope: &KeyRange) -> Vec<String> {
        let name = |key: &Key| match key.namespace() {
            Some(namespace) => format!("{namespace}/{}", key.name()),
            None => key.name().to_owned(),
        };
        self.lock().keys().filter(|key| scope.contains(key)).map(name).collect()
    }

    /// The error for a request for one of these objects.
    pub(super) fn rejection(&self, resource: &Resource, key: &Key) -> Option<Rejection> {
        let reasons = self.lock();
        let reason = reasons.get(key)?;
        let plural = resource.group_resource();
        let message = format!(
            "the stored object {plural} {:?} cannot be read: {reason}. Delete it, or restore a backup",
            key.name()
        );
        Some(Status::internal(message).into())
    }
}

impl Registry {
    /// A registry with the contents of a data file. Its writes go to that file.
    pub(crate) fn restored(
        options: StoreOptions<StoredObject>,
        disk: &OpenDisk,
        contents: DataFileContents,
        stop: channel::Receiver<bool>,
    ) -> Self {
        let indices = Arc::<Indices>::default();
        let options = options.backend(disk.backend()).observer(Arc::clone(&indices));
        let options = match disk.durability() {
            Durability::Immediate => options.commit_when_durable(),
            Durability::Eventual => options,
        };
        let DataFileContents { revision, objects, events, damaged } = contents;
        let unreadable = UnreadableObjects::default();
        for damage in damaged {
            unreadable.add(Key::from_parts(damage.resource, damage.path), damage.reason);
        }
        let mut entries = Vec::with_capacity(objects.len());
        for (key, decoded) in decode_all(objects) {
            match decoded {
                Ok(entry) => {
                    indices.restore(&key, &entry.object, entry.revision);
                    entries.push((key, entry));
                }
                Err(reason) => unreadable.add(key, reason),
            }
        }
        let events = restore_events(events, &entries);
        let options = bounded(options);
        let store = match revision {
            Some(revision) => Store::restore(options, revision, entries, events),
            None => Store::new(options),
        };
        let mut registry = Registry::over(store, indices, stop);
        registry.unreadable = unreadable;
        registry.load_catalog();
        registry
    }
}

impl Follower for Registry {
    fn commit(&self, revision: u64) {
        self.store.commit(revision);
    }

    fn roll_back(&self, fence: &mut dyn FnMut()) -> Vec<Undo> {
        let undone = self.store.roll_back(fence);
        // Events are ordered from newest to oldest, so the value before the oldest one remains.
        let mut before: HashMap<Key, Option<StoredVersion>> = HashMap::new();
        for event in &undone {
            before.insert(event.key.clone(), event.previous.as_ref().map(StoredVersion::of));
        }
        self.load_catalog();
        self.hook_cache.invalidate();
        let undo = |(key, version): (Key, Option<StoredVersion>)| {
            let (resource, path) = key.parts();
            Undo { resource: resource.to_owned(), path: path.to_owned(), version }
        };
        before.into_iter().map(undo).collect()
    }
}

type Decoded = (Key, Result<VersionedValue<StoredObject>, String>);

/// Decodes objects on all CPUs, because startup decodes every object.
fn decode_all(objects: Vec<StoredRecord>) -> Vec<Decoded> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let chunk = objects.len().div_ceil(threads).max(1);
    let mut chunks = Vec::new();
    let mut rest = objects;
    while !rest.is_empty() {
        let tail = rest.split_off(rest.len().saturating_sub(chunk));
        chunks.push(tail);
    }
    let decode_chunk = |chunk: Vec<StoredRecord>| -> Vec<Decoded> {
        let decode_record = |StoredRecord { resource, path, version }| {
            let decoded = decode(version);
            (Key::from_parts(resource, path), decoded)
        };
        chunk.into_iter().map(decode_record).collect()
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = chunks.into_iter().map(|chunk| scope.spawn(move || decode_chunk(chunk))).collect();
        let results = workers.into_iter().rev().map(|worker| match worker.join() {
            Ok(decoded) => decoded,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        results.flatten().collect()
    })
}

fn decode(StoredVersion { revision, json }: StoredVersion) -> Result<VersionedValue<StoredObject>, String> {
    let object = StoredObject::restored(json, revision)?;
    Ok(VersionedValue { object: Arc::new(object), revision })
}

/// Rebuilds the event log in ascending order.
///
/// The file holds the value before each event. The value after it follows from the current objects
/// and later events, so events are rebuilt from newest to oldest.
fn restore_events(
    records: Vec<EventRecord>,
    entries: &[(Key, VersionedValue<StoredObject>)],
) -> Vec<StoreEvent<StoredObject>> {
    let key_of = |record: &EventRecord| Key::from_parts(record.resource.clone(), record.path.clone());
    let mut after: HashMap<Key, Option<VersionedValue<StoredObject>>> =
        records.iter().map(|record| (key_of(record), None)).collect();
    for (key, entry) in entries.iter().filter(|_| !records.is_empty()) {
        if let Some(value) = after.get_mut(key) {
            *value = Some(entry.clone());
        }
    }
    let mut events = Vec::with_capacity(records.len());
    for record in records.into_iter().rev() {
        let Some(event) = restore_event(record, &mut after) else { break };
        events.push(event);
    }
    events.reverse();
    events
}

/// Rebuilds one event. `None` if it contradicts the later events; watches from before it then fail.
fn restore_event(
    record: EventRecord,
    after: &mut HashMap<Key, Option<VersionedValue<StoredObject>>>,
) -> Option<StoreEvent<StoredObject>> {
    let key = Key::from_parts(record.resource, record.path);
    let value = after.get_mut(&key)?;
    let EventRecord { revision, kind, last, previous, .. } = record;
    let object = if kind == EventKind::Deleted {
        Arc::new(StoredObject::restored(last, revision).ok()?)
    } else {
        Arc::clone(&value.as_ref().filter(|entry| entry.revision == revision)?.object)
    };
    let previous = previous.map(decode).transpose().ok()?;
    value.clone_from(&previous);
    Some(StoreEvent::new(key, kind, object, previous, revision))
}
