//! The observed informers and queues, and the latest reconciles of each controller.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kubewright_cache::SharedInformerFactory;
use kubewright_core::Time;
use kubewright_net::clock;
use kubewright_runtime::{ControllerHandle, Outcome};
use kubewright_workqueue::{Gate, QueueView};
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Number of reconciles that are kept for each controller.
const KEPT: usize = 500;

/// Views of the queues of several controllers.
type Queues = Box<dyn Fn(usize) -> Vec<(String, QueueView<String>)> + Send + Sync>;

/// The gates of several controllers, by name.
type Gates = Box<dyn Fn(&str) -> Option<Arc<Gate>> + Send + Sync>;

/// A finished reconcile, as the page shows it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObservedReconcile {
    /// The name of the controller.
    pub controller: String,
    /// The key.
    pub key: String,
    /// When it ended, in RFC 3339.
    pub ended: String,
    /// Its duration in milliseconds.
    pub milliseconds: f64,
    /// Why it ran. Empty if that is not recorded.
    pub reasons: String,
    /// The attempt: 1 unless it is a retry.
    pub attempt: u32,
    /// The delay in milliseconds after which the key is reconciled again without an error.
    pub requeue_after: Option<f64>,
    /// The error, with its causes.
    pub error: Option<String>,
    /// Its number in a recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
}

impl ObservedReconcile {
    /// A reconcile that has ended now, in the first attempt and without an error.
    pub fn now(controller: impl Into<String>, key: impl Into<String>, elapsed: Duration) -> Self {
        ObservedReconcile {
            controller: controller.into(),
            key: key.into(),
            ended: clock::now_micros().to_string(),
            milliseconds: milliseconds(elapsed),
            reasons: String::new(),
            attempt: 1,
            requeue_after: None,
            error: None,
            number: None,
        }
    }
}

/// A duration in milliseconds.
pub(crate) fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

/// Takes reports of finished reconciles. Clones are the same sender.
#[derive(Debug, Clone, Default)]
pub struct ReconcileSender {
    recent: Arc<Mutex<RecentReconciles>>,
}

/// The latest reconciles.
#[derive(Debug, Default)]
struct RecentReconciles {
    /// By controller, oldest first.
    of_controller: BTreeMap<String, VecDeque<ObservedReconcile>>,
    /// Number of reconciles and of failed ones, by controller.
    counts: BTreeMap<String, ReconcileCounts>,
    /// The reconciles since the last snapshot, and their total number.
    since_snapshot: Vec<ObservedReconcile>,
    since_snapshot_count: u64,
}

/// Number of reconciles of a controller since the start.
#[derive(Debug, Default, Clone, Copy, Serialize)]
pub(crate) struct ReconcileCounts {
    pub(crate) reconciles: u64,
    pub(crate) errors: u64,
}

/// Number of reconciles that a snapshot contains in full.
const SAMPLED: usize = 40;

impl ReconcileSender {
    /// Reports a reconcile.
    pub fn send(&self, reconcile: ObservedReconcile) {
        let mut recent = self.recent();
        let counts = recent.counts.entry(reconcile.controller.clone()).or_default();
        counts.reconciles += 1;
        counts.errors += u64::from(reconcile.error.is_some());
        recent.since_snapshot_count += 1;
        if recent.since_snapshot.len() < SAMPLED {
            recent.since_snapshot.push(reconcile.clone());
        }
        let kept = recent.of_controller.entry(reconcile.controller.clone()).or_default();
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(reconcile);
    }

    /// The reconciles since the last call, of which some may be missing, and their total number.
    pub(crate) fn take_sample(&self) -> (Vec<ObservedReconcile>, u64) {
        let mut recent = self.recent();
        let count = std::mem::take(&mut recent.since_snapshot_count);
        (std::mem::take(&mut recent.since_snapshot), count)
    }

    /// The latest reconciles of a controller, newest first.
    pub(crate) fn of_controller(&self, name: &str) -> Vec<ObservedReconcile> {
        let recent = self.recent();
        recent.of_controller.get(name).into_iter().flatten().rev().cloned().collect()
    }

