//! Controller metrics with controller-runtime's names.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use super::outcome::{Outcome, ReconcileFailure};
use super::reconcile_error::ErrorAction;
use crate::metrics::{Labels, Times, registered};

const SECONDS: [f64; 32] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5,
    1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 10.0,
];

/// The metrics of all controllers in one registry, including their queues.
#[derive(Debug, Clone)]
pub struct ControllerMetrics {
    reconciles: Family<Labels<2>, Counter>,
    errors: Family<Labels<1>, Counter>,
    terminal_errors: Family<Labels<1>, Counter>,
    panics: Family<Labels<1>, Counter>,
    timeouts: Family<Labels<1>, Counter>,
    time: Times,
    workers: Family<Labels<1>, Gauge>,
    active: Family<Labels<1>, Gauge>,
    pub(crate) queues: kubewright_workqueue::QueueMetrics,
}

impl ControllerMetrics {
    /// The queue metrics, for a queue outside of controllers.
    pub fn queues(&self) -> &kubewright_workqueue::QueueMetrics {
        &self.queues
    }

    /// Registers the metrics in `registry`. Call it once per registry.
    #[must_use]
    #[inline]
    pub fn register(registry: &mut Registry) -> Self {
        let queues = kubewright_workqueue::QueueMetrics::register(registry);
        let time = Family::new_with_constructor((|| Histogram::new(SECONDS)) as fn() -> Histogram);
        let name = |part: &str| format!("controller_runtime_{part}");
        let mut counter = |part, help| registered(registry, &name(part), help, Family::<Labels<1>, Counter>::default());
        ControllerMetrics {
            errors: counter("reconcile_errors", "Reconciles that failed"),
            terminal_errors: counter("terminal_reconcile_errors", "Reconciles given up"),
            panics: counter("reconcile_panics", "Reconciles that panicked"),
            timeouts: counter("reconcile_timeouts", "Reconciles that took too long"),
            reconciles: registered(registry, &name("reconcile"), "Reconciles by result", Family::default()),
            time: registered(registry, &name("reconcile_time_seconds"), "How long reconciles take", time),
            workers: registered(
                registry,
                &name("max_concurrent_reconciles"),
                "How many reconciles may run at once",
                Family::default(),
            ),
            active: registered(registry, &name("active_workers"), "How many reconciles run", Family::default()),
            queues,
        }
    }

    /// The metrics of one controller, looked up once.
    pub(crate) fn of(&self, controller: &str) -> ControllerCounters {
        let name = [("controller", controller.to_owned())];
        let result = |result: &str| {
            let labels = [("controller", controller.to_owned()), ("result", result.to_owned())];
            self.reconciles.get_or_create_owned(&labels)
        };
        ControllerCounters {
            success: result("success"),
            error: result("error"),
            requeue: result("requeue"),
            requeue_after: result("requeue_after"),
            errors: self.errors.get_or_create_owned(&name),
            terminal_errors: self.terminal_errors.get_or_create_owned(&name),
            panics: self.panics.get_or_create_owned(&name),
            timeouts: self.timeouts.get_or_create_owned(&name),
            time: self.time.get_or_create_owned(&name),
            workers: self.workers.get_or_create_owned(&name),
            active: self.active.get_or_create_owned(&name),
        }
    }
}

/// The metrics of one controller.
#[derive(Debug, Clone)]
pub(crate) struct ControllerCounters {
    success: Counter,
    error: Counter,
    requeue: Counter,
    requeue_after: Counter,
    errors: Counter,
    terminal_errors: Counter,
    panics: Counter,
    timeouts: Counter,
    time: Histogram,
    workers: Gauge,
    active: Gauge,
}

impl ControllerCounters {
    pub(super) fn set_workers(&self, workers: usize) {
        self.workers.set(i64::try_from(workers).unwrap_or(i64::MAX));
    }

    /// Counts a reconcile as active until the value is dropped.
    pub(super) fn began(&self) -> Active<'_> {
        self.active.inc();
        Active { numbers: self, began: Instant::now() }
    }

    /// Counts the result of a reconcile.
    pub(super) fn ended(&self, ended: &Result<Outcome, (ReconcileFailure, ErrorAction)>) {
        let (failure, action) = match ended {
            Ok(outcome) => {
                let result = match outcome {
                    Outcome::Done => &self.success,
                    Outcome::Requeue { after: Some(_), .. } => &self.requeue_after,
                    Outcome::Requeue { after: None, .. } => &self.requeue,
                };
                result.inc();
                return;
            }
            Err((failure, action)) => (failure, action),
        };
        self.error.inc();
        self.errors.inc();
        if *action == ErrorAction::Terminal {
            self.terminal_errors.inc();
        }
        match failure {
            ReconcileFailure::Timeout(_) => {
                self.timeouts.inc();
            }
            ReconcileFailure::Panic(_) => {
                self.panics.inc();
            }
            ReconcileFailure::Error(_) | ReconcileFailure::Undecodable => {}
        }
    }
}

/// A running reconcile.
pub(super) struct Active<'a> {
    numbers: &'a ControllerCounters,
    began: Instant,
}

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.numbers.active.dec();
        self.numbers.time.observe(self.began.elapsed().as_secs_f64());
    }
}
