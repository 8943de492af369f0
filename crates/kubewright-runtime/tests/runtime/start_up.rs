//! Start-up fails closed, and a manager starts and stops its parts in order.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kubewright_api::coordination::v1::Lease;
use kubewright_api::core::v1::{ConfigMap, Pod, Secret};
use kubewright_apiserver::{Fault, RunningServer};
use kubewright_client::Api;
use kubewright_core::Str;
use kubewright_runtime::manager::ManagerError;
use kubewright_runtime::webhook::{AdmissionRequest, AdmissionResponse, Webhooks};
use kubewright_runtime::{Context, LeaderElector, Manager, ManagerOptions, Outcome, Owns};
use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::support::{Journal, config_map, config_maps, controller, eventually, noting, seconds, server};
use crate::webhook::{DELETION, Files, post};

/// An error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", chain(source)),
        None => error.to_string(),
    }
}

#[tokio::test(start_paused = true)]
async fn an_unlistable_relation_prevents_the_start_of_a_controller() {
    let (server, journal) = (server().await, Journal::default());
    config_maps(&server).create(&config_map("a")).await.unwrap();
    server.faults().inject(Fault::answer(403).resource("secrets"));
    let start = Instant::now();
    let running = noting(&journal, controller(&server).owns::<Pod>().owns::<Secret>());
    sleep(seconds(100.0)).await;
    let health = running.handle.health();
    assert!(!health.is_working && !health.is_ready());
    let error = running.ended().await.unwrap_err().to_string();
    assert_eq!(start.elapsed(), seconds(120.0));
    let expected =
        "controller maps: not synced within 120s: secrets (403, cannot list: a fault was injected (list secrets))";
    assert_eq!(error, expected);
    assert_eq!(journal.len(), 0, "{:?}", journal.take());
}

#[tokio::test(start_paused = true)]
async fn a_controller_waits_for_a_late_relation() {
    let (server, journal) = (server().await, Journal::default());
    config_maps(&server).create(&config_map("a")).await.unwrap();
    server.faults().inject(Fault::answer(404).resource("secrets"));
    let running = noting(&journal, controller(&server).owns::<Secret>());
    sleep(seconds(20.0)).await;
    assert_eq!(journal.len(), 0);
    server.faults().clear();
    let running = running.working().await;
    running.idle().await;
    assert!(running.handle.health().is_ready() && journal.len() > 0);
}

#[tokio::test(start_paused = true)]
async fn an_optional_relation_is_not_waited_for() {
    for (code, is_main) in [(404, false), (403, false), (404, true)] {
        let (server, journal) = (server().await, Journal::default());
        config_maps(&server).create(&config_map("a")).await.unwrap();
        let resource = if is_main { "configmaps" } else { "secrets" };
        server.faults().inject(Fault::answer(code).resource(resource));
        let built = if is_main {
            controller(&server).optional_main().owns::<Secret>()
        } else {
            controller(&server).owns_with(Owns::<Secret>::new().optional()).owns::<Pod>()
        };
        let start = Instant::now();
        let running = noting(&journal, built).working().await;
        assert!(start.elapsed() < seconds(5.0), "{:?}", start.elapsed());
        let health = running.handle.health();
        assert!(health.is_ready() && !health.is_healthy(), "{health:?}");
        // It syncs when the fault ends.
        server.faults().clear();
        eventually("healthy", async || running.handle.health().is_healthy()).await;
        running.idle().await;
        assert!(journal.len() > 0);
    }
}

