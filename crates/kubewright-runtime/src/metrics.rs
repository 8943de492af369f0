//! Common helpers for metrics.

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

/// Labels with their values.
pub(crate) type Labels<const N: usize> = [(&'static str, String); N];

/// Durations by one label.
pub(crate) type Times = Family<Labels<1>, Histogram, fn() -> Histogram>;

/// Registers a metric; the encoder appends `_total` to names of counters.
pub(crate) fn registered<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register(name, help, metric.clone());
    metric
}
