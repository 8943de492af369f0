//! Many objects at once, and the latency of one. `bench/controller` measures both.
//!
//! `KUBEWRIGHT_STORM` sets the number of objects.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kubewright_api::core::v1::Secret;
use kubewright_client::{Api, Client};
use kubewright_core::Object;
use kubewright_runtime::custom::CustomResource;
use kubewright_runtime::ownership::set_controller_reference;
use kubewright_runtime::testing::TestCluster;
use kubewright_runtime::{Context, Manager, ManagerOptions, Outcome};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::support::{Running, config_map, config_maps, controller, eventually, server, touch};

#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Debug, Clone, Default)]
#[resource(group = "example.com", version = "v1", kind = "Site", namespaced, status = SiteStatus, derive(Default))]
struct SiteSpec {
    words: String,
}

#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, Default)]
struct SiteStatus {
    ready: bool,
}

#[tokio::test]
async fn a_storm_of_custom_resources_converges_with_three_calls_each() {
    let count = std::env::var("KUBEWRIGHT_STORM").ok().and_then(|text| text.parse().ok()).unwrap_or(300usize);
    let cluster = TestCluster::start().await.unwrap();
    let direct = cluster.client();
    Api::all(&direct).create(&Site::definition()).await.unwrap();
    let sites = Api::<Site>::namespaced(&direct, "default");
    eventually("sites are served", async || sites.list(&Default::default()).await.is_ok()).await;
    let calls = Arc::new(AtomicUsize::new(0));
    let (counted, transport) = (calls.clone(), direct.clone());
    let client = Client::over(move |request: http::Request<bytes::Bytes>| {
        counted.fetch_add(1, Ordering::Relaxed);
        transport.transport().send(request)
    });
    let mut manager = Manager::new(&client, ManagerOptions::default());
    // Each site gets a secret, and a status with the time.
    let controller = manager.controller::<Site>("sites").owns::<Secret>().workers(4).reconciling(
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
    manager.add(controller).unwrap();
    let running = cluster.run(manager);
    running.until_idle().await;
    calls.store(0, Ordering::Relaxed);
    for number in 0..count {
        let mut site = Site::new(&format!("site-{number}"), SiteSpec { words: "many".to_owned() });
        site.set_namespace("default");
        sites.create(&site).await.unwrap();
    }
    running.until_idle().await;
    let all = sites.list(&Default::default()).await.unwrap();
    let is_ready = |site: &Site| site.status.as_ref().is_some_and(|status| status.ready);
    assert_eq!(all.into_iter().filter(is_ready).count(), count);
    let calls = calls.load(Ordering::Relaxed);
    assert!(calls <= 3 * count, "{calls} calls for {count} objects");
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn no_timer_delays_the_reconcile_after_a_write() {
    let server = server().await;
    config_maps(&server).create(&config_map("a")).await.unwrap();
    let reconciled = Arc::new(Notify::new());
    let told = reconciled.clone();
    let running = Running::start(controller(&server).reconciling(move |_, _| {
        told.notify_one();
        async { Ok(Outcome::Done) }
    }));
    let running = running.working().await;
    running.idle().await;
    reconciled.notified().await;
    for number in 0..100 {
        let wrote = Instant::now();
        // The whole path: request, server, watch, cache, queue, worker. The test's clock advances
        // only when all of them wait.
        touch(&server, "a", number).await;
        reconciled.notified().await;
        assert_eq!(wrote.elapsed(), Duration::ZERO);
    }
}
