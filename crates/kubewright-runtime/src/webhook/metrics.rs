//! What a webhook server counts, under controller-runtime's names.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

type Labels<const N: usize> = [(&'static str, String); N];

const SECONDS: [f64; 14] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

/// The metrics of webhook servers in one registry.
#[derive(Debug, Clone)]
pub struct WebhookMetrics {
    requests: Family<Labels<2>, Counter>,
    latency: Family<Labels<1>, Histogram, fn() -> Histogram>,
    in_flight: Family<Labels<1>, Gauge>,
    certificates: Counter,
    certificate_errors: Counter,
}

impl WebhookMetrics {
    /// Adds the metrics to `registry`, once for each.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = WebhookMetrics {
            requests: Family::default(),
            latency: Family::new_with_constructor(|| Histogram::new(SECONDS)),
            in_flight: Family::default(),
            certificates: Counter::default(),
            certificate_errors: Counter::default(),
        };
        // The encoder adds `_total` to the names of counters.
        let help = "Questions to webhooks by the code of the answer";
        registry.register("controller_runtime_webhook_requests", help, metrics.requests.clone());
        let help = "How long answers take";
        registry.register("controller_runtime_webhook_latency_seconds", help, metrics.latency.clone());
        let help = "Questions that are being answered";
        registry.register("controller_runtime_webhook_requests_in_flight", help, metrics.in_flight.clone());
        let help = "Certificates that were read again";
        registry.register("certwatcher_read_certificate", help, metrics.certificates.clone());
        let help = "Certificates that could not be read again";
        registry.register("certwatcher_read_certificate_errors", help, metrics.certificate_errors.clone());
        metrics
    }

    /// Counts a question as long as the value lives, since a question may be taken back in the middle.
    pub(super) fn began(&self, path: &str) -> InFlight {
        let gauge = self.in_flight.get_or_create_owned(&[("webhook", path.to_owned())]);
        gauge.inc();
        InFlight(gauge)
    }

    pub(super) fn answered(&self, path: &str, code: u16, seconds: f64) {
        let name = [("webhook", path.to_owned())];
        self.latency.get_or_create_owned(&name).observe(seconds);
        let labels = [("webhook", path.to_owned()), ("code", code.to_string())];
        self.requests.get_or_create_owned(&labels).inc();
    }

    pub(super) fn read_certificate(&self, is_usable: bool) {
        self.certificates.inc();
        if !is_usable {
            self.certificate_errors.inc();
        }
    }
}

/// A question that is being answered.
pub(super) struct InFlight(Gauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}
