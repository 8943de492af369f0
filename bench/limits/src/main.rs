//! The best that this machine could do with the bytes of the replay server: copying, loopback,
//! parsing. Usage: limits http://127.0.0.1:PORT [pods]   (server started with --formats json,pb)
use prost::Message;
use serde::Deserialize;
use std::{
    alloc::{GlobalAlloc, Layout, System},
    collections::BTreeMap,
    hint::black_box,
    io::{Read, Write},
    net::TcpStream,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::Instant,
};

struct Counting;
static ON: AtomicBool = AtomicBool::new(false);
static LIVE: AtomicU64 = AtomicU64::new(0);
static CALLS: AtomicU64 = AtomicU64::new(0);
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, l: Layout) -> *mut u8 {
        if ON.load(Relaxed) {
            LIVE.fetch_add(l.size() as u64, Relaxed);
            CALLS.fetch_add(1, Relaxed);
        }
        unsafe { System.alloc(l) }
    }
    unsafe fn dealloc(&self, p: *mut u8, l: Layout) {
        if ON.load(Relaxed) {
            LIVE.fetch_sub(l.size() as u64, Relaxed);
        }
        unsafe { System.dealloc(p, l) }
    }
    unsafe fn realloc(&self, p: *mut u8, l: Layout, n: usize) -> *mut u8 {
        if ON.load(Relaxed) {
            LIVE.fetch_add(n as u64, Relaxed);
            LIVE.fetch_sub(l.size() as u64, Relaxed);
            CALLS.fetch_add(1, Relaxed);
        }
        unsafe { System.realloc(p, l, n) }
    }
}
#[global_allocator]
static A: Counting = Counting;

fn cpu() -> f64 {
    let mut u: libc::rusage = unsafe { std::mem::zeroed() };
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut u) };
    let s = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    s(u.ru_utime) + s(u.ru_stime)
}
fn rss_kb() -> u64 {
    let s = std::fs::read_to_string("/proc/self/statm").unwrap();
    s.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4
}

fn get(server: &str, path: &str, accept: &str) -> Vec<u8> {
    let host = server.trim_start_matches("http://");
    let mut c = TcpStream::connect(host).unwrap();
    write!(c, "GET {path} HTTP/1.1\r\nHost: {host}\r\nAccept: {accept}\r\n\r\n").unwrap();
    let (mut b, mut n) = (vec![0u8; 1 << 20], 0);
    let (head, len) = loop {
        n += c.read(&mut b[n..]).unwrap();
        if let Some(e) = b[..n].windows(4).position(|w| w == b"\r\n\r\n") {
            let h = String::from_utf8_lossy(&b[..e]).to_lowercase();
            break (
                e + 4,
                h.split("content-length: ").nth(1).unwrap().split("\r\n").next().unwrap().parse::<usize>().unwrap(),
            );
        }
    };
    let mut body = b[head..n].to_vec();
    body.resize(len, 0);
    c.read_exact(&mut body[n - head..]).unwrap();
    body
}

/// reads and throws away, as the cheapest client could
fn drain(server: &str, buf: usize) -> (usize, f64, f64) {
    let host = server.trim_start_matches("http://");
    let mut c = TcpStream::connect(host).unwrap();
    let mut b = vec![0u8; buf];
    let (t, c0) = (Instant::now(), cpu());
    write!(c, "GET /api/v1/pods HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
    let (mut n, mut want) = (0, usize::MAX);
    while n < want {
        let k = c.read(&mut b).unwrap();
        assert!(k > 0);
        if n == 0 {
            let h = String::from_utf8_lossy(&b[..k.min(400)]).to_lowercase();
            want = h.split("content-length: ").nth(1).unwrap().split("\r\n").next().unwrap().parse::<usize>().unwrap();
        }
        n += k;
    }
    (n, t.elapsed().as_secs_f64(), cpu() - c0)
}

// memory of a cache with only keys, labels and node names
#[derive(Deserialize)]
#[allow(dead_code)]
#[serde(rename_all = "camelCase")]
struct MiniMeta {
    name: String,
    namespace: String,
    uid: String,
    resource_version: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}
#[derive(Deserialize)]
#[allow(dead_code)]
#[serde(rename_all = "camelCase")]
struct MiniSpec {
    node_name: String,
}
#[derive(Deserialize)]
#[allow(dead_code)]
struct MiniStatus {
    phase: String,
}
#[derive(Deserialize)]
#[allow(dead_code)]
struct Mini {
    metadata: MiniMeta,
    spec: MiniSpec,
    status: MiniStatus,
}
#[derive(Deserialize)]
#[allow(dead_code)]
#[serde(rename_all = "camelCase")]
struct RefMeta<'a> {
    #[serde(borrow)]
    name: &'a str,
    namespace: &'a str,
    uid: &'a str,
    resource_version: &'a str,
}
#[derive(Deserialize)]
#[allow(dead_code)]
struct RefPod<'a> {
    #[serde(borrow)]
    metadata: RefMeta<'a>,
}

