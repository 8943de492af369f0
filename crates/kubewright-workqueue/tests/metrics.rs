//! Metrics as shown by a scrape, in simulated time.

use std::time::Duration;

use kubewright_workqueue::{
    AddOptions, Ageing, DelayingQueue, PriorityQueue, QueueMetrics, QueueOptions, WorkQueue, limiter,
};
use prometheus_client::{encoding::text::encode, registry::Registry};
use tokio::time::sleep;

const LABELS: &str = r#"{name="pods",controller="pod-watcher"}"#;

fn scrape(registry: &Registry) -> String {
    let mut text = String::new();
    encode(&mut text, registry).unwrap();
    text
}

/// The value of a series with our labels.
fn value(registry: &Registry, name: &str) -> f64 {
    let text = scrape(registry);
    let prefix = format!("{name}{LABELS} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&prefix));
    line.unwrap_or_else(|| panic!("no {name} in:\n{text}")).parse().unwrap()
}

fn options<T>(metrics: &QueueMetrics) -> QueueOptions<T> {
    QueueOptions::new().name("pods").controller("pod-watcher").metrics(metrics)
}

fn depths(registry: &Registry) -> Vec<String> {
    let text = scrape(registry);
    let lines =
        text.lines().filter_map(|line| line.strip_prefix(r#"workqueue_depth{name="pods",controller="pod-watcher","#));
    lines.map(ToOwned::to_owned).collect()
}

#[tokio::test(start_paused = true)]
async fn the_depth_of_a_priority_queue_is_labelled_by_priority() {
    let mut registry = Registry::default();
    let metrics = QueueMetrics::register(&mut registry);
    let queue = PriorityQueue::new(limiter::item_default(), Ageing::default(), options(&metrics));
    assert_eq!(depths(&registry), [r#"priority="0"} 0"#]);
    queue.add_initial(1);
    queue.add_initial(2);
    queue.add(3);
    assert_eq!(depths(&registry), [r#"priority="-100"} 2"#, r#"priority="0"} 1"#]);
    // A key with raised priority counts under its new priority.
    queue.add(1);
    assert_eq!(depths(&registry), [r#"priority="-100"} 1"#, r#"priority="0"} 2"#]);
    assert!(queue.set_priority(&2, 7));
    assert_eq!(depths(&registry), [r#"priority="-100"} 0"#, r#"priority="0"} 2"#, r#"priority="7"} 1"#]);
    let claim = queue.get().await.unwrap();
    assert_eq!(depths(&registry)[2], r#"priority="7"} 0"#);
    // Added again during processing, with a higher priority.
    queue.add_with(*claim, AddOptions::new().priority(-100));
    queue.add(*claim);
    assert_eq!(depths(&registry), [r#"priority="-100"} 0"#, r#"priority="0"} 3"#, r#"priority="7"} 0"#]);
    drop(claim);
    for _ in 0..3 {
        drop(queue.get().await.unwrap());
    }
    assert_eq!(depths(&registry), [r#"priority="-100"} 0"#, r#"priority="0"} 0"#, r#"priority="7"} 0"#]);
    // A delayed key counts when it is due.
    queue.add_with(9, AddOptions::new().priority(7).after(Duration::from_secs(1)));
    assert_eq!(depths(&registry)[2], r#"priority="7"} 0"#);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(depths(&registry)[2], r#"priority="7"} 1"#);
}

#[tokio::test(start_paused = true)]
async fn more_than_25_priorities_share_one_series() {
    let mut registry = Registry::default();
    let metrics = QueueMetrics::register(&mut registry);
    let queue = PriorityQueue::new(limiter::item_default(), Ageing::default(), options(&metrics));
    for priority in 1..=30 {
        queue.add_with(priority, AddOptions::new().priority(priority));
    }
    let shown = depths(&registry);
    assert_eq!(shown.len(), 26);
    assert_eq!(shown[25], r#"priority="exceeded_cardinality_limit"} 6"#);
    while !queue.is_empty() {
        drop(queue.get().await.unwrap());
    }
    assert!(depths(&registry).iter().all(|line| line.ends_with(" 0")));
}

// WQ-8: Go's TestMetrics.
#[tokio::test(start_paused = true)]
async fn each_number_is_exact() {
    let mut registry = Registry::default();
    let metrics = QueueMetrics::register(&mut registry);
    let queue = WorkQueue::new(options(&metrics));
    queue.add("foo");
    // Only the first add counts.
    sleep(Duration::from_micros(50_000)).await;
    queue.add("foo");
    assert_eq!((value(&registry, "workqueue_adds_total"), value(&registry, "workqueue_depth")), (1.0, 1.0));
    let claim = queue.get().await.unwrap();
    assert_eq!(value(&registry, "workqueue_queue_duration_seconds_sum"), 0.05);
    assert_eq!(value(&registry, "workqueue_queue_duration_seconds_count"), 1.0);
    assert_eq!(value(&registry, "workqueue_depth"), 0.0);
    // A key added during processing counts, although it is not queued.
    sleep(Duration::from_millis(25)).await;
    queue.add("foo");
    queue.add("foo");
    assert_eq!((value(&registry, "workqueue_adds_total"), value(&registry, "workqueue_depth")), (2.0, 1.0));
    assert_eq!(value(&registry, "workqueue_unfinished_work_seconds"), 0.025);
    assert_eq!(value(&registry, "workqueue_longest_running_processor_seconds"), 0.025);
    drop(claim);
    assert_eq!(value(&registry, "workqueue_work_duration_seconds_sum"), 0.025);
    assert_eq!(value(&registry, "workqueue_work_duration_seconds_count"), 1.0);
    assert_eq!(value(&registry, "workqueue_unfinished_work_seconds"), 0.0);
    assert_eq!(value(&registry, "workqueue_longest_running_processor_seconds"), 0.0);
    sleep(Duration::from_millis(10)).await;
    let _again = queue.get().await.unwrap();
    assert_eq!(value(&registry, "workqueue_queue_duration_seconds_sum"), 0.06);
    assert_eq!(value(&registry, "workqueue_retries_total"), 0.0);
}

// WQ-8
#[tokio::test(start_paused = true)]
async fn unfinished_work_is_a_sum_and_the_longest_is_not() {
    let mut registry = Registry::default();
    let queue = WorkQueue::new(options(&QueueMetrics::register(&mut registry)));
    queue.add(1);
    queue.add(2);
    let _first = queue.get().await.unwrap();
    sleep(Duration::from_secs(1)).await;
    let _second = queue.get().await.unwrap();
    sleep(Duration::from_secs(2)).await;
    assert_eq!(value(&registry, "workqueue_unfinished_work_seconds"), 5.0);
    assert_eq!(value(&registry, "workqueue_longest_running_processor_seconds"), 3.0);
}

// WQ-8, WQ-9
#[tokio::test(start_paused = true)]
async fn a_delayed_key_counts_as_a_retry_and_as_added_when_due() {
    let mut registry = Registry::default();
    let queue = DelayingQueue::new(options(&QueueMetrics::register(&mut registry)));
    queue.add_after("foo", Duration::from_secs(1));
    queue.add_after("bar", Duration::ZERO);
    assert_eq!((value(&registry, "workqueue_retries_total"), value(&registry, "workqueue_adds_total")), (2.0, 1.0));
    sleep(Duration::from_secs(3)).await;
    // No worker polled in between, but the waiting time starts at the deadline.
    assert_eq!((value(&registry, "workqueue_adds_total"), value(&registry, "workqueue_depth")), (2.0, 2.0));
    queue.get().await.unwrap().done();
    queue.get().await.unwrap().done();
    assert_eq!(value(&registry, "workqueue_queue_duration_seconds_sum"), 3.0 + 2.0);
    queue.shut_down();
    queue.add_after("foo", Duration::from_secs(1));
    assert_eq!(value(&registry, "workqueue_retries_total"), 2.0);
}

// WQ-8
#[tokio::test(start_paused = true)]
async fn histogram_buckets_equal_those_of_client_go() {
    let mut registry = Registry::default();
    let queue = WorkQueue::new(options(&QueueMetrics::register(&mut registry)));
    queue.add("foo");
    sleep(Duration::from_millis(100)).await;
    queue.get().await.unwrap().done();
    let text = scrape(&registry);
    let buckets: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with("workqueue_queue_duration_seconds_bucket"))
        .map(|line| {
            let (bound, count) = line.rsplit_once("le=\"").unwrap().1.split_once('"').unwrap();
            let count = count.rsplit_once(' ').unwrap().1;
            (bound.parse::<f64>().unwrap(), count.parse::<u64>().unwrap())
        })
        .collect();
    let expected: Vec<_> = (-8..=3).map(|power| 10f64.powi(power)).chain([f64::INFINITY]).collect();
    assert_eq!(buckets.len(), expected.len());
    for ((bound, count), expected) in buckets.into_iter().zip(expected) {
        assert!(bound == expected || (bound / expected - 1.0).abs() < 1e-9, "{bound} is not {expected}");
        assert_eq!(count, u64::from(expected >= 0.09));
    }
}

#[tokio::test]
async fn only_named_queues_are_shown_and_only_while_they_live() {
    let mut registry = Registry::default();
    let metrics = QueueMetrics::register(&mut registry);
    let unnamed = WorkQueue::new(QueueOptions::new().metrics(&metrics));
    unnamed.add(1);
    assert_eq!(scrape(&registry), "# EOF\n");
    let queue = WorkQueue::new(options(&metrics));
    let twin = WorkQueue::new(options(&metrics));
    queue.add(1);
    twin.add(1);
    assert_eq!(value(&registry, "workqueue_depth"), 2.0);
    drop(twin);
    assert_eq!(value(&registry, "workqueue_depth"), 1.0);
    drop(queue);
    assert_eq!(scrape(&registry), "# EOF\n");
}
