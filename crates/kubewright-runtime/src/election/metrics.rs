//! Leader election metrics with client-go's names.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::metrics::{Labels, registered};

/// The metrics of a process's elections.
#[derive(Debug, Clone, Default)]
#[doc(alias = "LeaderMetricsProvider")]
pub struct ElectionMetrics {
    leading: Family<Labels<1>, Gauge>,
    slow_path: Family<Labels<1>, Counter>,
}

impl ElectionMetrics {
    /// Registers them in `registry`. Call it once per registry.
    #[must_use]
    #[inline]
    pub fn register(registry: &mut Registry) -> Self {
        let help = "Whether this process leads, by lease";
        let leading = registered(registry, "leader_election_master_status", help, Family::default());
        let help = "Renewals that had to read the lease first";
        let slow_path = registered(registry, "leader_election_slowpath", help, Family::default());
        ElectionMetrics { leading, slow_path }
    }

    #[inline]
    pub(super) fn set_leading(&self, name: &str, leads: bool) {
        self.leading.get_or_create(&[("name", name.to_owned())]).set(leads.into());
    }

    #[inline]
    pub(super) fn slow_path(&self, name: &str) {
        self.slow_path.get_or_create(&[("name", name.to_owned())]).inc();
    }
}
