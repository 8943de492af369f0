//! Controllers of kube-rs, measured in the same way: `noop URL SECONDS`, `latency URL`.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bench_controller::{cpu_seconds, print_times};
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use kube::runtime::Controller;
use kube::runtime::controller::Action;
use kube::runtime::watcher;
use kube::{Api, Client, Config};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads");
    runtime.block_on(async {
        match words.as_slice() {
            ["noop", url, seconds] => noop(client(url), seconds.parse().expect("a number")).await,
            ["latency", url] => latency(client(url)).await,
            _ => panic!("noop URL SECONDS or latency URL"),
        }
    });
}

fn client(url: &str) -> Client {
    Client::try_from(Config::new(url.parse().expect("a URL"))).expect("a client")
}

fn controller(client: &Client) -> Controller<ConfigMap> {
    Controller::new(Api::<ConfigMap>::namespaced(client.clone(), "default"), watcher::Config::default())
}

async fn noop(client: Client, seconds: f64) {
    let count = Arc::new(AtomicU64::new(0));
    let reconcile = |_: Arc<ConfigMap>, count: Arc<AtomicU64>| async move {
        count.fetch_add(1, Ordering::Relaxed);
        Ok::<_, Infallible>(Action::requeue(Duration::ZERO))
    };
    let never = |_: Arc<ConfigMap>, _: &Infallible, _: Arc<AtomicU64>| Action::await_change();
    let running = controller(&client).run(reconcile, never, count.clone()).for_each(|_| async {});
    let running = tokio::spawn(running);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (before, cpu) = (count.load(Ordering::Relaxed), cpu_seconds());
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    let (reconciles, cpu) = (count.load(Ordering::Relaxed) - before, cpu_seconds() - cpu);
    println!(r#"{{"reconciles": {reconciles}, "cpu_s": {cpu}}}"#);
    running.abort();
}

struct Measured {
    begun: Mutex<Instant>,
    times: Mutex<Vec<Duration>>,
}

async fn latency(client: Client) {
    let measured = Arc::new(Measured { begun: Mutex::new(Instant::now()), times: Mutex::default() });
    let reconcile = |_: Arc<ConfigMap>, measured: Arc<Measured>| async move {
        let time = measured.begun.lock().expect("no panic").elapsed();
        measured.times.lock().expect("no panic").push(time);
        Ok::<_, Infallible>(Action::await_change())
    };
    let never = |_: Arc<ConfigMap>, _: &Infallible, _: Arc<Measured>| Action::await_change();
    let running = tokio::spawn(controller(&client).run(reconcile, never, measured.clone()).for_each(|_| async {}));
    let maps = Api::<ConfigMap>::namespaced(client, "default");
    let mut map = maps.get("map-0").await.expect("it is there");
    tokio::time::sleep(Duration::from_secs(1)).await;
    measured.times.lock().expect("no panic").clear();
    for number in 0..5000 {
        map.data.get_or_insert_default().insert("value".to_owned(), format!("kube-{number}"));
        *measured.begun.lock().expect("no panic") = Instant::now();
        map = maps.replace("map-0", &PostParams::default(), &map).await.expect("it is updated");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    running.abort();
    print_times(std::mem::take(&mut *measured.times.lock().expect("no panic")));
}
