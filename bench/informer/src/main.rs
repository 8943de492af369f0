//! kubewright as a contestant of the informer rows: syncs an informer over all pods, then processes
//! events, and reports after both.
//!
//! `--server URL --variant V --pods N --events M --settle S`, where `V` is words joined by dashes:
//! `json` or `pb`; `list` or `watchlist`; `drop` has no effect, because managed fields are always
//! dropped; `compact` stores objects as bytes. `--relist true` lets the server expire the
//! watch before the events; `--handlers N`, `--stalled true` and `--rate R` are for
//! event-to-handler times. Prints one line of JSON with the fields that the bench's README lists.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use kubewright::api::core::v1::Pod;
use kubewright::cache::{
    Compact, Event, HandlerOptions, Indexers, InformerOptions, ListWatch, Overflow, ReflectorOptions,
    SharedIndexInformer,
};
use kubewright::{Api, Client, Config, Kind};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    // Pairs of `--name value`.
    let words: Vec<String> = std::env::args().skip(1).collect();
    let options: HashMap<&str, &str> =
        words.chunks(2).filter_map(|pair| Some((pair[0].strip_prefix("--")?, pair.get(1)?.as_str()))).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads");
    let variant = options["variant"];
    if variant.contains("compact") {
        runtime.block_on(measure::<Compact<Pod>>(&options))
    } else {
        runtime.block_on(measure::<Pod>(&options))
    }
}

/// Version of the list; event `j` has `LIST_VERSION + 1 + j`.
const LIST_VERSION: u64 = 10_000_000;

/// The handler's counts.
#[derive(Default)]
struct Seen {
    added: AtomicU64,
    updated: AtomicU64,
    /// Arrival time of each event in nanoseconds since 1970, if the events are paced.
    arrived: Vec<AtomicU64>,
    progress: Notify,
}

