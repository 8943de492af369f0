//! Reconciles and objects of a recording.

use kubewright_core::Value;
use kubewright_recording::{Body, CacheEntry, Entry, Outcome};
use kubewright_runtime::object_history::changed_lines;
use serde::Serialize;
use serde_json::value::RawValue;

use super::run::{RecordedRun, resource_of, time_of};
use crate::observed::ObservedReconcile;
use crate::pipeline::ControllerLane;
use crate::secret_fields::LAST_APPLIED;

/// Number of reconciles in the detail of a controller.
const RECENT: usize = 500;

/// A finished reconcile.
pub(crate) fn finished(run: &RecordedRun, number: u64) -> Option<ObservedReconcile> {
    let (_, began) = run.began(number)?;
    let (_, at, outcome) = run.ended(number)?;
    let reasons: Vec<String> = began
        .reasons
        .iter()
        .map(|reason| {
            let object = reason.object.as_ref().map(|key| format!(" {key}")).unwrap_or_default();
            format!("{}{object} {}", reason.source, reason.kind)
        })
        .collect();
    Some(ObservedReconcile {
        controller: began.controller.clone(),
        key: began.key.clone(),
        ended: time_of(at),
        milliseconds: (at - began.at) as f64 / 1000.0,
        reasons: reasons.join(", "),
        attempt: began.attempt,
        requeue_after: match outcome {
            Outcome::Requeue(delay) => Some(delay.unwrap_or_default() as f64 / 1000.0),
            _ => None,
        },
        error: match outcome {
            Outcome::Failed(error) => Some(error.clone()),
            Outcome::Dropped => Some("dropped before its end".to_owned()),
            Outcome::Done | Outcome::Requeue(_) => None,
        },
        number: Some(number),
    })
}

/// A controller at a step.
#[derive(Serialize)]
pub(crate) struct RecordedController {
    #[serde(flatten)]
    lane: ControllerLane,
    recent: Vec<ObservedReconcile>,
}

impl RecordedController {
    pub(crate) fn new(run: &RecordedRun, step: usize, lane: ControllerLane, name: &str) -> Self {
        let ended = run.until(step).rev().filter_map(|(_, entry)| match entry {
            Entry::Ended(ended) => finished(run, ended.reconcile).filter(|reconcile| reconcile.controller == name),
            _ => None,
        });
        RecordedController { lane, recent: ended.take(RECENT).collect() }
    }
}

/// A request with its response.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RequestView {
    step: usize,
    method: String,
    path: String,
    body: Option<Box<RawValue>>,
    status: Option<u16>,
    response: Option<Box<RawValue>>,
    error: Option<String>,
    reconcile: Option<u64>,
}

impl RequestView {
    pub(crate) fn of(run: &RecordedRun, number: u64) -> Option<Self> {
        let (request, response) = (run.request(number)?, run.response(number));
        Some(RequestView {
            step: run.step_of_request(number)?,
            method: request.method.clone(),
            path: request.path.clone(),
            body: shown(request.body.as_ref()),
            status: response.map(|response| response.status),
            response: response.and_then(|response| shown(response.body.as_ref())),
            error: response.and_then(|response| response.error.clone()),
            reconcile: request.reconcile,
        })
    }

    pub(crate) fn reconcile(&self) -> Option<u64> {
        self.reconcile
    }
}

fn shown(body: Option<&Body>) -> Option<Box<RawValue>> {
    match body? {
        Body::Json(json) => Some(json.clone()),
        Body::Text(text) => serde_json::value::to_raw_value(text).ok(),
        Body::Omitted(_) => None,
    }
}

/// One reconcile with what it read and wrote.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RecordedReconcile {
    number: u64,
    controller: String,
    key: String,
    step: usize,
    ended: Option<ObservedReconcile>,
    /// The versions of the caches that it read, such as `pods @ 17`.
    reads: Vec<String>,
    clock: Vec<String>,
    random: Vec<String>,
    requests: Vec<RequestView>,
}

impl RecordedReconcile {
    pub(crate) fn find(run: &RecordedRun, number: u64) -> Option<Self> {
        let (place, began) = run.began(number)?;
        let end = run.ended(number).map_or(run.entries().len(), |(place, ..)| place + 1);
        let mut found = RecordedReconcile {
            number,
            controller: began.controller.clone(),
            key: began.key.clone(),
            step: run.step_of(place),
            ended: finished(run, number),
            reads: Vec::new(),
            clock: Vec::new(),
            random: Vec::new(),
            requests: Vec::new(),
        };
        for entry in run.entries()[place..end].iter().filter(|entry| entry.reconcile() == Some(number)) {
            match entry {
                Entry::Read(read) => {
                    let name = run.cache(read.cache).map(resource_of).unwrap_or_default();
                    let version = version_at(run, read.cache, read.generation);
                    found.reads.push(format!("{name} @ {version}"));
                }
                Entry::Clock(clock) => found.clock.push(time_of(clock.reading)),
                Entry::Random(random) => found.random.push(random.draw.to_string()),
                Entry::Request(request) => found.requests.extend(RequestView::of(run, request.request)),
                _ => {}
            }
        }
        Some(found)
    }
}

