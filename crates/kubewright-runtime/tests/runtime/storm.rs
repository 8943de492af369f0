//! Many objects at once, and how quickly one is seen.
//!
//! `KUBEWRIGHT_STORM` asks for more objects than every build makes. The ignored test measures, and wants a machine of its own.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kubewright_api::core::v1::{ConfigMap, Secret};
use kubewright_cache::SharedInformerFactory;
use kubewright_client::Client;
use kubewright_core::Object;
use kubewright_runtime::ownership::controller_reference;
use kubewright_runtime::testing::TestCluster;
use kubewright_runtime::{Context, Controller, Manager, ManagerOptions, Outcome};

use crate::support::{Running, config_map, config_maps, server, touch};

#[tokio::test]
async fn a_storm_of_objects_converges_with_three_calls_each() {
    let count = std::env::var("KUBEWRIGHT_STORM").ok().and_then(|text| text.parse().ok()).unwrap_or(300usize);
    let cluster = TestCluster::start().await.unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let (counted, client) = (calls.clone(), cluster.client());
    let client = Client::over(move |request: http::Request<bytes::Bytes>| {
        counted.fetch_add(1, Ordering::Relaxed);
        client.transport().send(request)
    });
    let mut manager = Manager::new(&client, ManagerOptions::default());
    // Each map gets a secret, and a label when it has it.
    let maps = manager.controller::<ConfigMap>("maps").owns::<Secret>().workers(4).reconciling(
        |map, context: Context| async move {
            if map.namespace() != "default" {
                return Ok(Outcome::Done);
            }
            let set = |secret: &mut Secret| secret.metadata.owner_references = [controller_reference(&*map)].into();
            context.api::<Secret>("default").create_or_update(map.name(), set).await?;
            let label = |map: &mut ConfigMap| drop(map.metadata.labels.insert("has-secret", "yes".into()));
            context.api::<ConfigMap>("default").create_or_patch(map.name(), label).await?;
            Ok(Outcome::Done)
        },
    );
    manager.add(maps).unwrap();
    let running = cluster.run(manager);
    running.until_idle().await;
    calls.store(0, Ordering::Relaxed);
    let direct = config_maps(cluster.server());
    for number in 0..count {
        direct.create(&config_map(&format!("map-{number}"))).await.unwrap();
    }
    running.until_idle().await;
    let labelled = kubewright_core::options::ListOptions::default().labels("has-secret=yes".parse().unwrap());
    assert_eq!(direct.list(&labelled).await.unwrap().into_iter().count(), count);
    let calls = calls.load(Ordering::Relaxed);
    assert!(calls <= 3 * count, "{calls} calls for {count} objects");
    running.stop().await.unwrap();
}

#[tokio::test]
#[ignore = "measures, and wants a machine of its own"]
async fn an_event_leads_to_a_reconcile_within_a_millisecond() {
    let server = server().await;
    config_maps(&server).create(&config_map("a")).await.unwrap();
    let (begun, times) = (Arc::new(Mutex::new(Instant::now())), Arc::new(Mutex::new(Vec::new())));
    let factory = SharedInformerFactory::new(&server.client(), Default::default());
    let (start, measured) = (begun.clone(), times.clone());
    let running = Running::start(Controller::<ConfigMap>::new("maps", &factory).reconciling(move |_, _| {
        measured.lock().unwrap().push(start.lock().unwrap().elapsed());
        async { Ok(Outcome::Done) }
    }));
    let running = running.working().await;
    running.idle().await;
    times.lock().unwrap().clear();
    for number in 0..2000 {
        // The whole way: the request, the server, the watch, the cache, the queue, the worker.
        *begun.lock().unwrap() = Instant::now();
        touch(&server, "a", number).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let mut times = times.lock().unwrap().clone();
    times.sort();
    let (median, p99) = (times[times.len() / 2], times[times.len() * 99 / 100]);
    assert!(
        times.len() >= 1990 && p99 < Duration::from_millis(1),
        "{} runs, median {median:?}, p99 {p99:?}",
        times.len()
    );
}
