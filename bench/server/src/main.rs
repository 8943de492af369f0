//! Drives the server that `KUBECONFIG` names: `ready`, `creates CLIENTS SECONDS`,
//! `fanout WATCHERS EVENTS` and `latency WATCHERS EVENTS`. Prints a line of JSON.
//!
//! `objects`, `watches` and `definitions COUNT` measure an embedded server of this process (see
//! [`growth`]). `restart OBJECTS INFORMERS FOLDER [ETCD]` kills a server and starts it again (see
//! [`restart`](mod@restart)).
//!
//! `serve KUBECONFIG [--data DIR] [--unsafe-fast] [--etcd URL] [--pki DIR] [--listen ADDRESS]` is
//! the embedded server. It is in a program without peers, because cargo would compile shared crates
//! with the peers' features.
//!
//! The driver takes the same share of the cores for each server. The CPU time of a server is read
//! from `/proc`, for all processes in `SERVER_PIDS`.

mod growth;
mod latency;
mod process;
mod restart;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kubewright::api::core::v1::ConfigMap;
use kubewright::apiserver::ApiServer;
use kubewright::options::{ListOptions, WatchOptions};
use kubewright::stream::WatchEvent;
use kubewright::{Api, Client, Config, Object};
use kubewright_apiserver::EtcdOptions;
use kubewright_etcd::ClientOptions;
use tokio::io::AsyncReadExt;
use tokio::task::JoinSet;

/// The allocator of the command `kubewright`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| words.get(index).and_then(|word| word.parse::<usize>().ok()).expect("a number");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads");
    match words.first().map(String::as_str) {
        Some("ready") => runtime.block_on(ready()),
        Some("creates") => runtime.block_on(creates(number(1), Duration::from_secs(number(2) as u64))),
        Some("serve") => runtime.block_on(serve(&words[1..])),
        Some("objects") => runtime.block_on(growth::objects(number(1))),
        Some("watches") => runtime.block_on(growth::watches(number(1))),
        Some("definitions") => runtime.block_on(growth::definitions(number(1))),
        Some("restart") => {
            let folder = words.get(3).expect("a folder");
            runtime.block_on(restart::restart(number(1), number(2), folder, words.get(4).map(String::as_str)));
        }
        Some("latency") => runtime.block_on(latency::latency(number(1), number(2))),
        Some("fanout") => runtime.block_on(fanout(number(1), number(2))),
        _ => panic!("see the documentation at the top of bench/server/src/main.rs"),
    }
}

/// Serves over TLS until the input ends, and writes a kubeconfig. Prints the URL.
async fn serve(words: &[String]) {
    let (kubeconfig, options) = words.split_first().expect("a file for the kubeconfig");
    let mut server = ApiServer::in_memory();
    let mut address = "127.0.0.1:0";
    let mut options = options.iter().map(String::as_str);
    while let Some(option) = options.next() {
        let mut value = || options.next().expect("the option has a value");
        match option {
            "--data" => server = server.data(value()),
            "--unsafe-fast" => server = server.unsafe_fast(),
            "--pki" => server = server.pki_directory(value()),
            "--etcd" => {
                let client = ClientOptions::new([value().parse().expect("the URL of etcd")]);
                server = server.etcd(EtcdOptions::new(client));
            }
            "--listen" => address = value(),
            _ => panic!("unknown option {option}"),
        }
    }
    let server = server.listen(address.parse().expect("an address")).start().await.expect("a server");
    std::fs::write(kubeconfig, server.kubeconfig()).expect("a file that can be written");
    println!("{}", server.url().expect("it listens"));
    let _ = tokio::io::stdin().read(&mut [0]).await;
}

fn maps() -> Api<ConfigMap> {
    let client = Client::try_from(Config::infer().expect("KUBECONFIG names a server")).expect("a client");
    Api::namespaced(&client, "default")
}

fn map(prefix: &str, number: usize) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.set_name(&format!("{prefix}-{}-{number}", std::process::id()));
    map.data.insert("a", "b".into());
    map
}

/// Waits until config maps can be created in the namespace `default`.
async fn ready() {
    let (maps, start) = (maps(), Instant::now());
    while let Err(error) = maps.create(&map("ready", start.elapsed().as_millis() as usize)).await {
        assert!(start.elapsed() < Duration::from_secs(120), "not ready: {error}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    println!(r#"{{"waited_ms": {}}}"#, start.elapsed().as_millis());
}

/// Creates config maps for this long with this many clients, each with its own connection and one
/// request at a time.
async fn creates(clients: usize, time: Duration) {
    let (start, mut tasks) = (Instant::now(), JoinSet::new());
    for client in 0..clients {
        tasks.spawn(async move {
            let (maps, mut made) = (maps(), 0);
            while start.elapsed() < time {
                maps.create(&map(&format!("made-{client}"), made)).await.expect("it is created");
                made += 1;
            }
            made
        });
    }
    let made: usize = tasks.join_all().await.into_iter().sum();
    println!(r#"{{"creates": {made}, "creates_per_s": {:.0}}}"#, made as f64 / start.elapsed().as_secs_f64());
}

/// CPU seconds of the server's processes so far; zero without `SERVER_PIDS`.
fn server_cpu_seconds() -> f64 {
    let ids = std::env::var("SERVER_PIDS").unwrap_or_default();
    ids.split(',').filter_map(|id| id.parse().ok()).map(process::cpu_seconds).sum()
}

/// Creates config maps sequentially, and returns the server's CPU time.
async fn make(maps: &Api<ConfigMap>, prefix: &str, count: usize) -> f64 {
    let before = server_cpu_seconds();
    for number in 0..count {
        maps.create(&map(prefix, number)).await.expect("it is created");
    }
    server_cpu_seconds() - before
}

/// This many watches of one namespace: time until each has received every event, and CPU time
/// without the creates.
async fn fanout(watchers: usize, events: usize) {
    let maps = maps();
    let alone = make(&maps, "alone", events).await;
    let version =
        maps.list(&ListOptions::default()).await.expect("a list").metadata.resource_version.clone().unwrap_or_default();
    let (mut tasks, open) = (JoinSet::new(), Arc::new(AtomicU64::new(0)));
    for _ in 0..watchers {
        let (maps, open, version) = (maps.clone(), open.clone(), version.clone());
        tasks.spawn(async move {
            let mut watch = maps.watch(&WatchOptions::default().resource_version(version)).await.expect("a watch");
            open.fetch_add(1, Ordering::Relaxed);
            let mut seen = 0;
            while seen < events {
                match watch.next().await.expect("it stays open").expect("no error") {
                    WatchEvent::Added(map) if map.name().starts_with("seen-") => seen += 1,
                    _ => {}
                }
            }
        });
    }
    while open.load(Ordering::Relaxed) < watchers as u64 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let (start, before) = (Instant::now(), server_cpu_seconds());
    make(&maps, "seen", events).await;
    tasks.join_all().await;
    let (wall, cpu) = (start.elapsed().as_secs_f64(), server_cpu_seconds() - before);
    let deliveries = (watchers * events) as f64;
    println!(
        r#"{{"deliveries_per_s": {:.0}, "wall_s": {wall:.3}, "cpu_us_per_delivery": {:.2}, "cpu_us_with_create": {:.2}, "cpu_us_per_create": {:.1}}}"#,
        deliveries / wall,
        (cpu - alone) * 1e6 / deliveries,
        cpu * 1e6 / deliveries,
        alone * 1e6 / events as f64,
    );
}
