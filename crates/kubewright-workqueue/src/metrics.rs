//! Exposes queue metrics in Prometheus' format under client-go's names.
//!
//! Each queue updates its counters under its own lock. Values are read at scrape time, so gauges
//! are exact and nothing has to refresh them. A dropped queue is absent from the next scrape.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, Weak};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

/// Upper bounds of the buckets in nanoseconds: 10 ns, then eleven powers of ten.
const BOUNDS: [u64; 12] = {
    let mut bounds = [10; 12];
    let mut at = 1;
    while at < bounds.len() {
        bounds[at] = bounds[at - 1] * 10;
        at += 1;
    }
    bounds
};

/// Number of priorities with their own series, as in controller-runtime.
const MAX_PRIORITIES: usize = 25;

/// Label value of priorities beyond [`MAX_PRIORITIES`].
const OTHER_PRIORITIES: &str = "exceeded_cardinality_limit";

/// The metrics of all queues exposed in one registry.
///
/// Create one per registry and pass it to queues with
/// [`QueueOptions::metrics`](crate::QueueOptions::metrics). Queues with the same labels are merged.
/// The depth of a [`PriorityQueue`](crate::PriorityQueue) has a label `priority`, with at most 25
/// values; further priorities share the value `exceeded_cardinality_limit`.
///
/// ```
/// use kubewright_workqueue::{QueueMetrics, QueueOptions, WorkQueue};
/// use prometheus_client::{encoding::text::encode, registry::Registry};
///
/// let mut registry = Registry::default();
/// let metrics = QueueMetrics::register(&mut registry);
/// let queue = WorkQueue::new(QueueOptions::new().name("pods").metrics(&metrics));
/// queue.add("default/web");
///
/// let mut text = String::new();
/// encode(&mut text, &registry).unwrap();
/// assert!(text.contains(r#"workqueue_depth{name="pods",controller="pods"} 1"#));
/// ```
#[doc(alias = "MetricsProvider")]
#[derive(Clone, Default)]
pub struct QueueMetrics {
    queues: Arc<Mutex<Vec<Weak<dyn ObservedQueue>>>>,
}

impl QueueMetrics {
    /// Registers the queue metrics in `registry`. Call it once per registry.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register_collector(Box::new(metrics.clone()));
        metrics
    }

    /// Exposes a queue until it is dropped.
    pub(crate) fn watch(&self, queue: Arc<dyn ObservedQueue>) {
        let mut queues = self.queues.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        queues.retain(|queue| queue.strong_count() > 0);
        queues.push(Arc::downgrade(&queue));
    }

    fn samples(&self) -> Vec<(QueueLabels, QueueSample)> {
        let queues = self.queues.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
        let mut samples: Vec<(QueueLabels, QueueSample)> = Vec::new();
        for (labels, sample) in queues.iter().filter_map(Weak::upgrade).map(|queue| queue.observe()) {
            match samples.iter_mut().find(|(other, _)| *other == labels) {
                Some((_, sum)) => sum.merge(&sample),
                None => samples.push((labels, sample)),
            }
        }
        samples
    }
}

/// Labels that identify a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueueLabels {
    pub(crate) name: String,
    pub(crate) controller: String,
}

/// A queue that can be scraped.
pub(crate) trait ObservedQueue: Send + Sync {
    fn observe(&self) -> (QueueLabels, QueueSample);
}

/// Counters of a queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stats {
    pub(crate) adds: u64,
    pub(crate) retries: u64,
    pub(crate) queue_duration: DurationHistogram,
    pub(crate) work_duration: DurationHistogram,
    /// Set in queues with priorities.
    depths: Option<Depths>,
}

/// Number of keys that need processing, by priority.
#[derive(Clone, Debug)]
pub(crate) struct Depths {
    /// The first priorities seen. A priority whose depth drops to zero stays.
    of_priority: BTreeMap<i32, u64>,
    others: u64,
}

impl Depths {
    fn of(&mut self, priority: i32) -> &mut u64 {
        let is_known = self.of_priority.len() < MAX_PRIORITIES || self.of_priority.contains_key(&priority);
        if is_known { self.of_priority.entry(priority).or_default() } else { &mut self.others }
    }
}

impl Stats {
    pub(crate) fn new(has_priorities: bool) -> Self {
        let depths = has_priorities.then(|| Depths { of_priority: BTreeMap::from([(0, 0)]), others: 0 });
        Stats { depths, ..Stats::default() }
    }

    /// Counts a key of this priority that now needs processing.
    pub(crate) fn key_added(&mut self, priority: i32) {
        if let Some(depths) = &mut self.depths {
            *depths.of(priority) += 1;
        }
    }

    /// Counts a key of this priority that was handed out or changed its priority.
    pub(crate) fn key_removed(&mut self, priority: i32) {
        if let Some(depths) = &mut self.depths {
            let depth = depths.of(priority);
            *depth = depth.saturating_sub(1);
        }
    }
}

