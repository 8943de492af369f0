//! The pipeline of a recorded program at a step.

use std::collections::{BTreeMap, HashMap, HashSet};

use kubewright_recording::{CacheEntry, Entry, Outcome};
use serde::Serialize;

use super::run::{RecordedRun, resource_of, time_of};
use super::view::{RequestView, finished};
use crate::observed::{ObservedReconcile, ReconcileCounts};
use crate::pipeline::{ControllerLane, InformerLane, Keys, Pipeline, QueuedKey};

/// Number of reconciles that a lane shows as just ended.
const ENDED: usize = 12;

/// Number of entries before and after the current one that are listed.
const NEIGHBOURS: usize = 12;

/// The program at a step, and the entry that led to it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Moment {
    step: usize,
    time: String,
    /// Microseconds since the start of the recording.
    elapsed: i64,
    pipeline: Pipeline,
    nearby: Vec<NearbyEntry>,
    /// The request of the step, if it sends or answers one.
    request: Option<RequestView>,
    /// The reconcile of the step, if it belongs to one.
    reconcile: Option<u64>,
}

/// An entry in the list of the page.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NearbyEntry {
    step: usize,
    kind: &'static str,
    text: String,
    reconcile: Option<u64>,
    is_current: bool,
    has_failed: bool,
}

/// The contents of a cache at a step.
#[derive(Default)]
struct CacheExtent {
    keys: HashSet<String>,
    version: String,
    batches: u64,
}

/// The keys and counts of a controller at a step.
#[derive(Default)]
struct LaneExtent {
    counts: ReconcileCounts,
    processing: Vec<QueuedKey>,
    waiting: Vec<QueuedKey>,
    delayed: Vec<QueuedKey>,
}

impl Moment {
    pub(crate) fn at(run: &RecordedRun, step: usize) -> Self {
        let now = run.until(step).rev().find_map(|(_, entry)| entry.at()).unwrap_or(run.header().started);
        let pipeline =
            Pipeline::recorded(time_of(now), informers(run, step), controllers(run, step, now), ended(run, step));
        let entry = run.entry_of(step);
        let request = match entry {
            Some(Entry::Request(request)) => RequestView::of(run, request.request),
            Some(Entry::Response(response)) => RequestView::of(run, response.request),
            _ => None,
        };
        Moment {
            step,
            time: time_of(now),
            elapsed: now - run.header().started,
            pipeline,
            nearby: nearby(run, step),
            reconcile: entry.and_then(Entry::reconcile).or_else(|| request.as_ref()?.reconcile()),
            request,
        }
    }

    pub(crate) fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    pub(crate) fn into_controller(self, name: &str) -> Option<ControllerLane> {
        self.pipeline.into_controller(name)
    }
}

fn nearby(run: &RecordedRun, step: usize) -> Vec<NearbyEntry> {
    let (first, last) = (step.saturating_sub(NEIGHBOURS).max(1), (step + NEIGHBOURS).min(run.steps()));
    let of_step = |other: usize| {
        let entry = run.entry_of(other)?;
        let (kind, has_failed) = match entry {
            Entry::Applied(_) => ("applied", false),
            Entry::Began(_) => ("began", false),
            Entry::Request(request) if request.is_write() => ("write", false),
            Entry::Request(_) => ("read", false),
            Entry::Response(response) => ("response", response.status == 0 || response.status >= 400),
            Entry::Ended(ended) => ("ended", matches!(ended.outcome, Outcome::Failed(_))),
            _ => return None,
        };
        let reconcile = match entry {
            Entry::Response(response) => run.request(response.request)?.reconcile,
            entry => entry.reconcile(),
        };
        let text = run.describe(run.place_of(other)?);
        Some(NearbyEntry { step: other, kind, text, reconcile, is_current: other == step, has_failed })
    };
    (first..=last).filter_map(of_step).collect()
}