    /// The latest reconciles of a key by any controller, newest first.
    pub(crate) fn of_key(&self, key: &str) -> Vec<ObservedReconcile> {
        let recent = self.recent();
        let all = recent.of_controller.values().flatten();
        let mut found: Vec<_> = all.filter(|reconcile| reconcile.key == key).cloned().collect();
        found.sort_by(|one, two| two.ended.cmp(&one.ended));
        found
    }

    pub(crate) fn counts(&self, controller: &str) -> ReconcileCounts {
        self.recent().counts.get(controller).copied().unwrap_or_default()
    }

    fn recent(&self) -> MutexGuard<'_, RecentReconciles> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Everything that a dashboard observes.
#[derive(Default)]
pub(crate) struct Observed {
    pub(crate) factories: Vec<SharedInformerFactory>,
    pub(crate) controllers: Vec<ControllerHandle>,
    pub(crate) queues: Vec<Queues>,
    pub(crate) gates: Vec<Gates>,
    reconciles: ReconcileSender,
}

impl Observed {
    pub(crate) fn sender(&self) -> ReconcileSender {
        self.reconciles.clone()
    }

    /// Follows the reconciles of all controllers.
    pub(crate) fn start(self, tasks: &TaskTracker, stop: &CancellationToken) -> Self {
        for controller in &self.controllers {
            let (name, mut results) = (controller.name().to_owned(), controller.results());
            let (sender, stop) = (self.sender(), stop.clone());
            tasks.spawn(async move {
                while let Some(Some(ended)) = stop.run_until_cancelled(results.next()).await {
                    let mut reconcile = ObservedReconcile::now(&*name, ended.key.to_string(), ended.elapsed);
                    reconcile.reasons = ended.reasons.to_string();
                    reconcile.attempt = ended.attempt;
                    match ended.result {
                        Ok(Outcome::Requeue { after, .. }) => {
                            reconcile.requeue_after = Some(milliseconds(after.unwrap_or_default()));
                        }
                        Ok(Outcome::Done) => {}
                        Err(failed) => reconcile.error = Some(failed.error),
                    }
                    sender.send(reconcile);
                }
            });
        }
        self
    }

    /// The gate of a controller.
    pub(crate) fn gate(&self, name: &str) -> Option<Arc<Gate>> {
        let controller = self.controllers.iter().find(|controller| controller.name() == name);
        let gate = controller.map(|controller| controller.gate().clone());
        gate.or_else(|| self.gates.iter().find_map(|gates| gates(name)))
    }

    /// The queues of all controllers, by name.
    pub(crate) fn views(&self, limit: usize) -> Vec<(String, QueueView<String>)> {
        let of_handle = |controller: &ControllerHandle| {
            (controller.name().to_owned(), controller.queue(limit).map(|key| key.to_string()))
        };
        let mut views: Vec<_> = self.controllers.iter().map(of_handle).collect();
        views.extend(self.queues.iter().flat_map(|queues| queues(limit)));
        views.sort_by(|(one, _), (two, _)| one.cmp(two));
        views
    }
}

/// The current time in RFC 3339.
pub(crate) fn now() -> String {
    Time::now().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_reconciles_is_counted_and_sampled() {
        let sender = ReconcileSender::default();
        for number in 0..3 * KEPT {
            let mut reconcile = ObservedReconcile::now("maps", number.to_string(), Duration::ZERO);
            reconcile.error = (number % 3 == 0).then(|| "no".to_owned());
            sender.send(reconcile);
        }
        let (sample, count) = sender.take_sample();
        assert_eq!((sample.len(), count), (SAMPLED, 3 * KEPT as u64));
        assert_eq!(sender.take_sample().1, 0);
        let kept = sender.of_controller("maps");
        assert_eq!((kept.len(), &*kept[0].key), (KEPT, "1499"));
        let counts = sender.counts("maps");
        assert_eq!((counts.reconciles, counts.errors), (3 * KEPT as u64, KEPT as u64));
        assert_eq!(sender.of_key("1499").len(), 1);
        assert!(sender.of_key("0").is_empty(), "it has been evicted");
    }
}
