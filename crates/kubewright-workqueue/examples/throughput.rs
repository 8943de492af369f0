//! Measures add, get and done: `cargo run --release -p kubewright-workqueue --example throughput [runs]`.
//!
//! Prints a line for each case: items handed out in a second, and processor time for each add.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kubewright_workqueue::limiter::ItemExponential;
use kubewright_workqueue::{Ageing, DelayingQueue, Metrics, Options, PriorityQueue, RateLimitingQueue, WorkQueue};
use prometheus_client::registry::Registry;
use tokio::task::JoinSet;

const ADDS: u64 = 1_000_000;

fn main() {
    let runs = std::env::args().nth(1).and_then(|runs| runs.parse().ok()).unwrap_or(3);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().expect("threads");
    for _ in 0..runs {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let plain = || WorkQueue::new(Options::new());
        runtime.block_on(pass("1 to 1, distinct", plain(), 1, ADDS));
        runtime.block_on(pass("4 to 4, distinct", plain(), 4, ADDS));
        runtime.block_on(pass("1 to 1, 1000 hot", plain(), 1, 1000));
        runtime.block_on(pass("4 to 4, 1000 hot", plain(), 4, 1000));
        let observed = WorkQueue::new(Options::new().name("observed").metrics(&metrics));
        runtime.block_on(pass("1 to 1, distinct, metrics", observed, 1, ADDS));
        let fair = WorkQueue::new(Options::new().fair_by(|key: &u64| key % 50));
        runtime.block_on(pass("1 to 1, distinct, 50 groups", fair, 1, ADDS));
        let limiter = ItemExponential::new(Duration::from_millis(5), Duration::from_secs(1000));
        let priority = PriorityQueue::new(limiter, Ageing::default(), Options::new());
        runtime.block_on(pass("1 to 1, distinct, priority", (*priority).clone(), 1, ADDS));
        runtime.block_on(retry());
        runtime.block_on(delay());
        println!();
    }
}

/// Passes keys from as many producers to as many consumers.
async fn pass(case: &str, queue: WorkQueue<u64>, workers: u64, keys: u64) {
    let clock = Clock::start();
    let delivered = Arc::new(AtomicU64::new(0));
    let mut consumers = JoinSet::new();
    let mut producers = JoinSet::new();
    for worker in 0..workers {
        let (consumer, delivered) = (queue.clone(), delivered.clone());
        consumers.spawn(async move {
            let mut count = 0;
            while let Some(claim) = consumer.get().await {
                std::hint::black_box(*claim);
                count += 1;
            }
            delivered.fetch_add(count, Ordering::Relaxed);
        });
        let producer = queue.clone();
        producers.spawn(async move {
            for add in 0..ADDS / workers {
                producer.add((worker * ADDS / workers + add) % keys);
            }
        });
    }
    producers.join_all().await;
    queue.shut_down();
    consumers.join_all().await;
    clock.report(case, ADDS, delivered.load(Ordering::Relaxed));
}

/// Rate-limited adds of distinct keys, each of which succeeds the second time.
async fn retry() {
    const KEYS: u64 = 100_000;
    let queue = RateLimitingQueue::new(ItemExponential::new(Duration::ZERO, Duration::ZERO), Options::new());
    let clock = Clock::start();
    let producer = tokio::spawn({
        let queue = queue.clone();
        async move { (0..KEYS).for_each(|key| queue.add_rate_limited(key)) }
    });
    for _ in 0..KEYS {
        let claim = queue.get().await.expect("the queue is open");
        queue.forget(&claim);
    }
    producer.await.expect("adding does not fail");
    clock.report("rate limited, forgotten", KEYS, KEYS);
}

/// A million keys that fall due between two and three seconds from now.
async fn delay() {
    let queue = DelayingQueue::new(Options::new());
    let clock = Clock::start();
    let memory = resident();
    let start = Instant::now();
    let due = |key: u64| Duration::from_micros(2_000_000 + key * 7919 % 1_000_003);
    for key in 0..ADDS {
        queue.add_after(key, due(key));
    }
    let memory = resident().saturating_sub(memory);
    let mut late = Vec::new();
    for _ in 0..ADDS {
        let claim = queue.get().await.expect("the queue is open");
        late.push(start.elapsed().saturating_sub(due(*claim)));
    }
    late.sort_unstable();
    clock.report("delayed 2 to 3 s", ADDS, ADDS);
    let at = |part: usize| late[late.len() * part / 100];
    println!("    late: median {:?}, 99 % {:?}; {} bytes a key", at(50), at(99), memory / ADDS);
}

/// Wall time and processor time since a moment.
struct Clock {
    start: Instant,
    used: Duration,
}

impl Clock {
    fn start() -> Self {
        Self { start: Instant::now(), used: processor_time() }
    }

    fn report(self, case: &str, adds: u64, delivered: u64) {
        let (wall, used) = (self.start.elapsed(), processor_time() - self.used);
        let rate = adds as f64 / wall.as_secs_f64() / 1000.0;
        let cost = used.as_nanos() as u64 / adds;
        println!("{case:28} {rate:8.0} thousand adds/s, {delivered:8} delivered, {cost:5} ns of processor time each");
    }
}

/// Of this process, from the kernel's table in hundredths of a second; zero where there is none.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(')').map(|(_, fields)| fields).unwrap_or_default();
    let ticks: u64 = fields.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

/// Bytes of memory in use by this process; zero where the kernel does not say.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}
