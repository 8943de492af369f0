//! Exposes request metrics in Prometheus' format under client-go's names.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use super::{AttemptReport, RequestMetrics};
use kubewright_net::transport::{ExecOutcome, TransportMetrics};

type Labels<const N: usize> = [(&'static str, String); N];
type Histograms = Family<Labels<2>, Histogram, fn() -> Histogram>;

const SECONDS: [f64; 12] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];
/// Ten minutes to four years, as in Go.
const AGES: [f64; 12] = [
    600.0,
    1800.0,
    3600.0,
    14400.0,
    86400.0,
    604800.0,
    2592000.0,
    7776000.0,
    15552000.0,
    31104000.0,
    62208000.0,
    124416000.0,
];
const BYTES: [f64; 10] = [64.0, 256.0, 512.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0];

/// The metrics of the requests to one server, in the caller's registry.
///
/// ```
/// # use kubewright_client::{Client, rest::PrometheusMetrics};
/// # use prometheus_client::registry::Registry;
/// # fn example(client: Client) -> Client {
/// let mut registry = Registry::default();
/// client.metrics(PrometheusMetrics::register(&mut registry, "cluster.example:6443"))
/// # }
/// ```
///
/// As the observer of a [`Config`](crate::Config) it also counts DNS lookups and runs of exec
/// plugins.
#[derive(Debug, Clone)]
pub struct PrometheusMetrics {
    host: String,
    requests: Family<Labels<3>, Counter>,
    retries: Family<Labels<3>, Counter>,
    duration: Histograms,
    throttled: Histograms,
    request_size: Histograms,
    response_size: Histograms,
    resolved: Family<Labels<1>, Histogram, fn() -> Histogram>,
    exec_calls: Family<Labels<2>, Counter>,
    exec_expiry: ExecExpiry,
    rotation_age: Histogram,
    transports: Gauge,
    transport_calls: Family<Labels<1>, Counter>,
}

/// Remaining lifetime of an exec plugin's credentials, computed at scrape time.
#[derive(Debug, Clone, Default)]
struct ExecExpiry(Arc<Mutex<Option<Instant>>>);

impl ExecExpiry {
    /// Seconds; infinite if nothing expires.
    fn seconds(&self) -> f64 {
        let expires = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        expires.map_or(f64::INFINITY, |at| at.saturating_duration_since(Instant::now()).as_secs_f64())
    }
}

impl Collector for ExecExpiry {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let gauge = ConstGauge::new(self.seconds());
        let (name, help) = ("rest_client_exec_plugin_ttl_seconds", "How long credentials of exec plugins are of use");
        gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)
    }
}

impl PrometheusMetrics {
    /// Adds the metrics to `registry`, once for each. Requests are shown as going to `host`.
    pub fn register(registry: &mut Registry, host: impl Into<String>) -> Self {
        let seconds: fn() -> Histogram = || Histogram::new(SECONDS);
        let bytes: fn() -> Histogram = || Histogram::new(BYTES);
        let metrics = PrometheusMetrics {
            host: host.into(),
            requests: Family::default(),
            retries: Family::default(),
            duration: Family::new_with_constructor(seconds),
            throttled: Family::new_with_constructor(seconds),
            request_size: Family::new_with_constructor(bytes),
            response_size: Family::new_with_constructor(bytes),
            resolved: Family::new_with_constructor(seconds),
            exec_calls: Family::default(),
            exec_expiry: ExecExpiry::default(),
            rotation_age: Histogram::new(AGES),
            transports: Gauge::default(),
            transport_calls: Family::default(),
        };
        // The encoder adds `_total` to the names of counters.
        for (name, help, family) in [
            ("rest_client_requests", "Number of HTTP requests, by status code, method and host", &metrics.requests),
            ("rest_client_request_retries", "Number of requests that were sent again", &metrics.retries),
        ] {
            registry.register(name, help, family.clone());
        }
        for (name, help, family) in [
            ("rest_client_request_duration_seconds", "Time until an answer begins", &metrics.duration),
            ("rest_client_rate_limiter_duration_seconds", "Time spent waiting for the rate limit", &metrics.throttled),
            ("rest_client_request_size_bytes", "Size of requests", &metrics.request_size),
            ("rest_client_response_size_bytes", "Size of answers, where they tell it", &metrics.response_size),
        ] {
            registry.register(name, help, family.clone());
        }
        let (name, help) = ("rest_client_dns_resolution_duration_seconds", "Time to look up the addresses of a host");
        registry.register(name, help, metrics.resolved.clone());
        let (name, help) = ("rest_client_exec_plugin_call", "Number of runs of exec plugins, by exit code and outcome");
        registry.register(name, help, metrics.exec_calls.clone());
        let (name, help) = ("rest_client_exec_plugin_certificate_rotation_age", "How long certificates served");
        registry.register(name, help, metrics.rotation_age.clone());
        registry.register("rest_client_transport_cache_entries", "Transports in use", metrics.transports.clone());
        let (name, help) = ("rest_client_transport_create_calls", "Transports made; none comes from a cache");
        registry.register(name, help, metrics.transport_calls.clone());
        registry.register_collector(Box::new(metrics.exec_expiry.clone()));
        metrics
    }

