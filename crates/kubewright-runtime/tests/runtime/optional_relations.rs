//! An optional relation fails, and the main kind continues.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use kubewright_api::apps::v1::Deployment;
use kubewright_api::core::v1::{ConfigMap, Secret};
use kubewright_apiserver::Fault;
use kubewright_cache::{Event, HealthState, SharedInformerFactory};
use kubewright_core::{Object, ObjectKey};
use kubewright_runtime::{Controller, Outcome, Owns, Predicate};
use kubewright_workqueue::RateLimiter;
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
    let controller = Controller::<ConfigMap>::new("maps", &factory)
        .owns_with(Owns::<Deployment>::new().optional())
        .owns::<Secret>()
        .reconciling(move |_, _| {
            counted.fetch_add(1, Ordering::Relaxed);
            async { Ok(Outcome::Done) }
        });
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
        // The resource becomes available, and the relation recovers.
        server.faults().clear();
        eventually("the relation has mended", async || running.handle.health().is_healthy()).await;
    }
    running.stopped().await.unwrap();
    count.load(Ordering::Relaxed)
}

#[tokio::test(start_paused = true)]
async fn an_optional_kind_that_does_not_exist_slows_nothing_down() {
    let healthy = reconciles_within_a_minute(None).await;
    assert_eq!(healthy, 600);
    let absent = reconciles_within_a_minute(Some(Fault::answer(404).resource("deployments"))).await;
    assert!(absent * 100 >= healthy * 95, "{absent} instead of {healthy}");
    let forbidden = reconciles_within_a_minute(Some(Fault::answer(403).resource("deployments"))).await;
    assert!(forbidden * 100 >= healthy * 95, "{forbidden} instead of {healthy}");
}

#[tokio::test(start_paused = true)]
async fn a_relation_whose_resource_disappears_is_reported_and_blocks_nothing() {
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
        // The watch of the main kind was cut too, and has recovered.
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

/// Panics on the first call of each method: `when`, `num_requeues` and `forget`.
#[derive(Default)]
struct Fragile([AtomicUsize; 3]);

impl Fragile {
    fn asked(&self, question: usize) {
        assert!(self.0[question].fetch_add(1, Ordering::Relaxed) > 0, "as it may");
    }
}

impl RateLimiter<ObjectKey> for Fragile {
    fn when(&mut self, _: &ObjectKey) -> Duration {
        self.asked(0);
        Duration::from_secs(1)
    }

    fn forget(&mut self, _: &ObjectKey) {
        self.asked(1);
    }

    fn num_requeues(&self, _: &ObjectKey) -> u32 {
        self.asked(2);
        1
    }
}

#[tokio::test(start_paused = true)]
async fn panics_in_triggers_limiters_and_filters_are_reported_and_block_nothing() {
    let server = server().await;
    for name in ["bad", "main"] {
        config_maps(&server).create(&config_map(name)).await.unwrap();
    }
    let factory = SharedInformerFactory::new(&server.client(), Default::default());
    let (count, is_fragile) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (counted, fragile) = (count.clone(), is_fragile.clone());
    let bad = Arc::new(AtomicUsize::new(0));
    let counted_bad = bad.clone();
    let controller = Controller::<ConfigMap>::new("maps", &factory)
        .workers(1)
        .rate_limiter(Fragile::default())
        .filter(Predicate::new(move |event: &Event<ConfigMap>| {
            assert!(!fragile.load(Ordering::Relaxed), "as it may");
            !event.key().name().starts_with("none")
        }))
        .every(seconds(60.0))
        .feed("good", |_| async {})
        .feed("made badly", |_| -> std::future::Ready<()> { panic!("as it may") })
        .feed("bad", |_| async { panic!("as it may") });
    let running = Running::start(controller.reconciling(move |object, _| {
        let is_bad = object.name() == "bad";
        counted.fetch_add(usize::from(object.name() == "main"), Ordering::Relaxed);
        counted_bad.fetch_add(usize::from(is_bad), Ordering::Relaxed);
        async move { if is_bad { Ok(Outcome::requeue()) } else { Ok(Outcome::Done) } }
    }));
    let running = running.working().await;
    eventually("both feeds are shown", async || running.handle.health().broken_feeds.len() == 2).await;
    let health = running.handle.health();
    assert!(health.broken_feeds.iter().any(|name| name == "made badly") && health.is_ready() && !health.is_healthy());
    // No panic of the limiter loses a key: both are reconciled before the timer fires.
    sleep(seconds(5.0)).await;
    assert!(count.load(Ordering::Relaxed) >= 1 && bad.load(Ordering::Relaxed) >= 2, "{count:?}, {bad:?}");
    // The only worker survives, too.
    let before = count.load(Ordering::Relaxed);
    touch(&server, "main", 1).await;
    eventually("it is reconciled", async || count.load(Ordering::Relaxed) > before).await;
    // The timer continues although the filter panics.
    is_fragile.store(true, Ordering::Relaxed);
    sleep(seconds(61.0)).await;
    let before = count.load(Ordering::Relaxed);
    sleep(seconds(121.0)).await;
    // Once per period, at any time within it.
    let reconciles = count.load(Ordering::Relaxed) - before;
    assert!((1..=3).contains(&reconciles), "{reconciles}");
    running.stopped().await.unwrap();
}
