//! Certificate metrics with controller-runtime's names.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

use crate::metrics::registered;

/// The metrics of serving certificates in one registry.
#[derive(Debug, Clone)]
pub struct CertificateMetrics {
    reads: Counter,
    errors: Counter,
}

impl CertificateMetrics {
    /// Registers the metrics in `registry`. Call it once per registry.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let help = "Certificates that were read again";
        let reads = registered(registry, "certwatcher_read_certificate", help, Counter::default());
        let help = "Certificates that could not be read again";
        let errors = registered(registry, "certwatcher_read_certificate_errors", help, Counter::default());
        CertificateMetrics { reads, errors }
    }

    pub(super) fn read(&self, is_usable: bool) {
        self.reads.inc();
        if !is_usable {
            self.errors.inc();
        }
    }
}
