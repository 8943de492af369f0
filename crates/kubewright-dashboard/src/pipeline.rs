//! The snapshot of informers and queues that the page receives.

use std::error::Error;

use kubewright_cache::{HealthState, InformerState};
use kubewright_workqueue::QueueView;
use serde::Serialize;
use tokio::time::Instant;

use crate::observed::{Observed, ObservedReconcile, ReconcileCounts, milliseconds, now};

/// All informers and controllers at one moment.
#[derive(Debug, Serialize)]
pub(crate) struct Pipeline {
    time: String,
    informers: Vec<InformerLane>,
    controllers: Vec<ControllerLane>,
    /// The reconciles since the last snapshot. Some are missing if there were many.
    finished: Vec<ObservedReconcile>,
    /// The number of all reconciles since the last snapshot.
    finished_count: u64,
}

/// An informer: reflector, DeltaFIFO, indexer and handlers.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InformerLane {
    name: String,
    /// The state of the reflector.
    state: &'static str,
    /// How long it has been in this state, in milliseconds.
    state_milliseconds: f64,
    has_synced: bool,
    objects: usize,
    resource_version: String,
    /// Number of objects with deltas in the DeltaFIFO.
    queued: usize,
    /// Number of events that wait for the slowest handler.
    handler_lag: usize,
    batches: u64,
    lists: u64,
    failures: u32,
    undecodable: usize,
    /// Time since the server sent anything, in milliseconds.
    silence_milliseconds: Option<f64>,
    last_error: Option<String>,
}

/// A controller: its work queue and its workers.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ControllerLane {
    name: String,
    waiting: Keys,
    processing: Keys,
    delayed: Keys,
    /// Keys among those that are shown which were added again while they are processed.
    dirty: Vec<String>,
    /// Whether its workers are paused.
    is_paused: bool,
    #[serde(flatten)]
    counts: ReconcileCounts,
}

/// Keys of one kind in a queue.
#[derive(Debug, Serialize)]
pub(crate) struct Keys {
    pub(crate) count: usize,
    pub(crate) first: Vec<QueuedKey>,
}

/// A key in a queue.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueuedKey {
    pub(crate) key: String,
    /// How long it has been waiting or processed, in milliseconds.
    pub(crate) age: Option<f64>,
    /// When a delayed key is due, in milliseconds.
    pub(crate) due: Option<f64>,
    pub(crate) retries: u32,
    pub(crate) priority: i32,
}

impl Pipeline {
    /// A snapshot with at most `limit` keys of each kind. Takes the reconciles since the last one.
    pub(crate) fn take(observed: &Observed, limit: usize) -> Self {
        let (finished, finished_count) = observed.sender().take_sample();
        Pipeline { finished, finished_count, ..Pipeline::peek(observed, limit) }
    }

    /// Like [`take`](Self::take), without reconciles.
    pub(crate) fn peek(observed: &Observed, limit: usize) -> Self {
        let sender = observed.sender();
        let informers = observed.factories.iter().flat_map(|factory| factory.informers());
        Pipeline {
            time: now(),
            informers: informers.map(InformerLane::of).collect(),
            controllers: observed
                .views(limit)
                .into_iter()
                .map(|(name, view)| {
                    let counts = sender.counts(&name);
                    let is_paused = observed.gate(&name).is_some_and(|gate| gate.is_paused());
                    ControllerLane { is_paused, ..ControllerLane::of(name, view, counts) }
                })
                .collect(),
            finished: Vec::new(),
            finished_count: 0,
        }
    }
}

impl Pipeline {
    /// A moment of a recording.
    pub(crate) fn recorded(
        time: String,
        informers: Vec<InformerLane>,
        controllers: Vec<ControllerLane>,
        finished: Vec<ObservedReconcile>,
    ) -> Self {
        let finished_count = finished.len() as u64;
        Pipeline { time, informers, controllers, finished, finished_count }
    }
}