#[tokio::test(start_paused = true)]
async fn tasks_of_a_manager_start_when_all_caches_have_synced() {
    let server = server().await;
    server.faults().inject(Fault::answer(403).resource("pods"));
    for is_indexed in [false, true] {
        let (journal, noted) = (Journal::default(), Journal::default());
        let mut manager = Manager::new(&server.client(), ManagerOptions::default().cache_sync_timeout(seconds(30.0)));
        if is_indexed {
            manager.index_field("name", |pod: &Pod| pod.metadata.name.clone()).unwrap();
        } else {
            let maps = manager.controller::<ConfigMap>("maps").owns::<Pod>();
            manager.add(maps.reconciling(|_, _| async { Ok(Outcome::Done) })).unwrap();
        }
        for (name, journal) in [("others", journal.clone()), ("leaders", noted.clone())] {
            let task = move |_: CancellationToken| async move {
                journal.note(name);
                Ok(())
            };
            match name {
                "others" => manager.add_task(name, task).unwrap(),
                _ => manager.add_leader_task(name, task).unwrap(),
            };
        }
        let start = Instant::now();
        let error = manager.run(&CancellationToken::new()).await.unwrap_err();
        assert_eq!(start.elapsed(), seconds(30.0));
        let text = chain(&error);
        assert!(text.contains("pods (") && text.contains("403"), "{text}");
        assert!(
            text.starts_with(if is_indexed { "not synced within 30s: pods (403, " } else { "maps failed" }),
            "{text}"
        );
        assert_eq!((journal.len(), noted.len()), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn shutdown_works_while_caches_sync() {
    let server = server().await;
    server.faults().inject(Fault::answer(403).resource("configmaps"));
    let mut manager = Manager::new(&server.client(), ManagerOptions::default());
    manager.add(manager.controller::<ConfigMap>("maps").reconciling(|_, _| async { Ok(Outcome::Done) })).unwrap();
    let stop = CancellationToken::new();
    let stopping = async {
        sleep(seconds(1.0)).await;
        stop.cancel();
    };
    let (result, ()) = tokio::join!(manager.run(&stop), stopping);
    result.unwrap();
}

async fn holder(server: &RunningServer) -> Str {
    let lease = Api::<Lease>::namespaced(&server.client(), "default").get_opt("order").await.unwrap();
    lease.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default()
}

async fn is_open(address: SocketAddr) -> bool {
    TcpStream::connect(address).await.is_ok()
}

// Manager: start and stop order. In real time, because a paused clock does not wait for sockets.
#[tokio::test]
async fn parts_of_a_manager_start_in_order_and_stop_in_order() {
    let (server, files, journal) = (Arc::new(server().await), Files::new("order"), Journal::default());
    server.faults().inject(Fault::delay(Duration::from_millis(300)).resource("configmaps").times(1));
    let (http_told, http) = oneshot::channel();
    let (hooks_told, hooks) = oneshot::channel();
    let options = ManagerOptions::default().listen("127.0.0.1:0".parse().unwrap()).tell_address(http_told);
    let mut manager = Manager::new(&server.client(), options);
    // A slow webhook delays the end of its group.
    let (asked, answer) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tell, wait) = (asked.clone(), answer.clone());
    let slow = Webhooks::new().admit("/x", move |_: AdmissionRequest<ConfigMap>| {
        let (tell, wait) = (tell.clone(), wait.clone());
        async move {
            tell.notify_one();
            wait.notified().await;
            AdmissionResponse::allow()
        }
    });
    manager.add_webhooks("hooks", files.server(slow).tell_address(hooks_told)).unwrap();
    manager
        .add(manager.controller::<ConfigMap>("maps").reconciling(|_, _: Context| async { Ok(Outcome::Done) }))
        .unwrap();
    let factory = manager.factory().clone();
    manager.elect(LeaderElector::new(&server.client(), "default", "order", "me", Default::default()).unwrap());
    let is_synced = {
        let factory = factory.clone();
        move || factory.unsynced().is_empty()
    };
    let (is_leading, is_other) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let others = {
        let (journal, is_leading, is_other, is_synced) =
            (journal.clone(), is_leading.clone(), is_other.clone(), is_synced.clone());
        move |stop: CancellationToken| async move {
            is_other.store(true, Ordering::SeqCst);
            let leaders_run = is_leading.load(Ordering::SeqCst);
            journal.note(format!("others start: synced {}, leaders run {leaders_run}", is_synced()));
            stop.cancelled().await;
            journal.note(format!("others stop: leaders run {}", is_leading.load(Ordering::SeqCst)));
            sleep(Duration::from_millis(50)).await;
            is_other.store(false, Ordering::SeqCst);
            Ok(())
        }
    };
    manager.add_task("others", others).unwrap();
    let leaders = {
        let (journal, server, is_other) = (journal.clone(), server.clone(), is_other.clone());
        move |stop: CancellationToken| async move {
            is_leading.store(true, Ordering::SeqCst);
            let led_by = holder(&server).await;
            journal.note(format!("leaders start: others run {}, led by {led_by}", is_other.load(Ordering::SeqCst)));
            stop.cancelled().await;
            let (runs, led_by) = (is_other.load(Ordering::SeqCst), holder(&server).await);
            journal.note(format!("leaders stop: others run {runs}, synced {}, led by {led_by}", is_synced()));
            Ok(())
        }
    };
    manager.add_leader_task("leaders", leaders).unwrap();
    let stop = CancellationToken::new();
    let shutdown = stop.clone();
    let running = tokio::spawn(async move { manager.run(&shutdown).await });
    let (http, hooks) = (http.await.unwrap(), hooks.await.unwrap());
    // Servers answer while caches still sync and nothing else runs.
    assert!(is_open(http).await && is_open(hooks).await);
    assert!(!factory.unsynced().is_empty() && journal.len() == 0);
    eventually("all has started", async || journal.len() == 2).await;
    assert_eq!(
        journal.take(),
        ["others start: synced true, leaders run false", "leaders start: others run true, led by me"]
    );
    let authority = files.authority.clone();
    let question = tokio::spawn(async move { post(hooks, &authority, "/x", DELETION).await });
    asked.notified().await;
    stop.cancel();
    eventually("caches have stopped", async || factory.informers().is_empty()).await;
    assert_eq!(
        journal.take(),
        ["others stop: leaders run true", "leaders stop: others run false, synced true, led by me"]
    );
    eventually("webhooks take no more", async || !is_open(hooks).await).await;
    // The last webhook request is still pending: HTTP endpoints are open, and the lease is held.
    assert!(is_open(http).await && !running.is_finished());
    assert_eq!(holder(&server).await, "me");
    answer.notify_one();
    assert_eq!(question.await.unwrap().unwrap().0, 200);
    running.await.unwrap().unwrap();
    assert!(!is_open(http).await);
    assert_eq!(holder(&server).await, "");
}

#[tokio::test(start_paused = true)]
async fn one_grace_period_bounds_all_groups_and_zero_skips_it() {
    let server = server().await;
    for (grace, takes) in [(30.0, 20.0), (0.0, 0.0)] {
        let options = ManagerOptions::default().grace_period(Some(seconds(grace)));
        let mut manager = Manager::new(&server.client(), options);
        let slow = |stop: CancellationToken| async move {
            stop.cancelled().await;
            sleep(seconds(20.0)).await;
            Ok(())
        };
        manager.add_task("others", slow).unwrap();
        manager.add_leader_task("leaders", slow).unwrap();
        let (stop, began) = (CancellationToken::new(), Instant::now());
        let stopping = async {
            sleep(seconds(1.0)).await;
            stop.cancel();
        };
        let (result, ()) = tokio::join!(manager.run(&stop), stopping);
        let took = began.elapsed() - seconds(1.0);
        if takes > 0.0 {
            assert!(matches!(result, Err(ManagerError::GracePeriodOver { .. })), "{result:?}");
            assert_eq!(took, seconds(30.0), "others take 20 s, and leave 10 s to the leaders");
        } else {
            result.unwrap();
            assert_eq!(took, Duration::ZERO);
        }
    }
}

// With several threads: on one thread, tasks that were only told to stop would end by chance.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn caches_have_ended_when_the_manager_has() {
    let server = server().await;
    let mut manager = Manager::new(&server.client(), ManagerOptions::default());
    manager.add(manager.controller::<ConfigMap>("maps").reconciling(|_, _| async { Ok(Outcome::Done) })).unwrap();
    let informer = manager.factory().informer::<ConfigMap>();
    let stop = CancellationToken::new();
    let shutdown = stop.clone();
    let running = tokio::spawn(async move { manager.run(&shutdown).await });
    assert!(timeout(seconds(10.0), informer.synced()).await.unwrap());
    stop.cancel();
    running.await.unwrap().unwrap();
    assert!(informer.is_stopped(), "its task has ended, not only been told to");
}