fn informers(run: &RecordedRun, step: usize) -> Vec<InformerLane> {
    let mut names: BTreeMap<u64, String> = BTreeMap::new();
    let mut extents: HashMap<u64, CacheExtent> = HashMap::new();
    for (place, entry) in run.until(step) {
        match entry {
            Entry::Cache(cache) => {
                let namespaces = cache.namespaces.join(", ");
                let scope = if namespaces.is_empty() { String::new() } else { format!(" in {namespaces}") };
                names.insert(cache.cache, format!("{}{scope}", resource_of(cache)));
            }
            Entry::Applied(applied) => {
                let extent = extents.entry(applied.cache).or_default();
                for (change, key) in applied.changes.iter().zip(run.keys_at(place)) {
                    match change {
                        CacheEntry::Set(_) => drop(extent.keys.insert(key.clone())),
                        CacheEntry::Deleted(_) => drop(extent.keys.remove(key)),
                    }
                }
                extent.version.clone_from(&applied.version);
                extent.batches += 1;
            }
            _ => {}
        }
    }
    let lane = |(number, name): (u64, String)| {
        let extent = extents.remove(&number);
        let has_synced = extent.is_some();
        let extent = extent.unwrap_or_default();
        InformerLane::recorded(name, has_synced, extent.keys.len(), extent.version, extent.batches)
    };
    names.into_iter().map(lane).collect()
}

fn controllers(run: &RecordedRun, step: usize, now: i64) -> Vec<ControllerLane> {
    let place = run.until(step).next_back().map_or(0, |(place, _)| place);
    let mut lanes: BTreeMap<String, LaneExtent> = BTreeMap::new();
    let mut due: HashMap<(String, String), i64> = HashMap::new();
    let milliseconds = |micros: i64| micros as f64 / 1000.0;
    let key = |key: &str, age: Option<i64>, due: Option<i64>, retries: u32| QueuedKey {
        key: key.to_owned(),
        age: age.map(milliseconds),
        due: due.map(milliseconds),
        retries,
        priority: 0,
    };
    for (_, entry) in run.until(step) {
        match entry {
            Entry::Began(began) => {
                let lane = lanes.entry(began.controller.clone()).or_default();
                lane.processing.push(key(&began.key, Some(now - began.at), None, began.attempt - 1));
                due.remove(&(began.controller.clone(), began.key.clone()));
            }
            Entry::Ended(ended) => {
                let Some((_, began)) = run.began(ended.reconcile) else { continue };
                let lane = lanes.entry(began.controller.clone()).or_default();
                lane.processing.retain(|other| other.key != began.key);
                lane.counts.reconciles += 1;
                lane.counts.errors += u64::from(matches!(ended.outcome, Outcome::Failed(_)));
                if let Outcome::Requeue(Some(delay)) = ended.outcome {
                    let at = ended.at.saturating_add(i64::try_from(delay).unwrap_or(i64::MAX));
                    due.insert((began.controller.clone(), began.key.clone()), at);
                }
            }
            _ => {}
        }
    }
    for ((controller, name), at) in due {
        if let Some(lane) = lanes.get_mut(&controller) {
            lane.delayed.push(key(&name, None, Some((at - now).max(0)), 0));
        }
    }
    for (number, queued) in run.queued() {
        let Some((began_at, began)) = run.began(number).filter(|(began_at, _)| queued <= place && *began_at > place)
        else {
            continue;
        };
        let since = run.entries()[queued].at().unwrap_or(now);
        let lane = lanes.entry(began.controller.clone()).or_default();
        let _ = began_at;
        if !lane.waiting.iter().any(|other| other.key == began.key) {
            lane.waiting.push(key(&began.key, Some(now - since), None, began.attempt - 1));
        }
    }
    let shown = |(name, mut lane): (String, LaneExtent)| {
        let dirty: Vec<String> = lane
            .processing
            .iter()
            .filter(|key| lane.waiting.iter().any(|waiting| waiting.key == key.key))
            .map(|key| key.key.clone())
            .collect();
        // A key that is processed waits in the dirty set, and not in the queue.
        lane.waiting.retain(|key| !dirty.contains(&key.key));
        lane.waiting.sort_by(|one, other| one.key.cmp(&other.key));
        lane.delayed.sort_by(|one, other| one.key.cmp(&other.key));
        let keys = |keys: Vec<QueuedKey>| Keys { count: keys.len(), first: keys };
        ControllerLane::recorded(
            name,
            keys(lane.waiting),
            keys(lane.processing),
            keys(lane.delayed),
            dirty,
            lane.counts,
        )
    };
    lanes.into_iter().map(shown).collect()
}

/// The reconciles that ended last.
fn ended(run: &RecordedRun, step: usize) -> Vec<ObservedReconcile> {
    let ended = run.until(step).rev().filter_map(|(_, entry)| match entry {
        Entry::Ended(ended) => finished(run, ended.reconcile),
        _ => None,
    });
    ended.take(ENDED).collect()
}