impl InformerLane {
    /// A cache of a recording, which has no queues before the store.
    pub(crate) fn recorded(name: String, has_synced: bool, objects: usize, version: String, batches: u64) -> Self {
        InformerLane {
            name,
            state: if has_synced { "watching" } else { "listing" },
            state_milliseconds: 0.0,
            has_synced,
            objects,
            resource_version: version,
            queued: 0,
            handler_lag: 0,
            batches,
            lists: 0,
            failures: 0,
            undecodable: 0,
            silence_milliseconds: None,
            last_error: None,
        }
    }

    fn of(informer: InformerState) -> Self {
        let health = informer.health.as_ref();
        InformerLane {
            state: state_of(health.map(|health| health.state)),
            state_milliseconds: health.map_or(0.0, |health| milliseconds(health.since.elapsed())),
            has_synced: informer.has_synced,
            objects: informer.objects,
            resource_version: informer.resource_version.as_str().to_owned(),
            queued: informer.queued,
            handler_lag: informer.handler_lag,
            batches: informer.batches,
            lists: health.map_or(0, |health| health.lists),
            failures: health.map_or(0, |health| health.failures),
            undecodable: health.map_or(0, |health| health.undecodable.count),
            silence_milliseconds: health.and_then(|health| health.silence()).map(milliseconds),
            last_error: health.and_then(|health| health.last_error.as_ref()).map(|(error, _)| chain(&**error)),
            name: informer.name,
        }
    }
}

/// The name of a state, as in the API of the page.
fn state_of(state: Option<HealthState>) -> &'static str {
    match state {
        None | Some(HealthState::Idle) => "idle",
        Some(HealthState::Listing) => "listing",
        Some(HealthState::Watching) => "watching",
        Some(HealthState::BackingOff) => "backing-off",
        Some(HealthState::Absent) => "absent",
        Some(HealthState::Stopped) => "stopped",
        Some(_) => "unknown",
    }
}

impl ControllerLane {
    /// A controller of a recording.
    pub(crate) fn recorded(
        name: String,
        waiting: Keys,
        processing: Keys,
        delayed: Keys,
        dirty: Vec<String>,
        counts: ReconcileCounts,
    ) -> Self {
        ControllerLane { name, waiting, processing, delayed, dirty, is_paused: false, counts }
    }

    fn of(name: String, view: QueueView<String>, counts: ReconcileCounts) -> Self {
        let now = Instant::now();
        let age = |since: Option<Instant>| since.map(|since| milliseconds(now.saturating_duration_since(since)));
        let dirty = view.processing.iter().filter(|key| key.is_dirty).map(|key| key.key.clone()).collect();
        let waiting = view.waiting.into_iter().map(|key| QueuedKey {
            age: age(key.since),
            due: None,
            retries: key.retries,
            priority: key.priority,
            key: key.key,
        });
        let processing = view.processing.into_iter().map(|key| QueuedKey {
            age: age(key.since),
            due: None,
            retries: key.retries,
            priority: 0,
            key: key.key,
        });
        let delayed = view.delayed.into_iter().map(|key| QueuedKey {
            age: None,
            due: Some(milliseconds(key.until.saturating_duration_since(now))),
            retries: key.retries,
            priority: 0,
            key: key.key,
        });
        ControllerLane {
            name,
            waiting: Keys { count: view.waiting_count, first: waiting.collect() },
            processing: Keys { count: view.processing_count, first: processing.collect() },
            delayed: Keys { count: view.delayed_count, first: delayed.collect() },
            dirty,
            is_paused: false,
            counts,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl Pipeline {
    /// The lane of a controller.
    pub(crate) fn into_controller(self, name: &str) -> Option<ControllerLane> {
        self.controllers.into_iter().find(|lane| lane.name() == name)
    }
}

/// An error with its causes.
pub(crate) fn chain(error: &dyn Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", chain(source)),
        None => error.to_string(),
    }
}
