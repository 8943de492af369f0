//! Profiles of a process whose allocator is jemalloc, decoded as `go tool pprof` does.

use std::collections::HashMap;
use std::env;
use std::hint::black_box;
use std::io::Read;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use flate2::read::GzDecoder;
use kubewright_apiserver::{ApiServer, RunningServer};
use kubewright_runtime::{Manager, ManagerOptions};
use pprof::protos::{Message, Profile};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// jemalloc's options in its environment variable. A process reads them when it starts.
const MALLOC_CONF: (&str, &str) = ("_RJEM_MALLOC_CONF", "prof:true,lg_prof_sample:12");

struct Fixture {
    address: SocketAddr,
    _server: RunningServer,
    _running: AbortOnDropHandle<()>,
}

impl Fixture {
    async fn start(options: ManagerOptions) -> Self {
        let (tell, told) = oneshot::channel();
        let options = options.listen(([127, 0, 0, 1], 0).into()).tell_address(tell);
        let server = ApiServer::in_memory().start().await.unwrap();
        let manager = Manager::new(&server.client(), options);
        let running = tokio::spawn(async move { manager.run(&CancellationToken::new()).await.unwrap() });
        Fixture { address: told.await.unwrap(), _server: server, _running: AbortOnDropHandle::new(running) }
    }

    /// Status code and body of a page.
    async fn get(&self, path: &str) -> (u16, Vec<u8>) {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("an answer");
        let code = str::from_utf8(&answer[9..12]).unwrap().parse().unwrap();
        (code, answer.split_off(end + 4))
    }
}

/// The samples of a profile: the functions on the stack, innermost first, and the value of the last
/// type, which has the given name and unit.
fn samples(profile: &Profile, kind: &str, unit: &str) -> Vec<(Vec<String>, i64)> {
    let text = |at: i64| profile.string_table[at as usize].clone();
    let last = profile.sample_type.last().unwrap();
    assert_eq!((text(last.ty), text(last.unit)), (kind.to_owned(), unit.to_owned()));
    let location_of: HashMap<u64, _> = profile.location.iter().map(|location| (location.id, location)).collect();
    let name_of: HashMap<u64, _> = profile.function.iter().map(|function| (function.id, text(function.name))).collect();
    let functions = |id: &u64| location_of[id].line.iter().map(|line| name_of[&line.function_id].clone());
    let stack = |ids: &[u64]| ids.iter().flat_map(functions).collect();
    profile.sample.iter().map(|sample| (stack(&sample.location_id), *sample.value.last().unwrap())).collect()
}

/// The value of all samples with a function on the stack whose name contains `name`.
fn value_of(name: &str, samples: &[(Vec<String>, i64)]) -> i64 {
    let has_name = |stack: &[String]| stack.iter().any(|function| function.contains(name));
    samples.iter().filter(|(stack, _)| has_name(stack)).map(|(_, value)| value).sum()
}

#[inline(never)]
fn spin_until(stop: &AtomicBool) {
    let mut number = 1_u64;
    while !stop.load(Relaxed) {
        number = black_box(number.wrapping_mul(6_364_136_223_846_793_005).rotate_left(7));
    }
}

#[inline(never)]
fn hold_memory() -> Vec<Vec<u8>> {
    (0..1000).map(|_| vec![1; 4096]).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cpu_profile_names_the_function_that_computes() {
    let fixture = Fixture::start(ManagerOptions::default().profiles()).await;
    let stop = Arc::new(AtomicBool::new(false));
    let spinning = thread::spawn({
        let stop = stop.clone();
        move || spin_until(&stop)
    });
    let (first, second) =
        tokio::join!(fixture.get("/debug/pprof/profile?seconds=2"), fixture.get("/debug/pprof/profile?seconds=1"));
    stop.store(true, Relaxed);
    spinning.join().unwrap();
    // Only one of them could be taken.
    let (taken, refused) = if first.0 == 200 { (first, second) } else { (second, first) };
    assert_eq!((taken.0, refused.0), (200, 409));
    assert_eq!(refused.1, b"another CPU profile is being taken\n");
    if let Some(path) = env::var_os("KUBEWRIGHT_KEEP_CPU_PROFILE") {
        std::fs::write(path, &taken.1).unwrap();
    }
    let profile = Profile::decode(&*taken.1).unwrap();
    let samples = samples(&profile, "cpu", "nanoseconds");
    // Two samples: a busy machine leaves it a fraction of the time.
    assert!(value_of("spin_until", &samples) >= 20_000_000, "{samples:?}");
    assert_eq!(value_of("pprof::backtrace", &samples), 0, "the profiler itself is not shown");
    // Another one can be taken afterwards, and parameters are checked.
    assert_eq!(fixture.get("/debug/pprof/profile?seconds=1").await.0, 200);
    assert_eq!(fixture.get("/debug/pprof/profile?seconds=86400").await.0, 400);
}

#[tokio::test]
async fn profiles_are_off_by_default() {
    let fixture = Fixture::start(ManagerOptions::default()).await;
    for path in ["/debug/pprof/profile?seconds=1", "/debug/pprof/heap"] {
        assert_eq!(fixture.get(path).await.0, 404, "{path}");
    }
}

#[tokio::test]
async fn a_heap_profile_names_the_function_that_allocates() {
    if env::var_os(MALLOC_CONF.0).is_none() {
        // Without the option there is a clear error, and with it a profile.
        let fixture = Fixture::start(ManagerOptions::default().profiles()).await;
        let (code, text) = fixture.get("/debug/pprof/heap").await;
        assert_eq!(code, 501);
        assert!(String::from_utf8(text).unwrap().contains("_RJEM_MALLOC_CONF=prof:true"));
        let mut again = Command::new(env::current_exe().unwrap());
        again.args(["--exact", "a_heap_profile_names_the_function_that_allocates"]);
        assert!(again.env(MALLOC_CONF.0, MALLOC_CONF.1).status().unwrap().success());
        return;
    }
    let fixture = Fixture::start(ManagerOptions::default().profiles()).await;
    let held = black_box(hold_memory());
    let (code, compressed) = fixture.get("/debug/pprof/heap").await;
    assert_eq!(code, 200, "{}", String::from_utf8_lossy(&compressed));
    drop(held);
    if let Some(path) = env::var_os("KUBEWRIGHT_KEEP_HEAP_PROFILE") {
        std::fs::write(path, &compressed).unwrap();
    }
    let mut encoded = Vec::new();
    GzDecoder::new(&*compressed).read_to_end(&mut encoded).unwrap();
    let samples = samples(&Profile::decode(&*encoded).unwrap(), "inuse_space", "bytes");
    // 4 MB, estimated from samples.
    let held = value_of("hold_memory", &samples);
    assert!((2_000_000..8_000_000).contains(&held), "{held}");
}
