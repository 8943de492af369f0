//! One case of the workqueue bench; a Go program runs the same cases (see `../README.md`). Prints
//! one line of JSON.
//!
//! Argument: the case.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kubewright_workqueue::limiter::ItemExponential;
use kubewright_workqueue::{DelayingQueue, QueueOptions, RateLimitingQueue, WorkQueue};
use tokio::task::JoinSet;

/// A string like Go's: 16 bytes, and copies share the text.
type Key = Arc<str>;

const ADDS: usize = 1_000_000;
const HOT: usize = 1000;

fn main() {
    let case = std::env::args().nth(1).unwrap_or_default();
    // Two threads, as Go has on two cores.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().expect("threads");
    let keys: Arc<[Key]> = (0..ADDS).map(key).collect();
    runtime.block_on(async move {
        match case.as_str() {
            "1/1 distinct" => pass(1, keys, ADDS).await,
            "4/4 distinct" => pass(4, keys, ADDS).await,
            "64/64 distinct" => pass(64, keys, ADDS).await,
            "1/1 hot" => pass(1, keys, HOT).await,
            "4/4 hot" => pass(4, keys, HOT).await,
            "64/64 hot" => pass(64, keys, HOT).await,
            "in order" => in_order(&keys).await,
            "delayed" => delayed(&keys).await,
            "failures" => failures(&keys).await,
            other => panic!("no such case: {other:?}"),
        }
    });
}

fn key(number: usize) -> Key {
    format!("payments-{:03}/payments-api-{}-7d9c5b6f4d-x{number:05x}", number % 200, number / 10).into()
}

/// Adds spread over `distinct` keys by `pairs` producers, drained by as many consumers.
async fn pass(pairs: usize, keys: Arc<[Key]>, distinct: usize) {
    let (queue, delivered) = (WorkQueue::<Key>::new(QueueOptions::new()), Arc::new(AtomicU64::new(0)));
    let (mut consumers, mut producers) = (JoinSet::new(), JoinSet::new());
    let meter = Meter::start();
    for pair in 0..pairs {
        let (consumer, delivered) = (queue.clone(), delivered.clone());
        consumers.spawn(async move {
            let mut count = 0;
            while let Some(claim) = consumer.get().await {
                std::hint::black_box(claim.key());
                count += 1;
            }
            delivered.fetch_add(count, Ordering::Relaxed);
        });
        let (producer, keys) = (queue.clone(), keys.clone());
        producers.spawn(async move {
            for add in (pair..ADDS).step_by(pairs) {
                producer.add_ref(&keys[add % distinct]);
                // Yields now and then, like any task that reads its keys from a stream.
                tokio::task::coop::consume_budget().await;
            }
        });
    }
    producers.join_all().await;
    queue.shut_down_with_drain().await;
    consumers.join_all().await;
    meter.report(delivered.load(Ordering::Relaxed), 0);
}

/// Adds all keys before the first get, and checks their order.
async fn in_order(keys: &[Key]) {
    let queue = WorkQueue::<Key>::new(QueueOptions::new());
    let meter = Meter::start();
    keys.iter().for_each(|key| queue.add(key.clone()));
    for key in keys {
        let claim = queue.get().await.expect("the queue is open");
        assert_eq!(claim.key(), key, "out of order");
    }
    meter.report(keys.len() as u64, 0);
}

/// A million keys that are due in two to three seconds.
async fn delayed(keys: &[Key]) {
    let queue = DelayingQueue::new(QueueOptions::new());
    let meter = Meter::start();
    for (number, key) in keys.iter().enumerate() {
        queue.add_after(key.clone(), Duration::from_micros(2_000_000 + number as u64 * 7919 % 1_000_003));
    }
    let memory = meter.memory();
    for _ in keys {
        queue.get().await.expect("the queue is open");
    }
    meter.report(keys.len() as u64, memory);
}

/// A million keys that fail once and succeed after a back-off of two seconds.
async fn failures(keys: &[Key]) {
    let limiter = ItemExponential::new(Duration::from_secs(2), Duration::from_secs(1000));
    let queue = RateLimitingQueue::new(limiter, QueueOptions::new());
    let meter = Meter::start();
    keys.iter().for_each(|key| queue.add_rate_limited(key.clone()));
    let memory = meter.memory();
    for _ in keys {
        let claim = queue.get().await.expect("the queue is open");
        queue.forget(&claim);
    }
    meter.report(keys.len() as u64, memory);
}

/// Elapsed time, CPU time and memory since a start.
struct Meter {
    start: Instant,
    used: f64,
    resident: u64,
}

impl Meter {
    fn start() -> Self {
        Meter { start: Instant::now(), used: cpu_seconds(), resident: resident() }
    }

    fn memory(&self) -> u64 {
        resident().saturating_sub(self.resident)
    }

    fn report(self, delivered: u64, memory: u64) {
        let (wall, cpu) = (self.start.elapsed().as_secs_f64(), cpu_seconds() - self.used);
        println!(r#"{{"delivered": {delivered}, "wall_s": {wall:.4}, "cpu_s": {cpu:.4}, "bytes": {memory}}}"#);
    }
}

fn cpu_seconds() -> f64 {
    // Only the crates of the library forbid `unsafe`.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// Bytes of memory that this process holds.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}
