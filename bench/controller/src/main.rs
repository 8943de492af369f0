//! Controllers of kubewright, measured: `serve OBJECTS`, `noop URL SECONDS`, `latency [URL]`,
//! `storm OBJECTS [RECORDING]`. Prints a line of JSON.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bench_controller::{cpu_seconds, print_times};
use kubewright::api::core::v1::{ConfigMap, Secret};
use kubewright::apiserver::ApiServer;
use kubewright::cache::SharedInformerFactory;
use kubewright::options::ListOptions;
use kubewright::recording::{Recorder, RecordingOptions};
use kubewright::runtime::custom::CustomResource;
use kubewright::runtime::ownership::set_controller_reference;
use kubewright::runtime::testing::TestCluster;
use kubewright::runtime::{Context, Controller, Manager, ManagerOptions, Outcome, Predicate};
use kubewright::{Api, Client, Config, Object};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt;
use tokio_util::sync::CancellationToken;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads");
    runtime.block_on(async {
        match words.as_slice() {
            ["serve", objects] => serve(objects.parse().expect("a number")).await,
            ["noop", url, seconds] => noop(&client(url), seconds.parse().expect("a number")).await,
            ["latency", url] => latency(&client(url)).await,
            ["latency"] => {
                let server = ApiServer::in_memory().start().await.expect("a server in memory");
                create(&server.client(), 1).await;
                latency(&server.client()).await;
            }
            ["storm", objects] => storm(objects.parse().expect("a number"), None).await,
            ["storm", objects, file] => storm(objects.parse().expect("a number"), Some(file)).await,
            _ => panic!("serve OBJECTS, noop URL SECONDS, latency [URL] or storm OBJECTS [RECORDING]"),
        }
    });
}

fn client(url: &str) -> Client {
    Client::try_from(Config::new(url).expect("a URL")).expect("a client")
}

/// Makes config maps in the namespace `default`.
async fn create(client: &Client, objects: usize) {
    let maps = Api::<ConfigMap>::namespaced(client, "default");
    for number in 0..objects {
        let mut map = ConfigMap::default();
        map.set_name(&format!("map-{number}"));
        maps.create(&map).await.expect("it is created");
    }
}

/// Serves this many config maps until standard input ends.
async fn serve(objects: usize) {
    let server =
        ApiServer::in_memory().listen(([127, 0, 0, 1], 0).into()).plain_http().start().await.expect("a server");
    create(&server.client(), objects).await;
    println!("{}", server.url().expect("it listens"));
    let _ = tokio::io::stdin().read(&mut [0]).await;
}

fn controller(client: &Client) -> Controller<ConfigMap> {
    let factory = SharedInformerFactory::new(client, Default::default());
    Controller::new("maps", &factory).filter(Predicate::objects(|map: &ConfigMap| map.namespace() == "default"))
}

