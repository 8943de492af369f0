//! A recording with its steps.

use std::collections::HashMap;

use kubewright_core::{MicroTime, Value};
use kubewright_recording::{Applied, Began, Cache, CacheEntry, Entry, Header, Outcome, Recording, Request, Response};

/// A recording with the indices that the page needs.
pub(crate) struct RecordedRun {
    recording: Recording,
    /// The places of the entries that are steps of the time line.
    places: Vec<usize>,
    /// Keys of the changed objects, by the place of the entry.
    keys_at: HashMap<usize, Vec<String>>,
    /// The place at which the key of a reconcile was queued, as far as its reasons tell.
    queued_at: HashMap<u64, usize>,
    began_at: HashMap<u64, usize>,
    ended_at: HashMap<u64, usize>,
    request_at: HashMap<u64, usize>,
}

impl RecordedRun {
    pub(crate) fn new(recording: Recording) -> Self {
        let mut run = RecordedRun {
            recording,
            places: Vec::new(),
            keys_at: HashMap::new(),
            queued_at: HashMap::new(),
            began_at: HashMap::new(),
            ended_at: HashMap::new(),
            request_at: HashMap::new(),
        };
        let mut changed_at: HashMap<String, usize> = HashMap::new();
        for (place, entry) in run.recording.entries().iter().enumerate() {
            match entry {
                Entry::Applied(applied) => {
                    let keys: Vec<String> = applied.changes.iter().map(key_of_change).collect();
                    changed_at.extend(keys.iter().map(|key| (key.clone(), place)));
                    run.keys_at.insert(place, keys);
                }
                Entry::Began(began) => {
                    run.began_at.insert(began.reconcile, place);
                    let objects = began.reasons.iter().filter_map(|reason| reason.object.as_ref());
                    if let Some(queued) = objects.filter_map(|key| changed_at.get(key)).min() {
                        run.queued_at.insert(began.reconcile, *queued);
                    }
                }
                Entry::Ended(ended) => {
                    run.ended_at.insert(ended.reconcile, place);
                }
                Entry::Request(request) => {
                    run.request_at.insert(request.request, place);
                }
                Entry::Response(_) => {}
                _ => continue,
            }
            run.places.push(place);
        }
        run
    }

    pub(crate) fn header(&self) -> &Header {
        self.recording.header()
    }

    /// The number of steps. Step 0 is before the first.
    pub(crate) fn steps(&self) -> usize {
        self.places.len()
    }

    /// The entry that a step ends with.
    pub(crate) fn entry_of(&self, step: usize) -> Option<&Entry> {
        Some(&self.recording.entries()[*self.places.get(step.checked_sub(1)?)?])
    }

    pub(crate) fn place_of(&self, step: usize) -> Option<usize> {
        self.places.get(step.checked_sub(1)?).copied()
    }

    /// The step that sends a request.
    pub(crate) fn step_of_request(&self, number: u64) -> Option<usize> {
        Some(self.step_of(*self.request_at.get(&number)?))
    }

    /// The entries up to a step, with their places.
    pub(crate) fn until(&self, step: usize) -> impl DoubleEndedIterator<Item = (usize, &Entry)> {
        let end = step.checked_sub(1).and_then(|last| self.places.get(last)).map_or(0, |place| place + 1);
        self.recording.entries()[..end].iter().enumerate()
    }

    /// The first step that includes a place.
    pub(crate) fn step_of(&self, place: usize) -> usize {
        self.places.partition_point(|other| *other < place) + 1
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        self.recording.entries()
    }

    pub(crate) fn keys_at(&self, place: usize) -> &[String] {
        self.keys_at.get(&place).map(Vec::as_slice).unwrap_or_default()
    }

    /// The reconciles that begin later, with the place at which their keys were queued.
    pub(crate) fn queued(&self) -> impl Iterator<Item = (u64, usize)> {
        self.queued_at.iter().map(|(number, place)| (*number, *place))
    }

    pub(crate) fn began(&self, reconcile: u64) -> Option<(usize, &Began)> {
        let place = *self.began_at.get(&reconcile)?;
        match &self.recording.entries()[place] {
            Entry::Began(began) => Some((place, began)),
            _ => None,
        }
    }

