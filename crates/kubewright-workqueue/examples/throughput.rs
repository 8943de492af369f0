//! Measures add, get and done: `cargo run --release -p kubewright-workqueue --example throughput [runs] [case]`.
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

/// Like the names of pods, shared so that what is measured is the queue and not the copying of text.
type Key = Arc<str>;

/// Makes a queue of some kind.
type Make<'a> = &'a dyn Fn() -> WorkQueue<Key>;

fn main() {
    let runs = std::env::args().nth(1).and_then(|runs| runs.parse().ok()).unwrap_or(3);
    let only = std::env::args().nth(2).unwrap_or_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().expect("threads");
    let keys: Arc<[Key]> = (0..ADDS).map(|key| format!("namespace-{}/pod-{key:07}", key % 200).into()).collect();
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    for _ in 0..runs {
        let observed = || Options::new().name("observed").metrics(&metrics);
        let fair = || Options::new().fair_by(|key: &Key| key[..13].to_owned());
        let limiter = || ItemExponential::new(Duration::from_millis(5), Duration::from_secs(1000));
        let ranked = || PriorityQueue::new(limiter(), Ageing::default(), Options::new());
        let cases: [(&str, Make<'_>, usize, usize); 7] = [
            ("1 to 1, distinct", &|| WorkQueue::new(Options::new()), 1, keys.len()),
            ("4 to 4, distinct", &|| WorkQueue::new(Options::new()), 4, keys.len()),
            ("1 to 1, 1000 hot", &|| WorkQueue::new(Options::new()), 1, 1000),
            ("4 to 4, 1000 hot", &|| WorkQueue::new(Options::new()), 4, 1000),
            ("1 to 1, distinct, metrics", &|| WorkQueue::new(observed()), 1, keys.len()),
            ("1 to 1, distinct, groups", &|| WorkQueue::new(fair()), 1, keys.len()),
            ("1 to 1, distinct, priority", &|| (*ranked()).clone(), 1, keys.len()),
        ];
        for (case, queue, workers, distinct) in cases.into_iter().filter(|(case, ..)| case.contains(&only)) {
            runtime.block_on(pass(case, queue(), workers, keys.clone(), distinct));
        }
        if only.is_empty() {
            runtime.block_on(retry(keys.clone()));
            runtime.block_on(delay(&keys[..100_000]));
            runtime.block_on(delay(&keys));
            println!();
        }
    }
}

/// Passes keys from as many producers to as many consumers.
async fn pass(case: &str, queue: WorkQueue<Key>, workers: usize, keys: Arc<[Key]>, distinct: usize) {
    let clock = Clock::start();
    let delivered = Arc::new(AtomicU64::new(0));
    let mut consumers = JoinSet::new();
    let mut producers = JoinSet::new();
    let share = keys.len() / workers;
    for worker in 0..workers {
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
            for add in worker * share..(worker + 1) * share {
                producer.add(keys[add % distinct].clone());
            }
        });
    }
    producers.join_all().await;
    queue.shut_down();
    consumers.join_all().await;
    clock.report(case, ADDS, delivered.load(Ordering::Relaxed));
}

/// Rate-limited adds of distinct keys, each of which succeeds at once.
async fn retry(keys: Arc<[Key]>) {
    const COUNT: usize = 100_000;
    let limiter = ItemExponential::new(Duration::from_micros(1), Duration::from_secs(1));
    let queue = RateLimitingQueue::new(limiter, Options::new());
    let clock = Clock::start();
    let producer = tokio::spawn({
        let queue = queue.clone();
        async move { keys[..COUNT].iter().for_each(|key| queue.add_rate_limited(key.clone())) }
    });
    for _ in 0..COUNT {
        let claim = queue.get().await.expect("the queue is open");
        queue.forget(&claim);
    }
    producer.await.expect("adding does not fail");
    clock.report("rate limited, forgotten", COUNT as u64, COUNT as u64);
}

/// Keys that fall due between two and three seconds from now.
async fn delay(keys: &[Key]) {
    let queue = DelayingQueue::new(Options::new());
    let clock = Clock::start();
    let start = Instant::now();
    let due = |number: usize| Duration::from_micros(2_000_000 + number as u64 * 7919 % 1_000_003);
    let mut deadlines = vec![Duration::ZERO; keys.len()];
    let memory = resident();
    for (number, key) in keys.iter().enumerate() {
        deadlines[number] = start.elapsed() + due(number);
        queue.add_after((number, key.clone()), due(number));
    }
    let memory = resident().saturating_sub(memory);
    let mut late = Vec::new();
    for _ in keys {
        let claim = queue.get().await.expect("the queue is open");
        late.push(start.elapsed().saturating_sub(deadlines[claim.0]));
    }
    late.sort_unstable();
    let count = keys.len() as u64;
    clock.report(&format!("{count} delayed 2 to 3 s"), count, count);
    let at = |part: usize| late[late.len() * part / 100];
    println!("    late: median {:?}, 99 % {:?}; {} bytes a key", at(50), at(99), memory / count);
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