/// The object; a Secret without its contents, which may have been recorded.
fn without_contents(mut object: Value) -> Value {
    if object.get("kind").and_then(Value::as_str) == Some("Secret")
        && let Some(fields) = object.as_object_mut()
    {
        for field in ["data", "stringData"] {
            if fields.get(field).is_some() {
                fields.insert(field, "<redacted>".into());
            }
        }
        if let Some(annotations) =
            fields.get_mut("metadata").and_then(|metadata| metadata.as_object_mut()?.get_mut("annotations"))
        {
            annotations.as_object_mut().map(|annotations| annotations.remove(LAST_APPLIED));
        }
    }
    object
}

/// The resource version of a cache at a generation.
fn version_at(run: &RecordedRun, cache: u64, generation: u64) -> String {
    let mut of_cache = run.entries().iter().filter_map(|entry| match entry {
        Entry::Applied(applied) if applied.cache == cache && applied.generation <= generation => Some(&applied.version),
        _ => None,
    });
    of_cache.next_back().cloned().unwrap_or_default()
}

/// An object as the caches have shown it up to a step, in the form of the live page.
#[derive(Serialize)]
pub(crate) struct RecordedObject {
    kind: String,
    resource: String,
    key: String,
    yaml: Option<String>,
    versions: Vec<RecordedVersion>,
    events: Vec<String>,
    reconciles: Vec<ObservedReconcile>,
    tree: Option<()>,
}

#[derive(Serialize)]
struct RecordedVersion {
    version: String,
    change: &'static str,
    writers: Vec<String>,
    differences: Vec<String>,
    step: usize,
}

impl RecordedObject {
    /// `resource` is a resource with or without its group, or the name of a controller.
    pub(crate) fn find(run: &RecordedRun, step: usize, resource: &str, key: &str) -> Option<Self> {
        let is_named = |cache: u64| {
            run.cache(cache).is_some_and(|cache| cache.resource == resource || resource_of(cache) == resource)
        };
        let has_key = |place: usize| run.keys_at(place).iter().any(|other| other == key);
        let caches = || {
            run.until(step).filter_map(|(place, entry)| match entry {
                Entry::Applied(applied) if has_key(place) => Some(applied.cache),
                _ => None,
            })
        };
        // The keys of a controller belong to its main kind, whose name a recording does not have.
        let cache = caches().find(|cache| is_named(*cache)).or_else(|| caches().next())?;
        let (mut versions, mut before) = (Vec::new(), Value::Null);
        for (place, entry) in run.until(step) {
            let Entry::Applied(applied) = entry else { continue };
            if applied.cache != cache {
                continue;
            }
            for (change, _) in applied.changes.iter().zip(run.keys_at(place)).filter(|(_, other)| *other == key) {
                let after = match change {
                    CacheEntry::Set(json) => {
                        without_contents(Value::from_json(json.get().as_bytes()).unwrap_or_default())
                    }
                    CacheEntry::Deleted(_) => Value::Null,
                };
                let (change, differences) = match (before.is_null(), after.is_null()) {
                    (_, true) => ("deleted", Vec::new()),
                    (true, false) => ("created", changed_lines(&before, &after)),
                    (false, false) => ("updated", changed_lines(&before, &after)),
                };
                let version = after.get("metadata").and_then(|metadata| metadata.get("resourceVersion")?.as_str());
                let version = version.unwrap_or(&applied.version).to_owned();
                versions.push(RecordedVersion {
                    version,
                    change,
                    writers: Vec::new(),
                    differences,
                    step: run.step_of(place),
                });
                before = after;
            }
        }
        versions.reverse();
        let yaml = (!before.is_null()).then(|| {
            let mut object = before.clone();
            if let Some(metadata) = object.as_object_mut().and_then(|object| object.get_mut("metadata")) {
                metadata.as_object_mut().map(|metadata| metadata.remove("managedFields"));
            }
            let mut yaml = String::new();
            kubewright_yaml::write(&object, &mut yaml);
            yaml
        });
        let reconciles = run.until(step).rev().filter_map(|(_, entry)| match entry {
            Entry::Ended(ended) => finished(run, ended.reconcile).filter(|reconcile| reconcile.key == key),
            _ => None,
        });
        let kind = before.get("kind").and_then(Value::as_str).unwrap_or(resource).to_owned();
        Some(RecordedObject {
            kind,
            resource: run.cache(cache).map(resource_of).unwrap_or_default(),
            key: key.to_owned(),
            yaml,
            versions,
            events: Vec::new(),
            reconciles: reconciles.take(RECENT).collect(),
            tree: None,
        })
    }
}
