//! What controllers count, under controller-runtime's names.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

type Labels<const N: usize> = [(&'static str, String); N];
type Times = Family<Labels<1>, Histogram, fn() -> Histogram>;

const SECONDS: [f64; 32] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5,
    1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 10.0,
];

/// The metrics of all controllers in one registry, those of their queues included.
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
    pub(crate) queues: kubewright_workqueue::Metrics,
}

impl ControllerMetrics {
    /// Those of queues, for one that is not a controller's.
    pub fn queues(&self) -> &kubewright_workqueue::Metrics {
        &self.queues
    }

    /// Adds the metrics to `registry`, once for each.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = ControllerMetrics {
            reconciles: Family::default(),
            errors: Family::default(),
            terminal_errors: Family::default(),
            panics: Family::default(),
            timeouts: Family::default(),
            time: Family::new_with_constructor(|| Histogram::new(SECONDS)),
            workers: Family::default(),
            active: Family::default(),
            queues: kubewright_workqueue::Metrics::register(registry),
        };
        // The encoder adds `_total` to the names of counters.
        registry.register("controller_runtime_reconcile", "Reconciles by result", metrics.reconciles.clone());
        for (name, help, family) in [
            ("controller_runtime_reconcile_errors", "Reconciles that failed", &metrics.errors),
            ("controller_runtime_terminal_reconcile_errors", "Reconciles given up", &metrics.terminal_errors),
            ("controller_runtime_reconcile_panics", "Reconciles that panicked", &metrics.panics),
            ("controller_runtime_reconcile_timeouts", "Reconciles that took too long", &metrics.timeouts),
        ] {
            registry.register(name, help, family.clone());
        }
        let help = "How long reconciles take";
        registry.register("controller_runtime_reconcile_time_seconds", help, metrics.time.clone());
        let help = "How many reconciles may run at once";
        registry.register("controller_runtime_max_concurrent_reconciles", help, metrics.workers.clone());
        let help = "How many reconciles run";
        registry.register("controller_runtime_active_workers", help, metrics.active.clone());
        metrics
    }

    /// The numbers of one controller, looked up once.
    pub(crate) fn of(&self, controller: &str) -> Numbers {
        let name = [("controller", controller.to_owned())];
        let result = |result: &str| {
            let labels = [("controller", controller.to_owned()), ("result", result.to_owned())];
            self.reconciles.get_or_create_owned(&labels)
        };
        Numbers {
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

/// What one controller counts.
#[derive(Debug, Clone)]
pub(crate) struct Numbers {
    pub(crate) success: Counter,
    pub(crate) error: Counter,
    pub(crate) requeue: Counter,
    pub(crate) requeue_after: Counter,
    pub(crate) errors: Counter,
    pub(crate) terminal_errors: Counter,
    pub(crate) panics: Counter,
    pub(crate) timeouts: Counter,
    pub(crate) time: Histogram,
    pub(crate) workers: Gauge,
    pub(crate) active: Gauge,
}

impl Default for Numbers {
    /// Numbers that nobody reads but the controller itself.
    fn default() -> Self {
        Numbers {
            success: Counter::default(),
            error: Counter::default(),
            requeue: Counter::default(),
            requeue_after: Counter::default(),
            errors: Counter::default(),
            terminal_errors: Counter::default(),
            panics: Counter::default(),
            timeouts: Counter::default(),
            time: Histogram::new(SECONDS),
            workers: Gauge::default(),
            active: Gauge::default(),
        }
    }
}
