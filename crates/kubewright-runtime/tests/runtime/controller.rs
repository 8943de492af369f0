//! Controllers: triggers, concurrency, outcomes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kubewright_api::core::v1::{ConfigMap, Secret};
use kubewright_apiserver::Fault;
use kubewright_cache::SharedInformerFactory;
use kubewright_client::Api;
use kubewright_core::Object;
use kubewright_runtime::controller::{ControllerError, ControllerMetrics};
use kubewright_runtime::{Context, Controller, Outcome, ReconcileError};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::support::{
    Journal, Running, config_map, config_maps, controller, eventually, key, noting, seconds, server, touch,
};

#[tokio::test(start_paused = true)]
async fn a_reconciler_gets_its_reasons() {
    let server = server().await;
    config_maps(&server).create(&config_map("a")).await.unwrap();
    let journal = Journal::default();
    let running = noting(&journal, controller(&server)).working().await;
    running.idle().await;
    assert_eq!(journal.take(), ["a 1: configmaps default/a listed"]);
    touch(&server, "a", 1).await;
    running.idle().await;
    assert_eq!(journal.take(), ["a 1: configmaps default/a updated"]);
    running.handle.request(key("a"), "me");
    running.idle().await;
    assert_eq!(journal.take(), ["a 1: me requested"]);
    running.stopped().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn deleted_objects_are_reconciled_only_by_key_reconcilers() {
    let server = server().await;
    let maps = config_maps(&server);
    maps.create(&config_map("a")).await.unwrap();
    let (objects, keys) = (Journal::default(), Journal::default());
    let first = noting(&objects, controller(&server)).working().await;
    let second = {
        let keys = keys.clone();
        Running::start(controller(&server).reconciling_keys(move |context: Context| {
            keys.note(format!("{}", context.reasons()));
            async { Ok(Outcome::Done) }
        }))
    };
    second.idle().await;
    first.idle().await;
    objects.take();
    keys.take();
    maps.delete("a").await.unwrap();
    first.idle().await;
    second.idle().await;
    assert!(objects.take().is_empty());
    assert_eq!(keys.take(), ["configmaps default/a deleted"]);
}

#[tokio::test(start_paused = true)]
async fn the_outcome_of_a_reconcile_decides_its_next_run() {
    let server = server().await;
    config_maps(&server).create(&config_map("a")).await.unwrap();
    let mut registry = prometheus_client::registry::Registry::default();
    let metrics = ControllerMetrics::register(&mut registry);
    let journal = Journal::default();
    let (noted, start) = (journal.clone(), Instant::now());
    let running = Running::start(controller(&server).metrics(&metrics).reconcile_timeout(seconds(1.0)).reconciling(
        move |map, context| {
            let at = start.elapsed().as_millis();
            let value = map.data.get("value").map(|value| value.to_string()).unwrap_or_default();
            noted.note(format!("{value} {} {at}", context.attempt()));
            async move {
                match (value.as_str(), context.attempt()) {
                    ("after", _) => Ok(Outcome::requeue_after(seconds(100.0))),
                    ("back-off", 1..3) => Ok(Outcome::requeue()),
                    ("error", 1..4) => Err("broken".into()),
                    ("panic", 1) => panic!("oh no"),
                    ("slow", 1) => {
                        sleep(seconds(60.0)).await;
                        Ok(Outcome::Done)
                    }
                    ("hopeless", _) => Err(ReconcileError::terminal("the name is taken").into()),
                    _ => Ok(Outcome::Done),
                }
            }
        },
    ));
    let running = running.working().await;
    running.idle().await;
    journal.take();
    // The attempts of each key, and the delays between them.
    for (value, attempts, waits) in [
        ("fine", vec![1], vec![]),
        ("back-off", vec![1, 2, 3], vec![5, 10]),
        ("error", vec![1, 2, 3, 4], vec![5, 10, 20]),
        ("panic", vec![1, 2], vec![5]),
        ("slow", vec![1, 2], vec![1005]),
        ("hopeless", vec![1], vec![]),
    ] {
        touch(&server, "a", value).await;
        sleep(seconds(30.0)).await;
        let lines: Vec<Vec<String>> =
            journal.take().iter().map(|line| line.split(' ').map(str::to_owned).collect()).collect();
        let tried: Vec<u32> = lines.iter().map(|line| line[1].parse().unwrap()).collect();
        assert_eq!(tried, attempts, "{value}");
        let times: Vec<i64> = lines.iter().map(|line| line[2].parse().unwrap()).collect();
        for (between, wanted) in times.windows(2).map(|pair| pair[1] - pair[0]).zip(waits) {
            assert!((between - wanted).abs() <= 2, "{value}: {times:?}");
        }
    }
    let health = running.handle.health();
    assert_eq!(health.given_up.len(), 1);
    assert_eq!(health.given_up[0].reason, "the name is taken");
    touch(&server, "a", "after").await;
    sleep(seconds(350.0)).await;
    assert_eq!(journal.take().len(), 4);
    assert!(running.handle.health().given_up.is_empty());
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    for line in [
        r#"controller_runtime_reconcile_total{controller="maps",result="error"} 6"#,
        r#"controller_runtime_reconcile_total{controller="maps",result="requeue"} 2"#,
        r#"controller_runtime_reconcile_total{controller="maps",result="requeue_after"} 4"#,
        r#"controller_runtime_reconcile_errors_total{controller="maps"} 6"#,
        r#"controller_runtime_terminal_reconcile_errors_total{controller="maps"} 1"#,
        r#"controller_runtime_reconcile_panics_total{controller="maps"} 1"#,
        r#"controller_runtime_reconcile_timeouts_total{controller="maps"} 1"#,
        r#"controller_runtime_max_concurrent_reconciles{controller="maps"} 1"#,
        r#"controller_runtime_active_workers{controller="maps"} 0"#,
        r#"workqueue_depth{name="maps",controller="maps",priority="0"} 0"#,
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn concurrency_is_bounded_and_each_key_has_one_worker() {
    let server = server().await;
    for number in 0..20 {
        config_maps(&server).create(&config_map(&format!("map-{number}"))).await.unwrap();
    }
    let (running_now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let journal = Journal::default();
    let counted = (running_now.clone(), most.clone(), journal.clone());
    let running = Running::start(controller(&server).workers(4).reconciling(move |map, _| {
        let (now, most, journal) = counted.clone();
        async move {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            sleep(seconds(1.0)).await;
            now.fetch_sub(1, Ordering::SeqCst);
            journal.note(map.name());
            Ok(Outcome::Done)
        }
    }));
    let start = Instant::now();
    eventually("all are done", async || journal.len() == 20).await;
    assert_eq!(most.load(Ordering::SeqCst), 4);
    assert!(start.elapsed() >= seconds(5.0) && start.elapsed() < seconds(6.0), "{:?}", start.elapsed());
    // A key that changes during its reconcile is reconciled again, and not concurrently.
    touch(&server, "map-0", 1).await;
    sleep(seconds(0.5)).await;
    touch(&server, "map-0", 2).await;
    sleep(seconds(3.0)).await;
    assert_eq!(journal.len(), 22);
    running.stopped().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn stopping_finishes_running_reconciles_and_starts_no_others() {
    let server = server().await;
    for name in ["a", "b", "c"] {
        config_maps(&server).create(&config_map(name)).await.unwrap();
    }
    let journal = Journal::default();
    let noted = journal.clone();
    let running = Running::start(controller(&server).reconciling(move |_, context: Context| {
        let journal = noted.clone();
        async move {
            journal.note("begun");
            context.stopping().cancelled().await;
            sleep(seconds(7.0)).await;
            journal.note("ended");
            Ok(Outcome::Done)
        }
    }));
    eventually("one is in hand", async || journal.len() == 1).await;
    let start = Instant::now();
    running.stopped().await.unwrap();
    assert_eq!(start.elapsed(), seconds(7.0));
    assert_eq!(journal.take(), ["begun", "ended"]);
}

#[tokio::test(start_paused = true)]
async fn a_main_kind_that_cannot_be_listed_is_an_error_in_the_end() {
    let server = server().await;
    server.faults().inject(Fault::answer(403).resource("configmaps"));
    let start = Instant::now();
    let error = controller(&server).reconciling(|_, _| async { Ok(Outcome::Done) });
    let error = error.run(&Default::default()).await.unwrap_err();
    assert_eq!(start.elapsed(), Duration::from_secs(120));
    let text = error.to_string();
    assert!(text.starts_with("controller maps: not synced within 120s: configmaps (403, cannot list: "), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_stopped_controller_does_not_stop_shared_caches() {
    // SI-20
    let server = server().await;
    let factory = SharedInformerFactory::new(&server.client(), Default::default());
    let journal = Journal::default();
    let noted = journal.clone();
    let second = Controller::<Secret>::new("secrets", &factory).reconciling(move |secret, _| {
        noted.note(secret.name());
        async { Ok(Outcome::Done) }
    });
    // The first controller starts all informers.
    let first = Controller::<ConfigMap>::new("maps", &factory).reconciling(|_, _| async { Ok(Outcome::Done) });
    let first = Running::start(first).working().await;
    let second = Running::start(second).working().await;
    let handle = first.handle.clone();
    first.stopped().await.unwrap();
    let mut secret = Secret::default();
    secret.set_name("later");
    Api::<Secret>::namespaced(&server.client(), "default").create(&secret).await.unwrap();
    second.idle().await;
    assert!(journal.take().contains(&"later".to_owned()));
    assert!(second.handle.health().is_healthy());
    // Informers used only by the first one are dropped, although its handle still exists.
    eventually("one informer is left", async || {
        factory.informers().iter().map(|informer| informer.name.as_str()).eq(["secrets"])
    })
    .await;
    assert!(!handle.health().is_healthy());
    // A stopped informer watches nothing.
    factory.shutdown().await;
    assert!(second.handle.health().is_working && !second.handle.health().is_healthy());
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_fails_to_add_a_watch_starts_none() {
    let server = server().await;
    let factory = SharedInformerFactory::new(&server.client(), Default::default());
    let secrets = factory.informer::<Secret>();
    let stopped = CancellationToken::new();
    stopped.cancel();
    secrets.informer().run(&stopped).await;
    let controller = Controller::<ConfigMap>::new("maps", &factory).owns::<Secret>();
    let error = controller.run(|_, _| async { Ok(Outcome::Done) }, &CancellationToken::new()).await.unwrap_err();
    assert!(matches!(error, ControllerError::Stopped { .. }), "{error}");
    eventually("only what the test uses is left", async || {
        factory.informers().iter().map(|informer| informer.name.as_str()).eq(["secrets"])
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_sync_timeout_may_be_unlimited() {
    let server = server().await;
    let journal = Journal::default();
    let running = noting(&journal, controller(&server).owns::<Secret>().cache_sync_timeout(Duration::MAX));
    let running = running.working().await;
    running.idle().await;
    assert!(running.handle.is_idle(Duration::MAX));
    running.handle.request_after(key("a"), "me", seconds(3600.0));
    assert!(running.handle.is_idle(seconds(3599.0)) && !running.handle.is_idle(Duration::MAX));
    running.stopped().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn changes_have_priority_over_objects_of_the_first_list() {
    let server = server().await;
    for number in 0..50 {
        config_maps(&server).create(&config_map(&format!("map-{number}"))).await.unwrap();
    }
    let journal = Journal::default();
    let noted = journal.clone();
    let running = Running::start(controller(&server).reconciling(move |map, _| {
        noted.note(map.name());
        async {
            sleep(seconds(0.1)).await;
            Ok(Outcome::Done)
        }
    }));
    eventually("some are done", async || journal.len() >= 5).await;
    config_maps(&server).create(&config_map("urgent")).await.unwrap();
    sleep(seconds(0.25)).await;
    let begun = journal.take();
    let place = begun.iter().position(|name| name == "urgent");
    assert!(place.is_some_and(|place| place <= 7), "{begun:?}");
    running.stopped().await.unwrap();
}

#[derive(Debug, thiserror::Error)]
#[error("cannot make the copy")]
struct NoCopy(#[source] std::io::Error);

#[tokio::test(start_paused = true)]
async fn a_failure_is_shown_with_its_causes() {
    let server = server().await;
    config_maps(&server).create(&config_map("a")).await.unwrap();
    let failing = controller(&server)
        .reconciling(|_, _| async { Err(NoCopy(std::io::Error::other("connection refused")).into()) });
    let running = Running::start(failing).working().await;
    eventually("it has failed", async || !running.handle.health().failing.is_empty()).await;
    assert_eq!(running.handle.health().failing[0].error, "cannot make the copy: connection refused");
}
