//! One relation fails, and the main kind does not notice.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kubewright_api::apps::v1::Deployment;
use kubewright_api::core::v1::{ConfigMap, Secret};
use kubewright_apiserver::Fault;
use kubewright_cache::{HealthState, SharedInformerFactory};
use kubewright_runtime::{Controller, Outcome};
use tokio::time::sleep;

use crate::support::{Running, config_map, config_maps, eventually, seconds, server, touch};

/// Updates the main object every 100 ms for a minute, and counts its reconciles.
async fn reconciles_within_a_minute(fault: Option<Fault>) -> usize {
    let server = server().await;
    config_maps(&server).create(&config_map("main")).await.unwrap();
    let is_broken = fault.is_some();
    if let Some(fault) = fault {
        server.faults().inject(fault);
    }
    let factory = SharedInformerFactory::new(&server.client(), Default::default());
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let controller = Controller::<ConfigMap>::new("maps", &factory).owns::<Deployment>().owns::<Secret>().reconciling(
        move |_, _| {
            counted.fetch_add(1, Ordering::Relaxed);
            async { Ok(Outcome::Done) }
        },
    );
    let running = Running::start(controller).working().await;
    running.idle().await;
    count.store(0, Ordering::Relaxed);
    for number in 0..600 {
        touch(&server, "main", number).await;
        sleep(seconds(0.1)).await;
    }
    running.idle().await;
    let health = running.handle.health();
    let deployments = health.relations.iter().find(|relation| relation.name == "deployments.apps").unwrap();
    assert_eq!(deployments.is_healthy(), !is_broken, "{deployments:?}");
    assert!(health.is_ready());
    assert_eq!(health.is_healthy(), !is_broken);
    if is_broken {
        // It comes to be served, and the relation mends by itself.
        server.faults().clear();
        eventually("the relation has mended", async || running.handle.health().is_healthy()).await;
    }
    running.stopped().await.unwrap();
    count.load(Ordering::Relaxed)
}

#[tokio::test(start_paused = true)]
async fn an_owned_kind_that_does_not_exist_slows_nothing_down() {
    let healthy = reconciles_within_a_minute(None).await;
    assert_eq!(healthy, 600);
    let absent = reconciles_within_a_minute(Some(Fault::answer(404).resource("deployments"))).await;
    assert!(absent * 100 >= healthy * 95, "{absent} instead of {healthy}");
    let forbidden = reconciles_within_a_minute(Some(Fault::answer(403).resource("deployments"))).await;
    assert!(forbidden * 100 >= healthy * 95, "{forbidden} instead of {healthy}");
}

#[tokio::test(start_paused = true)]
async fn a_relation_that_vanishes_later_is_shown_and_holds_nobody_up() {
    let server = server().await;
    config_maps(&server).create(&config_map("main")).await.unwrap();
    let factory = SharedInformerFactory::new(&server.client(), Default::default());
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let controller = Controller::<ConfigMap>::new("maps", &factory).owns::<Deployment>();
    let running = Running::start(controller.reconciling(move |_, _| {
        counted.fetch_add(1, Ordering::Relaxed);
        async { Ok(Outcome::Done) }
    }));
    let running = running.working().await;
    server.faults().inject(Fault::answer(404).resource("deployments"));
    server.faults().cut_watches();
    eventually("it shows", async || {
        let health = running.handle.health();
        // The watch of the main kind was cut as well, and has come back.
        let state = |index: usize| health.relations[index].watch.as_ref().map(|watch| watch.state);
        state(0) == Some(HealthState::Watching) && state(1) == Some(HealthState::Absent)
    })
    .await;
    running.idle().await;
    let before = count.load(Ordering::Relaxed);
    for number in 0..100 {
        touch(&server, "main", number).await;
        sleep(seconds(0.1)).await;
    }
    assert_eq!(count.load(Ordering::Relaxed) - before, 100);
}
