//! Exposes informer metrics in Prometheus' format under client-go's names.
//!
//! Each informer keeps its own counters; values are read at scrape time. A dropped informer is
//! absent from the next scrape. If several informers share a name, only the first running one is
//! exposed, because series must be unique.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use kubewright_core::{GroupVersionResource, ResourceVersion};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

/// Upper bounds of the buckets in seconds.
const BOUNDS: [f64; 12] = [0.00001, 0.0001, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 10.0];

/// The metrics of all informers exposed in one registry.
///
/// Create one per registry and pass it to informers with
/// [`InformerOptions::metrics`](crate::InformerOptions::metrics).
#[derive(Clone, Default)]
pub struct InformerMetrics {
    informers: Arc<Mutex<Vec<Weak<dyn ObservedInformer>>>>,
}

impl InformerMetrics {
    /// Registers the informer metrics in `registry`. Call it once per registry.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register_collector(Box::new(metrics.clone()));
        metrics
    }

    /// Exposes an informer until it is dropped.
    pub(crate) fn watch(&self, informer: Arc<dyn ObservedInformer>) {
        let name = &informer.labels().name;
        if self.working().iter().any(|other| !other.has_stopped() && other.labels().name == *name) {
            tracing::error!(%name, "duplicate informer name; this informer is not exposed");
        }
        let mut informers = self.informers.lock().unwrap_or_else(PoisonError::into_inner);
        informers.retain(|informer| informer.strong_count() > 0);
        informers.push(Arc::downgrade(&informer));
    }

    fn samples(&self) -> Vec<(InformerLabels, InformerSample)> {
        let mut names = HashSet::new();
        let mut informers = self.working();
        informers.retain(|informer| names.insert(informer.labels().name.clone()));
        informers.iter().map(|informer| (informer.labels().clone(), informer.observe())).collect()
    }

    /// All live informers, stopped ones last.
    fn working(&self) -> Vec<Arc<dyn ObservedInformer>> {
        let informers = self.informers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut informers: Vec<_> = informers.iter().filter_map(Weak::upgrade).collect();
        informers.sort_by_key(|informer| informer.has_stopped());
        informers
    }
}

/// Labels that identify an informer.
#[derive(Clone, Debug, Default)]
pub(crate) struct InformerLabels {
    pub(crate) name: String,
    /// The resource, if known.
    pub(crate) resource: Option<GroupVersionResource>,
}

impl InformerLabels {
    fn pairs(&self) -> Vec<(&'static str, &str)> {
        let mut pairs = vec![("name", self.name.as_str())];
        if let Some(GroupVersionResource { group, version, resource }) = &self.resource {
            pairs.extend([("group", &**group), ("version", &**version), ("resource", &**resource)]);
        }
        pairs
    }
}

/// An informer that can be scraped.
pub(crate) trait ObservedInformer: Send + Sync {
    fn labels(&self) -> &InformerLabels;
    fn has_stopped(&self) -> bool;
    fn observe(&self) -> InformerSample;
}

/// All values of an informer at one moment.
#[derive(Clone, Debug)]
pub(crate) struct InformerSample {
    pub(crate) queued: u64,
    pub(crate) version: ResourceVersion,
    pub(crate) objects: u64,
    pub(crate) lists: u64,
    pub(crate) undecodable: u64,
    pub(crate) lag: u64,
    pub(crate) panics: u64,
    pub(crate) latency: DurationHistogram,
}

/// A histogram of durations.
#[derive(Clone, Debug, Default)]
pub(crate) struct DurationHistogram {
    /// One counter per bound, and one for values above the last bound.
    counts: [u64; BOUNDS.len() + 1],
    sum: Duration,
}

impl DurationHistogram {
    pub(crate) fn observe(&mut self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        self.counts[BOUNDS.partition_point(|&bound| bound < seconds)] += 1;
        self.sum += duration;
    }

    /// Number of observed durations.
    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    fn encode(&self, encoder: &mut MetricEncoder<'_>) -> fmt::Result {
        let buckets: Vec<(f64, u64)> = BOUNDS.into_iter().chain([f64::MAX]).zip(self.counts).collect();
        encoder.encode_histogram::<[(&str, &str); 0]>(self.sum.as_secs_f64(), self.count(), &buckets, None)
    }
}

/// A version as a number that a gauge represents exactly: its last 15 digits; 0 if it is not
/// numeric.
fn gauge_of(version: &ResourceVersion) -> u64 {
    let text = version.as_str();
    text.get(text.len().saturating_sub(15)..).and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// Encodes one value of a sample.
type Encode = fn(&InformerSample, &mut MetricEncoder<'_>) -> fmt::Result;

/// Name, help, type and value of each metric; the format adds `_total` to counters.
const METRICS: [(&str, &str, MetricType, Encode); 8] = [
    ("informer_queued_items", "Changes that wait to be applied to the cache", MetricType::Gauge, |sample, encoder| {
        encoder.encode_gauge(&sample.queued)
    }),
    (
        "informer_processing_latency_seconds",
        "How long applying a batch of changes took",
        MetricType::Histogram,
        |sample, encoder| sample.latency.encode(encoder),
    ),
    (
        "informer_store_resource_version",
        "The version of the cache, its last 15 digits",
        MetricType::Gauge,
        |sample, encoder| encoder.encode_gauge(&gauge_of(&sample.version)),
    ),
    ("informer_objects", "Objects in the cache", MetricType::Gauge, |sample, encoder| {
        encoder.encode_gauge(&sample.objects)
    }),
    ("informer_lists", "Lists of all objects that were completed", MetricType::Counter, |sample, encoder| {
        encoder.encode_counter::<[(&str, &str); 0], _, u64>(&sample.lists, None)
    }),
    (
        "informer_undecodable_objects",
        "Objects whose newest state cannot be decoded or transformed",
        MetricType::Gauge,
        |sample, encoder| encoder.encode_gauge(&sample.undecodable),
    ),
    ("informer_handler_lag", "Events that wait for the slowest handler", MetricType::Gauge, |sample, encoder| {
        encoder.encode_gauge(&sample.lag)
    }),
    ("informer_handler_panics", "Panics of handlers", MetricType::Counter, |sample, encoder| {
        encoder.encode_counter::<[(&str, &str); 0], _, u64>(&sample.panics, None)
    }),
];

impl Collector for InformerMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let samples = self.samples();
        if samples.is_empty() {
            return Ok(());
        }
        for (name, help, kind, encode) in METRICS {
            let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
            for (labels, sample) in &samples {
                encode(sample, &mut metric.encode_family(&labels.pairs())?)?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for InformerMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // ST-15
    #[test]
    fn a_gauge_shows_the_last_fifteen_digits_of_a_version() {
        assert_eq!(gauge_of(&"1234567890123456789".into()), 567_890_123_456_789);
        assert_eq!(gauge_of(&"42".into()), 42);
        assert_eq!(gauge_of(&"x".into()), 0);
    }
}