#[derive(Clone, PartialEq, Message)]
struct PbMeta {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "3")]
    namespace: String,
    #[prost(string, tag = "5")]
    uid: String,
    #[prost(string, tag = "6")]
    resource_version: String,
    #[prost(btree_map = "string, string", tag = "11")]
    labels: BTreeMap<String, String>,
}
#[derive(Clone, PartialEq, Message)]
struct PbSpec {
    #[prost(string, tag = "10")]
    node_name: String,
}
#[derive(Clone, PartialEq, Message)]
struct PbStatus {
    #[prost(string, tag = "1")]
    phase: String,
}
#[derive(Clone, PartialEq, Message)]
struct PbMini {
    #[prost(message, optional, tag = "1")]
    metadata: Option<PbMeta>,
    #[prost(message, optional, tag = "2")]
    spec: Option<PbSpec>,
    #[prost(message, optional, tag = "3")]
    status: Option<PbStatus>,
}

#[derive(Deserialize)]
struct RawList<'a> {
    #[serde(borrow)]
    items: Vec<&'a serde_json::value::RawValue>,
}

type Pod = k8s_openapi::api::core::v1::Pod;
type PbPod = k8s_pb::api::core::v1::Pod;

/// five timed passes that drop each object, the best and the median; then one pass that keeps them
/// all, for memory
fn bench<'a, T>(name: &str, items: &[&'a [u8]], f: impl Fn(&'a [u8]) -> T) {
    let bytes: usize = items.iter().map(|i| i.len()).sum();
    let mut v: Vec<f64> = (0..5)
        .map(|_| {
            let c = cpu();
            items.iter().for_each(|i| {
                black_box(f(i));
            });
            cpu() - c
        })
        .collect();
    v.sort_by(f64::total_cmp);
    let mut keep = Vec::with_capacity(items.len());
    let r0 = rss_kb();
    LIVE.store(1 << 40, Relaxed);
    CALLS.store(0, Relaxed);
    ON.store(true, Relaxed);
    items.iter().for_each(|i| keep.push(f(i)));
    ON.store(false, Relaxed);
    let (live, calls, rss) = (LIVE.load(Relaxed) - (1 << 40), CALLS.load(Relaxed), rss_kb() - r0.min(rss_kb()));
    let n = items.len() as f64;
    drop(keep);
    unsafe { libc::malloc_trim(0) };
    println!(
        "{{\"bench\":\"{name}\",\"pods\":{n},\"bytes\":{bytes},\"best_cpu_us_per_pod\":{:.2},\"median_cpu_us_per_pod\":{:.2},\"best_mb_per_s\":{:.0},\"heap_bytes_per_pod\":{:.0},\"inline_bytes\":{},\"allocs_per_pod\":{:.1},\"rss_kb_per_pod\":{:.2}}}",
        v[0] / n * 1e6,
        v[2] / n * 1e6,
        bytes as f64 / v[0] / 1e6,
        live as f64 / n,
        size_of::<T>(),
        calls as f64 / n,
        rss as f64 / n
    );
}

/// Nanoseconds for a read of memory whose place another read has told: `objects` of `size` bytes,
/// each naming the next at random.
fn dependent_read(objects: usize, size: usize) -> f64 {
    let (words, mut order): (usize, Vec<usize>) = (size / 4, (0..objects).collect());
    let mut state = 1u64;
    for last in (1..objects).rev() {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        order.swap(last, (state >> 33) as usize % (last + 1));
    }
    let mut memory = vec![0u32; objects * words];
    for (at, next) in order.iter().zip(order.iter().cycle().skip(1)) {
        memory[at * words] = (next * words) as u32;
    }
    let (start, mut at) = (Instant::now(), order[0] * words);
    for _ in 0..20 * objects {
        at = memory[at] as usize;
    }
    black_box(at);
    start.elapsed().as_secs_f64() * 1e9 / (20 * objects) as f64
}