    fn coded(&self, code: Option<u16>, method: &str) -> Labels<3> {
        let code = code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
        [("code", code), ("method", method.to_owned()), ("host", self.host.clone())]
    }

    fn by_verb(&self, method: &str) -> Labels<2> {
        [("verb", method.to_owned()), ("host", self.host.clone())]
    }
}

impl RequestMetrics for PrometheusMetrics {
    fn attempt(&self, report: &AttemptReport<'_>) {
        let by_verb = self.by_verb(report.method);
        self.requests.get_or_create(&self.coded(report.code, report.method)).inc();
        self.duration.get_or_create(&by_verb).observe(report.duration.as_secs_f64());
        self.request_size.get_or_create(&by_verb).observe(report.request_size as f64);
        if let Some(size) = report.response_size {
            self.response_size.get_or_create(&by_verb).observe(size as f64);
        }
    }

    fn throttled(&self, method: &str, waited: Duration) {
        self.throttled.get_or_create(&self.by_verb(method)).observe(waited.as_secs_f64());
    }

    fn retried(&self, method: &str, code: Option<u16>) {
        self.retries.get_or_create(&self.coded(code, method)).inc();
    }
}

impl TransportMetrics for PrometheusMetrics {
    fn resolved(&self, host: &str, took: Duration) {
        self.resolved.get_or_create(&[("host", host.to_owned())]).observe(took.as_secs_f64());
    }

    fn exec_plugin_called(&self, outcome: ExecOutcome) {
        // As Go has it, the code is 0 if and only if all went well.
        let (code, status) = match outcome {
            ExecOutcome::Done => (0, "no_error"),
            ExecOutcome::Failed { code } => (code.unwrap_or(1), "plugin_execution_error"),
            ExecOutcome::NotFound => (1, "plugin_not_found_error"),
            _ => (1, "client_internal_error"),
        };
        self.exec_calls.get_or_create(&[("code", code.to_string()), ("call_status", status.to_owned())]).inc();
    }

    fn exec_plugin_expiry(&self, expires: Option<Instant>) {
        *self.exec_expiry.0.lock().unwrap_or_else(PoisonError::into_inner) = expires;
    }

    fn certificate_rotated(&self, age: Duration) {
        self.rotation_age.observe(age.as_secs_f64());
    }

    fn transport_created(&self) {
        self.transports.inc();
        self.transport_calls.get_or_create(&[("result", "uncacheable".to_owned())]).inc();
    }

    fn transport_ended(&self) {
        self.transports.dec();
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn names_and_labels_equal_those_of_client_go() {
        // RC-13
        let mut registry = Registry::default();
        let metrics = PrometheusMetrics::register(&mut registry, "h");
        let duration = Duration::from_millis(20);
        metrics.resolved("h", duration);
        for outcome in [ExecOutcome::Done, ExecOutcome::Failed { code: Some(3) }, ExecOutcome::NotFound] {
            metrics.exec_plugin_called(outcome);
        }
        metrics.exec_plugin_expiry(Some(Instant::now()));
        metrics.certificate_rotated(Duration::from_secs(3600));
        metrics.transport_created();
        metrics.transport_created();
        metrics.transport_ended();
        for code in [Some(200), None] {
            metrics.attempt(&AttemptReport { method: "GET", code, duration, request_size: 0, response_size: Some(9) });
        }
        metrics.retried("GET", Some(429));
        metrics.throttled("GET", duration);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for line in [
            r#"rest_client_requests_total{code="200",method="GET",host="h"} 1"#,
            r#"rest_client_requests_total{code="<error>",method="GET",host="h"} 1"#,
            r#"rest_client_request_retries_total{code="429",method="GET",host="h"} 1"#,
            r#"rest_client_request_duration_seconds_count{verb="GET",host="h"} 2"#,
            r#"rest_client_rate_limiter_duration_seconds_count{verb="GET",host="h"} 1"#,
            r#"rest_client_dns_resolution_duration_seconds_count{host="h"} 1"#,
            r#"rest_client_exec_plugin_call_total{code="0",call_status="no_error"} 1"#,
            r#"rest_client_exec_plugin_call_total{code="3",call_status="plugin_execution_error"} 1"#,
            r#"rest_client_exec_plugin_call_total{code="1",call_status="plugin_not_found_error"} 1"#,
            "rest_client_exec_plugin_ttl_seconds 0",
            "rest_client_exec_plugin_certificate_rotation_age_count 1",
            "rest_client_transport_cache_entries 1",
            r#"rest_client_transport_create_calls_total{result="uncacheable"} 2"#,
            r#"rest_client_request_size_bytes_count{verb="GET",host="h"} 2"#,
            r#"rest_client_response_size_bytes_count{verb="GET",host="h"} 2"#,
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
