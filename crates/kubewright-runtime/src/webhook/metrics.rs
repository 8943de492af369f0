//! Webhook metrics with controller-runtime's names.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::metrics::{Labels, Times, registered};

const SECONDS: [f64; 14] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

/// The metrics of webhook servers in one registry.
#[derive(Debug, Clone)]
pub struct WebhookMetrics {
    requests: Family<Labels<2>, Counter>,
    latency: Times,
    in_flight: Family<Labels<1>, Gauge>,
}

impl WebhookMetrics {
    /// Registers the metrics in `registry`. Call it once per registry.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let latency = Family::new_with_constructor((|| Histogram::new(SECONDS)) as fn() -> Histogram);
        let name = |part: &str| format!("controller_runtime_webhook_{part}");
        let help = "Questions to webhooks by the code of the answer";
        let requests = registered(registry, &name("requests"), help, Family::default());
        let latency = registered(registry, &name("latency_seconds"), "How long answers take", latency);
        let help = "Questions that are being answered";
        let in_flight = registered(registry, &name("requests_in_flight"), help, Family::default());
        WebhookMetrics { requests, latency, in_flight }
    }

    /// Counts a request as in flight until the value is dropped, since a request may be cancelled.
    pub(super) fn began(&self, path: &str) -> InFlightRequest {
        let gauge = self.in_flight.get_or_create_owned(&[("webhook", path.to_owned())]);
        gauge.inc();
        InFlightRequest(gauge)
    }

    pub(super) fn answered(&self, path: &str, code: u16, seconds: f64) {
        let name = [("webhook", path.to_owned())];
        self.latency.get_or_create_owned(&name).observe(seconds);
        let labels = [("webhook", path.to_owned()), ("code", code.to_string())];
        self.requests.get_or_create_owned(&labels).inc();
    }
}

/// A request in flight.
pub(super) struct InFlightRequest(Gauge);

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        self.0.dec();
    }
}
