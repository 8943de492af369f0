//! What the metrics of all parts have in common: labels, and how they come into a registry.

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

/// So many labels with their values.
pub(crate) type Labels<const N: usize> = [(&'static str, String); N];

/// How long something takes, by one label.
pub(crate) type Times = Family<Labels<1>, Histogram, fn() -> Histogram>;

/// Adds a metric to `registry` under this name; the encoder adds `_total` to those of counters.
pub(crate) fn registered<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register(name, help, metric.clone());
    metric
}
