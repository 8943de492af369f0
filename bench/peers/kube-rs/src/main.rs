//! Informer peer: kube-rs watcher + reflector store for pods against the replay server; prints one
//! JSON line.
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, Config, Resource, ResourceExt,
    core::PartialObjectMeta,
    runtime::{
        WatchStreamExt,
        reflector::{self, Lookup, Store, store::Writer},
        watcher,
    },
};
use std::{
    hash::Hash,
    io::{Read, Write},
    net::TcpStream,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tokio::sync::Notify;

#[cfg(feature = "jemalloc")]
#[global_allocator]
static A: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
#[cfg(feature = "mimalloc")]
#[global_allocator]
static A: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn cpu() -> f64 {
    let mut u: libc::rusage = unsafe { std::mem::zeroed() };
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut u) };
    let s = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    s(u.ru_utime) + s(u.ru_stime)
}

fn status_kb(key: &str) -> u64 {
    std::fs::read_to_string("/proc/self/status")
        .unwrap()
        .lines()
        .find_map(|l| l.strip_prefix(key)?.strip_prefix(':')?.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

fn post(server: &str, what: &str) {
    let host = server.trim_start_matches("http://");
    let mut c = TcpStream::connect(host).unwrap();
    write!(c, "POST /_control/{what} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n").unwrap();
    let mut b = [0u8; 1024];
    let n = c.read(&mut b).unwrap();
    let s = String::from_utf8_lossy(&b[..n]).into_owned();
    assert!(s.contains("200 OK") && !s.contains("\"watchers\":0"), "{what} refused: {s}");
}

/// gives free heap back to the system, so that what stays is what is needed
fn trim() {
    #[cfg(not(any(feature = "jemalloc", feature = "mimalloc")))]
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Waits until the process has spent at least so much CPU since `from`, and then nothing to speak
/// of for a second.
async fn quiet(from: f64, least: f64) {
    let (mut last, mut since) = (cpu(), Instant::now());
    while since.elapsed() < Duration::from_secs(1) || cpu() - from < least {
        tokio::time::sleep(Duration::from_millis(100)).await;
        if cpu() - last > 0.02 {
            (last, since) = (cpu(), Instant::now());
        }
    }
}

struct Args {
    server: String,
    variant: String,
    pods: u64,
    events: u64,
    settle: f64,
    relist: bool,
}

struct Shared {
    events: AtomicU64,
    adds: AtomicU64,
    synced: Notify,
    done: Notify,
    last_rv: Mutex<String>,
}

async fn drive<K>(s: impl Stream<Item = Result<watcher::Event<K>, watcher::Error>>, want: u64, sh: Arc<Shared>)
where
    K: Resource,
{
    let mut s = std::pin::pin!(s);
    while let Some(e) = s.next().await {
        match e {
            Ok(watcher::Event::InitApply(_)) => {
                sh.adds.fetch_add(1, Relaxed);
            }
            Ok(watcher::Event::InitDone) => sh.synced.notify_one(),
            Ok(watcher::Event::Apply(o)) => {
                if sh.events.fetch_add(1, Relaxed) + 1 == want {
                    *sh.last_rv.lock().unwrap() = ResourceExt::resource_version(&o).unwrap_or_default();
                    sh.done.notify_one();
                }
            }
            Ok(_) => {}
            // The relist that the bench asked for.
            Err(watcher::Error::WatchError(e)) if e.code == 410 => {}
            Err(e) => {
                eprintln!("watch error: {e}");
                std::process::exit(1)
            }
        }
    }
}

async fn measure<K, S>(a: &Args, t0: Instant, c0: f64, store: Store<K>, stream: S)
where
    K: Resource + Lookup + Clone + Send + Sync + 'static,
    <K as Lookup>::DynamicType: Eq + Hash + Clone + Send + Sync,
    S: Stream<Item = Result<watcher::Event<K>, watcher::Error>> + Send + 'static,
{
    let sh = Arc::new(Shared {
        events: AtomicU64::new(0),
        adds: AtomicU64::new(0),
        synced: Notify::new(),
        done: Notify::new(),
        last_rv: Mutex::new(String::new()),
    });
    tokio::spawn(drive(stream, a.events, sh.clone()));
    store.wait_until_ready().await.unwrap();
    sh.synced.notified().await;
    let (wall, c1, peak) = (t0.elapsed().as_secs_f64(), cpu() - c0, status_kb("VmHWM"));
    tokio::time::sleep(Duration::from_secs_f64(a.settle)).await;
    let (asis, csettled) = (status_kb("VmRSS"), cpu() - c0);
    trim();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let settled = status_kb("VmRSS");
    let n = store.len();
    let _ = std::fs::write("/proc/self/clear_refs", "5"); // resets VmHWM
    let mut out = serde_json::json!({
        "peer": "kube-rs", "variant": a.variant, "pods": a.pods, "events": a.events,
        "sync_wall_s": wall, "sync_cpu_s": c1, "sync_cpu_settled_s": csettled,
        "rss_peak_sync_kb": peak, "rss_asis_kb": asis, "rss_settled_kb": settled,
        "store_len": n, "adds": sh.adds.load(Relaxed),
    });
    if a.relist {
        let before = cpu();
        post(&a.server, "expire");
        quiet(before, c1 / 3.0).await;
        out["relist_cpu_s"] = (cpu() - before).into();
        out["rss_peak_relist_kb"] = status_kb("VmHWM").into();
        trim();
        let _ = std::fs::write("/proc/self/clear_refs", "5");
    }
    if a.events > 0 {
        let (t, c) = (Instant::now(), cpu());
        post(&a.server, "start");
        sh.done.notified().await;
        out["events_wall_s"] = t.elapsed().as_secs_f64().into();
        out["events_cpu_s"] = (cpu() - c).into();
        out["rss_peak_events_kb"] = status_kb("VmHWM").into();
        tokio::time::sleep(Duration::from_secs(1)).await;
        out["rss_after_events_kb"] = status_kb("VmRSS").into();
        trim();
        out["rss_after_events_settled_kb"] = status_kb("VmRSS").into();
        out["events_seen"] = sh.events.load(Relaxed).into();
    }
    out["last_rv"] = sh.last_rv.lock().unwrap().clone().into();
    println!("{out}");
    std::process::exit(0)
}

fn store_of<K>() -> (Store<K>, Writer<K>)
where
    K: Lookup + Clone + 'static,
    K::DynamicType: Eq + Hash + Clone + Default,
{
    reflector::store()
}

fn main() {
    let mut a = Args {
        server: "http://127.0.0.1:18080".into(),
        variant: "json-list".into(),
        pods: 10_000,
        events: 100_000,
        settle: 3.0,
        relist: false,
    };
    let mut it = std::env::args().skip(1);
    let mut threads = 2;
    while let Some(k) = it.next() {
        let v = it.next().expect("flag needs a value");
        match k.trim_start_matches('-') {
            "server" => a.server = v,
            "variant" => a.variant = v,
            "pods" => a.pods = v.parse().unwrap(),
            "events" => a.events = v.parse().unwrap(),
            "settle" => a.settle = v.parse().unwrap(),
            "relist" => a.relist = v == "true",
            "threads" => threads = v.parse().unwrap(),
            _ => panic!("unknown flag {k}"),
        }
    }
    tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build().unwrap().block_on(
        async move {
            let v = format!("-{}-", a.variant);
            let has = |s: &str| v.contains(&format!("-{s}-"));
            let (t0, c0) = (Instant::now(), cpu());
            let client = Client::try_from(Config::new(a.server.parse().unwrap())).unwrap();
            let api: Api<Pod> = Api::all(client.clone());
            let mut wc = watcher::Config::default();
            if has("watchlist") {
                wc = wc.streaming_lists();
            }
            if has("rv0") {
                // resourceVersion=0: one whole list, as client-go asks for it (kube drops the 0
                // while a page size is set)
                wc = wc.any_semantic();
                wc.page_size = None;
            }
            if has("meta") {
                let (r, w) = store_of::<PartialObjectMeta<Pod>>();
                let s = watcher::watcher(Api::<PartialObjectMeta<Pod>>::all(client), wc).reflect(w);
                measure(&a, t0, c0, r, s).await
            } else if has("drop") {
                let (r, w) = store_of::<Pod>();
                let s = watcher::watcher(api, wc).modify(|p| p.managed_fields_mut().clear()).reflect(w);
                measure(&a, t0, c0, r, s).await
            } else {
                let (r, w) = store_of::<Pod>();
                let s = watcher::watcher(api, wc).reflect(w);
                measure(&a, t0, c0, r, s).await
            }
        },
    );
}
