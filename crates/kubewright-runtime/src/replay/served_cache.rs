//! The objects of one recorded cache.
//!
//! A list shows them as they are at the time of the request. Later changes are written to the
//! caches of the replayed program directly, so that a read sees exactly the recorded generation.
//! Watches are therefore silent.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use kubewright_core::{ObjectKey, Value};
use kubewright_net::observation::CacheWriter;
use kubewright_recording::{Cache, CacheEntry, Entry};

/// A cache at one point of the recording.
pub(super) struct ServedCache {
    pub(super) scope: Cache,
    /// By key.
    objects: BTreeMap<String, Value>,
    version: String,
    /// The places of changes that the cache does not show yet.
    waiting: VecDeque<usize>,
    /// The caches of the replayed program.
    writers: Vec<Box<dyn CacheWriter>>,
}

impl ServedCache {
    pub(super) fn new(scope: Cache, entries: &[Entry]) -> Self {
        let is_of = |entry: &Entry| matches!(entry, Entry::Applied(applied) if applied.cache == scope.cache);
        let waiting = entries.iter().enumerate().filter(|(_, entry)| is_of(entry)).map(|(place, _)| place).collect();
        ServedCache { scope, objects: BTreeMap::new(), version: "0".to_owned(), waiting, writers: Vec::new() }
    }

    pub(super) fn add_writer(&mut self, writer: Box<dyn CacheWriter>) {
        self.writers.push(writer);
    }

    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.objects.get(key)
    }

    /// Applies all changes up to a place.
    pub(super) fn catch_up_to_place(&mut self, entries: &[Entry], last: usize) {
        while let Some(place) = self.waiting.front().copied().filter(|place| *place <= last) {
            self.apply(entries, place);
        }
    }

    /// Applies all changes up to a generation.
    pub(super) fn catch_up_to_generation(&mut self, entries: &[Entry], last: u64) {
        let is_due = |place: &usize| matches!(&entries[*place], Entry::Applied(applied) if applied.generation <= last);
        while let Some(place) = self.waiting.front().copied().filter(is_due) {
            self.apply(entries, place);
        }
    }

    /// Applies the first of the waiting changes.
    fn apply(&mut self, entries: &[Entry], place: usize) {
        self.waiting.pop_front();
        let Entry::Applied(applied) = &entries[place] else { return };
        for change in &applied.changes {
            match change {
                CacheEntry::Set(json) => {
                    let Ok(object) = Value::from_json(json.get().as_bytes()) else { continue };
                    self.writers.iter().for_each(|writer| writer.set(json.get().as_bytes()));
                    self.objects.insert(key_of(&object), object);
                }
                CacheEntry::Deleted(key) => {
                    self.objects.remove(key.as_str());
                    if let Ok(key) = key.parse::<ObjectKey>() {
                        self.writers.iter().for_each(|writer| writer.delete(&key));
                    }
                }
            }
        }
        if !applied.version.is_empty() {
            self.version.clone_from(&applied.version);
        }
    }

    /// The objects of a namespace, or all, as a list.
    pub(super) fn list(&self, namespace: &str) -> Bytes {
        let items: Vec<String> = self.of(namespace).map(ToString::to_string).collect();
        let kind = self.objects.values().next().and_then(|object| object.get("kind")?.as_str()).unwrap_or_default();
        let (api_version, version) = (self.api_version(), Value::from(self.version.as_str()));
        let list = format!(
            r#"{{"kind":"{kind}List","apiVersion":"{api_version}","metadata":{{"resourceVersion":{version}}},"items":[{}]}}"#,
            items.join(",")
        );
        list.into()
    }

    /// The objects as the beginning of a watch, with the bookmark that ends it.
    pub(super) fn initial_events(&self, namespace: &str) -> Bytes {
        let mut events = String::new();
        for object in self.of(namespace) {
            events += &format!("{{\"type\":\"ADDED\",\"object\":{object}}}\n");
        }
        let kind = self.objects.values().next().and_then(|object| object.get("kind")?.as_str()).unwrap_or_default();
        events += &format!(
            r#"{{"type":"BOOKMARK","object":{{"kind":"{kind}","apiVersion":"{}","metadata":{{"resourceVersion":{},"annotations":{{"k8s.io/initial-events-end":"true"}}}}}}}}"#,
            self.api_version(),
            Value::from(self.version.as_str()),
        );
        events.push('\n');
        events.into()
    }

    fn of<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a Value> {
        let prefix = format!("{namespace}/");
        let is_in = move |key: &str| namespace.is_empty() || key.starts_with(&prefix);
        self.objects.iter().filter(move |(key, _)| is_in(key)).map(|(_, object)| object)
    }

    fn api_version(&self) -> String {
        let Cache { group, version, .. } = &self.scope;
        if group.is_empty() { version.clone() } else { format!("{group}/{version}") }
    }
}

/// `namespace/name`, or the name of a cluster-scoped object.
pub(super) fn key_of(object: &Value) -> String {
    let text =
        |name: &str| object.get("metadata").and_then(|metadata| metadata.get(name)?.as_str()).unwrap_or_default();
    match text("namespace") {
        "" => text("name").to_owned(),
        namespace => format!("{namespace}/{}", text("name")),
    }
}