/// Reconciles every object repeatedly, without work.
async fn noop(client: &Client, seconds: f64) {
    let (count, stop) = (Arc::new(AtomicU64::new(0)), CancellationToken::new());
    let (counted, stopped) = (count.clone(), stop.clone());
    let running = controller(client).reconciling(move |_, _| {
        counted.fetch_add(1, Ordering::Relaxed);
        async { Ok(Outcome::requeue_after(Duration::ZERO)) }
    });
    let running = tokio::spawn(async move { running.run(&stopped).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (before, cpu) = (count.load(Ordering::Relaxed), cpu_seconds());
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    let (reconciles, cpu) = (count.load(Ordering::Relaxed) - before, cpu_seconds() - cpu);
    println!(r#"{{"reconciles": {reconciles}, "cpu_s": {cpu}}}"#);
    stop.cancel();
    running.await.expect("no panic").expect("it worked");
}

/// Latency from before a write is sent until its object is reconciled.
async fn latency(client: &Client) {
    let (begun, times) = (Arc::new(Mutex::new(Instant::now())), Arc::new(Mutex::new(Vec::new())));
    let (start, measured, stop) = (begun.clone(), times.clone(), CancellationToken::new());
    let running = controller(client).reconciling(move |_, _| {
        measured.lock().expect("no panic").push(start.lock().expect("no panic").elapsed());
        async { Ok(Outcome::Done) }
    });
    let stopped = stop.clone();
    let running = tokio::spawn(async move { running.run(&stopped).await });
    let maps = Api::<ConfigMap>::namespaced(client, "default");
    let mut map = maps.get("map-0").await.expect("it is there");
    tokio::time::sleep(Duration::from_secs(1)).await;
    times.lock().expect("no panic").clear();
    for number in 0..5000 {
        map.data.insert("value", number.to_string().into());
        *begun.lock().expect("no panic") = Instant::now();
        map = maps.update(&map).await.expect("it is updated");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    stop.cancel();
    running.await.expect("no panic").expect("it worked");
    print_times(std::mem::take(&mut *times.lock().expect("no panic")));
}

#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Debug, Clone, Default)]
#[resource(group = "example.com", version = "v1", kind = "Site", namespaced, status = SiteStatus, derive(Default))]
struct SiteSpec {
    words: String,
}

#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, Default)]
struct SiteStatus {
    ready: bool,
}

/// Creates this many custom resources at once. Each gets a secret, and a status that names it. The
/// controller is recorded if there is a file for it.
async fn storm(objects: usize, recording: Option<&str>) {
    let cluster = TestCluster::start().await.expect("a server in memory");
    let direct = cluster.client();
    Api::all(&direct).create(&Site::definition()).await.expect("a definition");
    let sites = Api::<Site>::namespaced(&direct, "default");
    while sites.list(&ListOptions::default()).await.is_err() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let (calls, transport) = (Arc::new(AtomicUsize::new(0)), direct.clone());
    let counted = calls.clone();
    let client = Client::over(move |request: http::Request<bytes::Bytes>| {
        counted.fetch_add(1, Ordering::Relaxed);
        transport.transport().send(request)
    });
    let mut options = ManagerOptions::default();
    let recorder = recording.map(|file| Recorder::create(file, RecordingOptions::default()).expect("a new file"));
    if let Some(recorder) = &recorder {
        options = options.record(recorder.clone());
    }
    let mut manager = Manager::new(&client, options);
    let controller = manager.controller::<Site>("sites").owns::<Secret>().workers(8).reconciling(
        |site, context: Context| async move {
            let own = |secret: &mut Secret| Ok(set_controller_reference(&*site, secret)?);
            context.api::<Secret>("default").create_or_update(site.name(), own).await?;
            if site.status.as_ref().is_none_or(|status| !status.ready) {
                let mut ready = (*site).clone();
                ready.status = Some(SiteStatus { ready: true });
                context.api::<Site>("default").update_status(&ready).await?;
            }
            Ok(Outcome::Done)
        },
    );
    manager.add(controller).expect("the only one");
    let running = cluster.run(manager);
    running.until_idle().await;
    calls.store(0, Ordering::Relaxed);
    let (start, cpu) = (Instant::now(), cpu_seconds());
    for number in 0..objects {
        let mut site = Site::new(&format!("site-{number}"), SiteSpec { words: "many".to_owned() });
        site.set_namespace("default");
        sites.create(&site).await.expect("it is created");
    }
    running.until_idle().await;
    if let Some(recorder) = recorder {
        recorder.finish();
    }
    let (wall, cpu, calls) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu, calls.load(Ordering::Relaxed));
    let all = sites.list(&ListOptions::default()).await.expect("a list");
    let ready = all.into_iter().filter(|site| site.status.as_ref().is_some_and(|status| status.ready)).count();
    assert_eq!(ready, objects, "not all have converged");
    let each = calls as f64 / objects as f64;
    println!(r#"{{"objects": {objects}, "calls_each": {each:.3}, "wall_s": {wall:.2}, "cpu_s": {cpu:.2}}}"#);
    running.stop().await.expect("it stops");
}