/// All values of a queue at one moment.
#[derive(Clone, Debug)]
pub(crate) struct QueueSample {
    pub(crate) depth: u64,
    pub(crate) unfinished: f64,
    pub(crate) longest: f64,
    pub(crate) stats: Stats,
}

impl QueueSample {
    fn merge(&mut self, other: &Self) {
        self.depth += other.depth;
        self.unfinished += other.unfinished;
        self.longest = self.longest.max(other.longest);
        self.stats.adds += other.stats.adds;
        self.stats.retries += other.stats.retries;
        if let (Some(depths), Some(others)) = (&mut self.stats.depths, &other.stats.depths) {
            others.of_priority.iter().for_each(|(priority, depth)| *depths.of(*priority) += depth);
            depths.others += others.others;
        }
        self.stats.queue_duration.merge(&other.stats.queue_duration);
        self.stats.work_duration.merge(&other.stats.work_duration);
    }
}

/// A histogram of durations.
#[derive(Clone, Debug, Default)]
pub(crate) struct DurationHistogram {
    /// One counter per bound, and one for values above the last bound.
    counts: [u64; BOUNDS.len() + 1],
    /// In nanoseconds.
    sum: u128,
}

impl DurationHistogram {
    pub(crate) fn observe(&mut self, nanoseconds: u64) {
        self.counts[BOUNDS.partition_point(|&bound| bound < nanoseconds)] += 1;
        self.sum += u128::from(nanoseconds);
    }

    fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(other.counts).for_each(|(count, more)| *count += more);
        self.sum += other.sum;
    }

    fn encode(&self, encoder: &mut MetricEncoder<'_>) -> fmt::Result {
        let bounds = BOUNDS.iter().map(|&bound| seconds(bound)).chain([f64::MAX]);
        let buckets: Vec<(f64, u64)> = bounds.zip(self.counts).collect();
        let count = self.counts.iter().sum();
        encoder.encode_histogram::<[(&str, &str); 0]>(self.sum as f64 / 1e9, count, &buckets, None)
    }
}

pub(crate) fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

/// Encodes one value of a sample.
type Encode = fn(&QueueSample, &mut MetricEncoder<'_>) -> fmt::Result;

/// Encodes the depth of a queue, with one series per priority if the queue has priorities.
fn encode_depth(metric: &mut MetricEncoder<'_>, labels: &QueueLabels, sample: &QueueSample) -> fmt::Result {
    let (name, controller) = (labels.name.as_str(), labels.controller.as_str());
    let Some(depths) = &sample.stats.depths else {
        return metric.encode_family(&[("name", name), ("controller", controller)])?.encode_gauge(&sample.depth);
    };
    let known = depths.of_priority.iter().map(|(priority, depth)| (priority.to_string(), *depth));
    let others = (depths.others > 0).then(|| (OTHER_PRIORITIES.to_owned(), depths.others));
    for (priority, depth) in known.chain(others) {
        let labels = [("name", name), ("controller", controller), ("priority", priority.as_str())];
        metric.encode_family(&labels)?.encode_gauge(&depth)?;
    }
    Ok(())
}

/// Name, help, type and value of each metric; the format adds `_total` to counters.
const METRICS: [(&str, &str, MetricType, Encode); 6] = [
    ("workqueue_adds", "Keys that came to need processing", MetricType::Counter, |sample, encoder| {
        encoder.encode_counter::<[(&str, &str); 0], _, u64>(&sample.stats.adds, None)
    }),
    (
        "workqueue_queue_duration_seconds",
        "How long keys waited for a worker",
        MetricType::Histogram,
        |sample, encoder| sample.stats.queue_duration.encode(encoder),
    ),
    ("workqueue_work_duration_seconds", "How long workers took for a key", MetricType::Histogram, |sample, encoder| {
        sample.stats.work_duration.encode(encoder)
    }),
    (
        "workqueue_unfinished_work_seconds",
        "How long the work under way has taken so far, in sum",
        MetricType::Gauge,
        |sample, encoder| encoder.encode_gauge(&sample.unfinished),
    ),
    (
        "workqueue_longest_running_processor_seconds",
        "How long the oldest work under way has taken so far",
        MetricType::Gauge,
        |sample, encoder| encoder.encode_gauge(&sample.longest),
    ),
    ("workqueue_retries", "Keys added with a delay", MetricType::Counter, |sample, encoder| {
        encoder.encode_counter::<[(&str, &str); 0], _, u64>(&sample.stats.retries, None)
    }),
];

impl Collector for QueueMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let samples = self.samples();
        if samples.is_empty() {
            return Ok(());
        }
        let mut depth = encoder.encode_descriptor(
            "workqueue_depth",
            "Keys that need processing, by queue and priority",
            None,
            MetricType::Gauge,
        )?;
        for (labels, sample) in &samples {
            encode_depth(&mut depth, labels, sample)?;
        }
        for (name, help, kind, encode) in METRICS {
            let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
            for (labels, sample) in &samples {
                let labels = [("name", labels.name.as_str()), ("controller", labels.controller.as_str())];
                encode(sample, &mut metric.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for QueueMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}
