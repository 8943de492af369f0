//! The time from the request that creates an object until a watcher has its event.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kubewright::options::{ListOptions, WatchOptions};
use kubewright::stream::WatchEvent;
use kubewright::{Client, Config, Object};
use tokio::task::JoinSet;

use crate::{map, maps};

/// The pause between two creates.
const PAUSE: Duration = Duration::from_millis(5);

/// Creates config maps one at a time while watchers wait for them, each over its own connection.
pub async fn latency(watchers: usize, events: usize) {
    let maps = maps();
    let listed = maps.list(&ListOptions::default().limit(1)).await.expect("a list");
    let version = listed.metadata.resource_version.clone().unwrap_or_default();
    let sent = Arc::new(Mutex::new(HashMap::<String, Instant>::new()));
    let mut tasks = JoinSet::new();
    for _ in 0..watchers {
        let (sent, version) = (Arc::clone(&sent), version.clone());
        tasks.spawn(async move {
            let client = Client::try_from(Config::infer().expect("KUBECONFIG names a server")).expect("a client");
            let maps = kubewright::Api::<kubewright::api::core::v1::ConfigMap>::namespaced(&client, "default");
            let mut watch = maps.watch(&WatchOptions::default().resource_version(version)).await.expect("a watch");
            let mut seen = Vec::new();
            while seen.len() < events {
                if let WatchEvent::Added(map) = watch.next().await.expect("it stays open").expect("no error") {
                    let sent = sent.lock().expect("no panic").get(map.name()).copied();
                    seen.extend(sent.map(|sent| sent.elapsed()));
                }
            }
            seen
        });
    }
    for number in 0..events {
        let map = map("timed", number);
        sent.lock().expect("no panic").insert(map.name().to_owned(), Instant::now());
        maps.create(&map).await.expect("it is created");
        tokio::time::sleep(PAUSE).await;
    }
    let mut seen: Vec<Duration> = tasks.join_all().await.into_iter().flatten().collect();
    seen.sort();
    let quantile = |share: f64| seen[((seen.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    println!(r#"{{"events": {}, "p50_ms": {:.3}, "p99_ms": {:.3}}}"#, seen.len(), quantile(0.5), quantile(0.99));
}