fn main() {
    let server = std::env::args().nth(1).expect("server URL");
    let n: usize = std::env::args().nth(2).map_or(10_000, |s| s.parse().unwrap());
    let json = get(&server, &format!("/api/v1/pods?limit={n}"), "application/json");
    let list: RawList = serde_json::from_slice(&json).unwrap();
    let items: Vec<&[u8]> = list.items.iter().map(|r| r.get().as_bytes()).collect();
    let pb = get(&server, &format!("/api/v1/pods?limit={n}"), "application/vnd.kubernetes.protobuf");
    assert_eq!(&pb[..4], b"k8s\0");
    // runtime.Unknown → PodList → items, by hand so that each pod's own bytes are known
    #[derive(Clone, PartialEq, Message)]
    struct Unknown {
        #[prost(bytes = "vec", tag = "2")]
        raw: Vec<u8>,
    }
    #[derive(Clone, PartialEq, Message)]
    struct List {
        #[prost(bytes = "vec", repeated, tag = "2")]
        items: Vec<Vec<u8>>,
    }
    let l = List::decode(&Unknown::decode(&pb[4..]).unwrap().raw[..]).unwrap();
    let pitems: Vec<&[u8]> = l.items.iter().map(|v| &v[..]).collect();
    eprintln!("{} JSON pods {} B, {} protobuf pods {} B", items.len(), json.len(), pitems.len(), pb.len());

    // waiting
    for objects in [1000, 100_000] {
        let ns = dependent_read(objects, 1024);
        println!("{{\"bench\":\"dependent_read\",\"objects_of_1kb\":{objects},\"ns\":{ns:.0}}}");
    }

    // copying
    let mut dst = vec![1u8; json.len()];
    let mut v: Vec<f64> = (0..7)
        .map(|_| {
            let t = Instant::now();
            dst.copy_from_slice(&json);
            black_box(&dst);
            t.elapsed().as_secs_f64()
        })
        .collect();
    v.sort_by(f64::total_cmp);
    println!(
        "{{\"bench\":\"memcpy\",\"bytes\":{},\"best_mb_per_s\":{:.0},\"median_mb_per_s\":{:.0}}}",
        json.len(),
        json.len() as f64 / v[0] / 1e6,
        json.len() as f64 / v[3] / 1e6
    );
    drop(dst);
    for buf in [16 << 10, 64 << 10, 256 << 10, 1 << 20] {
        let mut best = drain(&server, buf);
        for _ in 0..4 {
            let d = drain(&server, buf);
            if d.1 < best.1 {
                best = d
            }
        }
        println!(
            "{{\"bench\":\"loopback_read\",\"buffer\":{buf},\"bytes\":{},\"wall_s\":{:.4},\"client_cpu_s\":{:.4},\"mb_per_s\":{:.0}}}",
            best.0,
            best.1,
            best.2,
            best.0 as f64 / best.1 / 1e6
        );
    }

    bench("json serde_json -> IgnoredAny (scan only)", &items, |b| {
        serde_json::from_slice::<serde::de::IgnoredAny>(b).unwrap()
    });
    bench("json serde_json -> k8s_openapi Pod", &items, |b| serde_json::from_slice::<Pod>(b).unwrap());
    bench("json serde_json -> k8s_openapi Pod, managedFields dropped", &items, |b| {
        let mut p = serde_json::from_slice::<Pod>(b).unwrap();
        p.metadata.managed_fields = None;
        p
    });
    bench("json serde_json -> Value", &items, |b| serde_json::from_slice::<serde_json::Value>(b).unwrap());
    bench("json serde_json -> minimal struct", &items, |b| serde_json::from_slice::<Mini>(b).unwrap());
    bench("json serde_json -> borrowed key fields", &items, |b| serde_json::from_slice::<RefPod>(b).unwrap());
    bench("json sonic-rs -> k8s_openapi Pod", &items, |b| sonic_rs::from_slice::<Pod>(b).unwrap());
    bench("json sonic-rs -> minimal struct", &items, |b| sonic_rs::from_slice::<Mini>(b).unwrap());
    bench("json sonic-rs -> borrowed key fields", &items, |b| sonic_rs::from_slice::<RefPod>(b).unwrap());
    bench("json sonic-rs get_unchecked metadata (lazy)", &items, |b| unsafe {
        sonic_rs::get_unchecked(b, &["metadata"]).unwrap()
    });
    bench("json simd-json -> k8s_openapi Pod (incl. copy)", &items, |b| {
        let mut c = b.to_vec();
        simd_json::serde::from_slice::<Pod>(&mut c).unwrap()
    });
    bench("json simd-json -> minimal struct (incl. copy)", &items, |b| {
        let mut c = b.to_vec();
        simd_json::serde::from_slice::<Mini>(&mut c).unwrap()
    });
    bench("json keep the bytes (one copy)", &items, |b| b.to_vec().into_boxed_slice());
    bench("pb prost -> k8s_pb Pod", &pitems, |b| PbPod::decode(b).unwrap());
    bench("pb prost -> minimal struct", &pitems, |b| PbMini::decode(b).unwrap());
    bench("pb keep the bytes (one copy)", &pitems, |b| b.to_vec().into_boxed_slice());
    println!(
        "{{\"bench\":\"sizes\",\"k8s_openapi_Pod\":{},\"k8s_openapi_PodSpec\":{},\"k8s_openapi_Container\":{},\"k8s_pb_Pod\":{}}}",
        size_of::<Pod>(),
        size_of::<k8s_openapi::api::core::v1::PodSpec>(),
        size_of::<k8s_openapi::api::core::v1::Container>(),
        size_of::<PbPod>()
    );
}