async fn measure<T: Kind>(options: &HashMap<&str, &str>) {
    let number = |name: &str| options[name].parse::<f64>().expect("a number");
    let (server, variant, pods, events) =
        (options["server"], options["variant"], number("pods") as u64, number("events") as u64);
    let (start, cpu) = (Instant::now(), cpu_seconds());
    let mut client = Client::try_from(Config::new(server).expect("a URL")).expect("a client");
    if variant.contains("json") {
        client = client.json_only();
    }
    let mut reflecting = ReflectorOptions::default();
    if !variant.contains("watchlist") {
        reflecting = reflecting.without_streaming_lists();
    }
    let choices = InformerOptions::default().indexers(Indexers::by_namespace()).reflector(reflecting);
    let informer = SharedIndexInformer::new(ListWatch::new(Api::<T>::all(&client)), choices);
    let choice = |name: &str| options.get(name).copied().unwrap_or_default();
    let (handlers, rate) = (choice("handlers").parse().unwrap_or(1), choice("rate").parse().unwrap_or(0));
    // A channel without reader: its handler is full after one event, and never ready again.
    let (stalled, _unread) = tokio::sync::mpsc::channel(1);
    for number in 1..handlers {
        if number == 1 && choice("stalled") == "true" {
            informer.add_handler(stalled.clone()).expect("it has not stopped")
        } else {
            informer.add_handler(|_: &Event<T>| {}).expect("it has not stopped")
        };
    }
    let arrived = (0..if rate > 0 { events } else { 0 }).map(|_| AtomicU64::new(0)).collect();
    let seen = Arc::new(Seen { arrived, ..Seen::default() });
    let counting = Arc::clone(&seen);
    // Each event counts here, so none may be folded into another.
    let exactly = HandlerOptions::default().overflow(Overflow::Block);
    let count = move |event: &Event<T>| {
        if let (false, Event::Updated { new, .. }) = (counting.arrived.is_empty(), event) {
            let version: u64 = new.resource_version().parse().expect("a number");
            let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as u64;
            counting.arrived[(version - LIST_VERSION - 1) as usize].store(now, Ordering::Relaxed);
        }
        let (count, goal) = match event {
            Event::Added { .. } => (&counting.added, pods),
            // A relist brings every object again.
            Event::Updated { old, new } if old.resource_version() == new.resource_version() => return,
            _ => (&counting.updated, events),
        };
        if count.fetch_add(1, Ordering::Relaxed) + 1 >= goal {
            counting.progress.notify_one();
        }
    };
    let handler = informer.add_handler_with(count, exactly).expect("it has not stopped");
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let (informer, stop) = (informer.clone(), stop.clone());
        async move { informer.run(&stop).await }
    });
    informer.synced().await;
    handler.synced().await;
    let (sync_wall, sync_cpu, peak_sync) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu, memory("VmHWM"));

    tokio::time::sleep(Duration::from_secs_f64(number("settle"))).await;
    let as_is = memory("VmRSS");
    trim();
    let settled = memory("VmRSS");
    let _ = std::fs::write("/proc/self/clear_refs", "5");

    let mut more = String::new();
    if choice("relist") == "true" {
        let before = cpu_seconds();
        client.rest().post().absolute_path("/_control/expire").send().await.expect("the server ends the watch");
        quiet(before, sync_cpu / 3.0).await;
        let (spent, peak) = (cpu_seconds() - before, memory("VmHWM"));
        more += &format!(r#", "relist_cpu_s": {spent:.4}, "rss_peak_relist_kb": {peak}"#);
        trim();
        let _ = std::fs::write("/proc/self/clear_refs", "5");
    }

    let (start, cpu) = (Instant::now(), cpu_seconds());
    let answer = client.rest().post().absolute_path("/_control/start").parameter("rate", rate).send().await;
    let answer = answer.expect("the server plays events");
    while seen.updated.load(Ordering::Relaxed) < events {
        seen.progress.notified().await;
    }
    let (events_wall, events_cpu, peak_events) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu, memory("VmHWM"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let after = memory("VmRSS");
    trim();
    if rate > 0 {
        let text = String::from_utf8_lossy(&answer.bytes()).into_owned();
        let first = text.rsplit("\"first_ns\":").next().and_then(|rest| rest.split('}').next()?.parse::<u64>().ok());
        let first = first.expect("the server says when it began");
        let late = |(number, at): (usize, &AtomicU64)| {
            (at.load(Ordering::Relaxed) as f64 - first as f64) / 1e3 - number as f64 * 1e6 / rate as f64
        };
        let mut late: Vec<f64> = seen.arrived.iter().enumerate().map(late).collect();
        late.sort_by(f64::total_cmp);
        let (p50, p99) = (late[late.len() / 2], late[late.len() * 99 / 100]);
        more += &format!(r#", "late_p50_us": {p50:.1}, "late_p99_us": {p99:.1}"#);
    }
    println!(
        r#"{{"peer": "kubewright", "variant": "{variant}", "pods": {pods}, "events": {events}, "sync_wall_s": {sync_wall:.4}, "sync_cpu_s": {sync_cpu:.4}, "rss_peak_sync_kb": {peak_sync}, "rss_asis_kb": {as_is}, "rss_settled_kb": {settled}, "events_wall_s": {events_wall:.4}, "events_cpu_s": {events_cpu:.4}, "rss_peak_events_kb": {peak_events}, "rss_after_events_kb": {after}, "rss_after_events_settled_kb": {}, "store_len": {}, "events_seen": {}, "last_rv": "{}"{more}}}"#,
        memory("VmRSS"),
        informer.store().snapshot().len(),
        seen.updated.load(Ordering::Relaxed),
        informer.last_sync_resource_version(),
    );
    stop.cancel();
    let _ = running.await;
}

/// Waits until the process has used at least this much CPU time since `from`, and then almost none
/// for a second.
async fn quiet(from: f64, least: f64) {
    let (mut last, mut since) = (cpu_seconds(), Instant::now());
    while since.elapsed() < Duration::from_secs(1) || cpu_seconds() - from < least {
        tokio::time::sleep(Duration::from_millis(100)).await;
        if cpu_seconds() - last > 0.02 {
            (last, since) = (cpu_seconds(), Instant::now());
        }
    }
}

/// Gives free memory back, as the peers do. The one place that needs `unsafe`, which is why it is
/// in a bench.
fn trim() {
    unsafe { libc::malloc_trim(0) };
}

fn cpu_seconds() -> f64 {
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// A line of `/proc/self/status`, in kilobytes.
fn memory(line: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let value = status.lines().find_map(|text| text.strip_prefix(line)?.strip_prefix(':'));
    value.and_then(|value| value.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