    pub(crate) fn ended(&self, reconcile: u64) -> Option<(usize, i64, &Outcome)> {
        let place = *self.ended_at.get(&reconcile)?;
        match &self.recording.entries()[place] {
            Entry::Ended(ended) => Some((place, ended.at, &ended.outcome)),
            _ => None,
        }
    }

    pub(crate) fn request(&self, number: u64) -> Option<&Request> {
        match &self.recording.entries()[*self.request_at.get(&number)?] {
            Entry::Request(request) => Some(request),
            _ => None,
        }
    }

    pub(crate) fn response(&self, number: u64) -> Option<&Response> {
        let from = *self.request_at.get(&number)?;
        self.recording.entries()[from..].iter().find_map(|entry| match entry {
            Entry::Response(response) if response.request == number => Some(response),
            _ => None,
        })
    }

    /// The steps at which reconciles failed.
    pub(crate) fn failures(&self) -> Vec<usize> {
        let failed = self.recording.entries().iter().enumerate().filter_map(|(place, entry)| match entry {
            Entry::Ended(ended) if matches!(ended.outcome, Outcome::Failed(_)) => Some(self.step_of(place)),
            _ => None,
        });
        failed.collect()
    }

    /// One line about an entry.
    pub(crate) fn describe(&self, place: usize) -> String {
        match &self.recording.entries()[place] {
            Entry::Applied(Applied { cache, changes, .. }) => {
                let keys = self.keys_at(place);
                let resource = self.cache(*cache).map(resource_of).unwrap_or_default();
                match (changes.as_slice(), keys) {
                    ([], _) => format!("{resource}: synced"),
                    ([CacheEntry::Set(_)], [key]) => format!("{resource}: {key}"),
                    ([CacheEntry::Deleted(_)], [key]) => format!("{resource}: {key} deleted"),
                    (changes, _) => format!("{resource}: {} changes", changes.len()),
                }
            }
            Entry::Began(began) => format!("{} {}", began.controller, began.key),
            Entry::Request(request) => format!("{} {}", request.method, request.path),
            Entry::Response(response) => {
                let sent = self.request(response.request);
                let (method, path) = sent.map_or(("", ""), |request| (&request.method, &request.path));
                match &response.error {
                    Some(error) => format!("{method} {path}: {error}"),
                    None => format!("{} {method} {path}", response.status),
                }
            }
            Entry::Ended(ended) => {
                let began = self.began(ended.reconcile);
                let (controller, key) = began.map_or(("", ""), |(_, began)| (&began.controller, &began.key));
                match &ended.outcome {
                    Outcome::Failed(error) => format!("{controller} {key}: {error}"),
                    Outcome::Requeue(Some(delay)) => format!("{controller} {key}, again after {} ms", delay / 1000),
                    _ => format!("{controller} {key}"),
                }
            }
            _ => String::new(),
        }
    }

    pub(crate) fn cache(&self, number: u64) -> Option<&Cache> {
        self.recording.entries().iter().find_map(|entry| match entry {
            Entry::Cache(cache) if cache.cache == number => Some(cache),
            _ => None,
        })
    }
}

/// The resource of a cache, such as `deployments.apps`.
pub(crate) fn resource_of(cache: &Cache) -> String {
    if cache.group.is_empty() { cache.resource.clone() } else { format!("{}.{}", cache.resource, cache.group) }
}

/// A time in RFC 3339.
pub(crate) fn time_of(micros: i64) -> String {
    MicroTime::from_unix_micros(micros).map(|time| time.to_string()).unwrap_or_default()
}

fn key_of_change(change: &CacheEntry) -> String {
    match change {
        CacheEntry::Deleted(key) => key.clone(),
        CacheEntry::Set(json) => {
            let object = Value::from_json(json.get().as_bytes()).unwrap_or_default();
            let metadata = object.get("metadata");
            let text = |name: &str| metadata.and_then(|metadata| metadata.get(name)?.as_str()).unwrap_or_default();
            match text("namespace") {
                "" => text("name").to_owned(),
                namespace => format!("{namespace}/{}", text("name")),
            }
        }
    }
}
