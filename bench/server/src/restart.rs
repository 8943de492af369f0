//! Kills and restarts a server with a data directory, or over etcd. Measures the time until it
//! serves and the cost of a full list, and counts the lists of informers, which resume their
//! watches over a data directory.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kubewright::api::core::v1::{ConfigMap, Namespace};
use kubewright::cache::{InformerOptions, ListWatch, SharedIndexInformer};
use kubewright::client::config::{Kubeconfig, Overrides};
use kubewright::{Api, CancellationToken, Client, Config, Object, ObjectKey};
use tokio::task::JoinSet;

use crate::process;

/// The stored JSON of each ConfigMap has about this length.
const OBJECT_BYTES: usize = 1000;
/// Bytes of it that are not data: names, metadata and managed fields.
const OTHER_BYTES: usize = 398;
/// Concurrent writers, each with one request at a time.
const WRITERS: usize = 64;
/// How long to wait for the informers after the restart.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The server, in a process of its own that is killed when this is dropped.
struct Server(Child);

impl Server {
    /// Starts a server with these options and waits until it has written `kubeconfig`.
    fn start(storage: &[String], kubeconfig: &Path, address: SocketAddr) -> Server {
        let _ = std::fs::remove_file(kubeconfig);
        let mut command = Command::new(std::env::current_exe().expect("the path of this program"));
        command.arg("serve").arg(kubeconfig).args(storage).arg("--listen").arg(address.to_string());
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the server starts");
        let mut server = Server(child);
        let mut line = String::new();
        let output = server.0.stdout.take().expect("it is piped");
        BufReader::new(output).read_line(&mut line).expect("it prints its URL");
        assert!(line.starts_with("https://"), "the server printed {line:?}");
        server
    }

    /// Waits until the server has finished the background work of its start.
    async fn settle(&self) {
        let mut before = self.cpu_seconds();
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let now = self.cpu_seconds();
            if now - before < 0.05 {
                return;
            }
            before = now;
        }
    }

    fn cpu_seconds(&self) -> f64 {
        process::cpu_seconds(self.0.id())
    }

    fn resident_bytes(&self) -> f64 {
        process::resident_bytes(self.0.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SIGKILL: the server cannot write anything more.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Fills a server with `objects` ConfigMaps of 1 KB, kills it and starts it again while
/// `informers` informers, each of a namespace of its own, watch all of them. The objects are in
/// `folder`, or in `etcd`.
pub async fn restart(objects: usize, informers: usize, folder: &str, etcd: Option<&str>) {
    let folder = PathBuf::from(folder);
    let kubeconfig = folder.join("kubeconfig");
    let data = folder.join("data").display().to_string();
    let storage = match etcd {
        None => vec!["--data".to_owned(), data],
        Some(url) => ["--etcd", url, "--pki", &data].map(str::to_owned).to_vec(),
    };
    let address = free_address();
    let server = Server::start(&storage, &kubeconfig, address);
    let client = client(&kubeconfig);
    let namespaces = create_namespaces(&client, informers).await;
    let started = Instant::now();
    fill(&client, &namespaces, objects).await;
    let filled = started.elapsed().as_secs_f64();
    let stop = CancellationToken::new();
    let mut caches = Vec::new();
    for namespace in &namespaces {
        caches.push(start_informer(&client, namespace, &stop));
    }
    for cache in &caches {
        assert!(cache.synced().await, "the informer stopped");
    }

    drop(server);
    let started = Instant::now();
    let server = Server::start(&storage, &kubeconfig, address);
    let start = started.elapsed().as_secs_f64();
    let start_cpu = server.cpu_seconds();
    write_and_wait(&client, &namespaces, &caches).await;
    let resumed = started.elapsed().as_secs_f64() - start;
    let lists = count_requests(&client, "LIST").await;
    stop.cancel();

    server.settle().await;
    let memory = server.resident_bytes() / objects as f64;
    let before = server.cpu_seconds();
    let length = get(&client, "/api/v1/configmaps").await.bytes().len();
    let list_cpu = server.cpu_seconds() - before;
    assert!(length > objects * OBJECT_BYTES / 2, "the list has only {length} bytes");
    println!(
        r#"{{"case": "restart", "size": {objects}, "fill_s": {filled:.1}, "start_s": {start:.2}, "start_cpu_s": {start_cpu:.2}, "bytes_per_object": {memory:.0}, "resumed_s": {resumed:.2}, "lists": {lists}, "list_cpu_s": {list_cpu:.2}}}"#
    );
}

/// A free address, which both servers use in turn.
fn free_address() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it is bound")
}

fn client(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read(kubeconfig).expect("the server wrote it");
    let config = Config::from_kubeconfig(&kubeconfig, &Overrides::default()).expect("it has one context");
    Client::try_from(config).expect("a client")
}

async fn create_namespaces(client: &Client, count: usize) -> Vec<String> {
    let names: Vec<String> = (0..count).map(|number| format!("n{number:03}")).collect();
    for name in &names {
        let mut namespace = Namespace::default();
        namespace.set_name(name);
        Api::all(client).create(&namespace).await.expect("it is created");
    }
    names
}

fn map(name: &str, data: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.set_name(name);
    map.data.insert("k", data.into());
    map
}

/// Creates `objects` ConfigMaps, spread evenly over the namespaces.
async fn fill(client: &Client, namespaces: &[String], objects: usize) {
    let data: Arc<str> = "x".repeat(OBJECT_BYTES - OTHER_BYTES).into();
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let (client, data, namespaces) = (client.clone(), Arc::clone(&data), namespaces.to_vec());
        writers.spawn(async move {
            for number in (writer..objects).step_by(WRITERS) {
                let api = Api::<ConfigMap>::namespaced(&client, &namespaces[number % namespaces.len()]);
                api.create(&map(&format!("object-{number:07}"), &data)).await.expect("it is created");
            }
        });
    }
    writers.join_all().await;
}

fn start_informer(client: &Client, namespace: &str, stop: &CancellationToken) -> SharedIndexInformer<ConfigMap> {
    let maps = ListWatch::new(Api::<ConfigMap>::namespaced(client, namespace));
    let informer = SharedIndexInformer::new(maps, InformerOptions::default());
    let (running, stop) = (informer.clone(), stop.clone());
    tokio::spawn(async move { running.run(&stop).await });
    informer
}

/// Creates one more ConfigMap in each namespace and waits until its informer has it.
async fn write_and_wait(client: &Client, namespaces: &[String], caches: &[SharedIndexInformer<ConfigMap>]) {
    let start = Instant::now();
    for (namespace, cache) in namespaces.iter().zip(caches) {
        let api = Api::<ConfigMap>::namespaced(client, namespace);
        api.create(&map("after-the-restart", "x")).await.expect("it is created");
        while cache.store().get_by_key(&ObjectKey::namespaced(namespace, "after-the-restart")).is_none() {
            assert!(start.elapsed() < TIMEOUT, "the informer of {namespace} did not resume");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

async fn get(client: &Client, path: &str) -> kubewright::client::rest::Response {
    client.rest().get().absolute_path(path).timeout(TIMEOUT).send().await.expect("a success")
}

/// The number of requests with this verb since the server's start, from its metrics.
async fn count_requests(client: &Client, verb: &str) -> u64 {
    let metrics = get(client, "/metrics").await.text();
    let prefix = format!("apiserver_request_total{{verb=\"{verb}\"");
    let counts = metrics.lines().filter(|line| line.starts_with(&prefix));
    counts.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}
