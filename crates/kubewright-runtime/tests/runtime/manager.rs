//! Managers: order, grace period, leadership, and endpoints.

use std::net::SocketAddr;
use std::time::Duration;

use kubewright_api::coordination::v1::Lease;
use kubewright_api::core::v1::{ConfigMap, Event, Secret};
use kubewright_apiserver::{Fault, RunningServer};
use kubewright_cache::{BoxFuture, FactoryOptions, SharedInformerFactory};
use kubewright_client::{Api, Client};
use kubewright_core::options::ListOptions;
use kubewright_runtime::controller::BoxError;
use kubewright_runtime::events::EventApi;
use kubewright_runtime::manager::ManagerError;
use kubewright_runtime::{Context, LeaderElector, Manager, ManagerOptions, Outcome};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::support::{Journal, config_map, config_maps, eventually, seconds, server};

/// A manager with one controller that records names, and needs `time` for each.
fn manager(server: &RunningServer, journal: &Journal, time: Duration, options: ManagerOptions) -> Manager {
    let mut manager = Manager::new(&server.client(), options);
    let journal = journal.clone();
    let maps = manager.controller::<ConfigMap>("maps").owns::<Secret>().reconciling(move |map, _: Context| {
        let journal = journal.clone();
        async move {
            sleep(time).await;
            journal.note(&**map.metadata.name.as_ref().unwrap());
            Ok(Outcome::Done)
        }
    });
    manager.add(maps).unwrap();
    manager
}

fn start(manager: Manager) -> (CancellationToken, tokio::task::JoinHandle<Result<(), ManagerError>>) {
    let stop = CancellationToken::new();
    let shutdown = stop.clone();
    (stop, tokio::spawn(async move { manager.run(&shutdown).await }))
}

#[tokio::test(start_paused = true)]
async fn two_controllers_of_one_name_are_refused() {
    let server = server().await;
    let mut manager = manager(&server, &Journal::default(), Duration::ZERO, ManagerOptions::default());
    let again = manager.controller::<Secret>("maps").reconciling(|_, _| async { Ok(Outcome::Done) });
    assert!(matches!(manager.add(again), Err(ManagerError::DuplicateName { name }) if name == "maps"));
}

#[tokio::test(start_paused = true)]
async fn events_that_wait_are_written_before_the_end() {
    let server = server().await;
    let mut manager = Manager::new(&server.client(), ManagerOptions::default());
    let recorder = manager.recorder("maps", EventApi::Core);
    let maps = manager.controller::<ConfigMap>("maps").reconciling(move |map, context: Context| {
        let recorder = recorder.clone();
        async move {
            context.stopping().cancelled().await;
            recorder.normal(&*map, "Seen", "it is there");
            Ok(Outcome::Done)
        }
    });
    manager.add(maps).unwrap();
    config_maps(&server).create(&config_map("a")).await.unwrap();
    let (stop, running) = start(manager);
    sleep(seconds(1.0)).await;
    stop.cancel();
    running.await.unwrap().unwrap();
    let events = Api::<Event>::namespaced(&server.client(), "default").list(&ListOptions::default()).await.unwrap();
    let seen = events.items.iter().map(|event| (event.reason.as_deref(), event.reporting_component.as_deref()));
    assert_eq!(seen.collect::<Vec<_>>(), [(Some("Seen"), Some("maps"))]);
}

#[tokio::test(start_paused = true)]
async fn work_in_hand_is_finished_within_the_grace_period_and_dropped_after() {
    let server = server().await;
    for (takes, is_fine) in [(20.0, true), (40.0, false)] {
        let journal = Journal::default();
        let (stop, running) = start(manager(&server, &journal, seconds(takes), ManagerOptions::default()));
        sleep(seconds(1.0)).await;
        stop.cancel();
        let start = Instant::now();
        let result = running.await.unwrap();
        match result {
            Ok(()) => assert!(is_fine && journal.len() == 1),
            Err(ManagerError::GracePeriodOver { .. }) => {
                assert!(!is_fine && journal.len() == 0);
                assert_eq!(start.elapsed(), seconds(30.0));
            }
            Err(other) => panic!("{other}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_managers_over_one_factory_the_end_of_one_is_not_that_of_the_other() {
    let server = server().await;
    let factory = SharedInformerFactory::new(&server.client(), FactoryOptions::default());
    let (one, two) = (Journal::default(), Journal::default());
    let (stop_one, first) = start(manager(&server, &one, Duration::ZERO, ManagerOptions::default().factory(&factory)));
    sleep(seconds(1.0)).await;
    let (stop_two, second) = start(manager(&server, &two, Duration::ZERO, ManagerOptions::default().factory(&factory)));
    sleep(seconds(1.0)).await;
    stop_one.cancel();
    first.await.unwrap().unwrap();
    let before = two.len();
    config_maps(&server).create(&config_map("new")).await.unwrap();
    eventually("the other is told", async || two.len() > before).await;
    assert!(!factory.informers().is_empty());
    stop_two.cancel();
    second.await.unwrap().unwrap();
    assert!(factory.informers().is_empty(), "nobody uses any: {factory:?}");
}

#[tokio::test(start_paused = true)]
async fn a_failed_task_stops_the_manager() {
    let server = server().await;
    let journal = Journal::default();
    let mut manager = manager(&server, &journal, Duration::ZERO, ManagerOptions::default());
    manager
        .add_task("bomb", |_| async {
            sleep(seconds(5.0)).await;
            Err("boom".into())
        })
        .unwrap();
    let (_, running) = start(manager);
    let error = running.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "bomb failed");
    assert!(std::error::Error::source(&error).is_some_and(|source| source.to_string() == "boom"));
}

#[tokio::test(start_paused = true)]
async fn controllers_run_only_in_the_process_that_leads() {
    let server = server().await;
    config_maps(&server).create(&config_map("a")).await.unwrap();
    let elector =
        |name: &str| LeaderElector::new(&server.client(), "default", "manager", name, Default::default()).unwrap();
    let (first, second) = (Journal::default(), Journal::default());
    let mut leader = manager(&server, &first, Duration::ZERO, ManagerOptions::default());
    leader.elect(elector("one"));
    let (stop_first, one) = start(leader);
    sleep(seconds(1.0)).await;
    let mut standby = manager(&server, &second, Duration::ZERO, ManagerOptions::default());
    standby.elect(elector("two"));
    let (stop_second, two) = start(standby);
    sleep(seconds(60.0)).await;
    assert!(first.len() > 0 && second.len() == 0);
    // The lease is released last, and the other process acquires it at its next attempt.
    stop_first.cancel();
    one.await.unwrap().unwrap();
    sleep(seconds(5.0)).await;
    assert!(second.len() > 0);
    // Losing the lease is an error, immediately.
    server.faults().inject(Fault::answer(500).resource("leases"));
    assert!(matches!(two.await.unwrap(), Err(ManagerError::LeadershipLost)));
    drop(stop_second);
}

fn elector(server: &RunningServer, identity: &str) -> LeaderElector {
    LeaderElector::new(&server.client(), "default", "manager", identity, Default::default()).unwrap()
}

/// The holder of the lease; empty if there is none.
async fn holder(client: &Client) -> String {
    let lease = Api::<Lease>::namespaced(client, "default").get("manager").await.unwrap();
    lease.spec.unwrap().holder_identity.unwrap_or_default().to_string()
}

/// A task that takes this long to end, and then logs the leader.
fn slow_to_end(
    server: &RunningServer,
    journal: &Journal,
    time: Duration,
) -> impl FnOnce(CancellationToken) -> BoxFuture<'static, Result<(), BoxError>> + Send + 'static {
    let (client, journal) = (server.client(), journal.clone());
    move |stop| {
        Box::pin(async move {
            stop.cancelled().await;
            sleep(time).await;
            journal.note(holder(&client).await);
            Ok(())
        })
    }
}

fn bomb(_: CancellationToken) -> BoxFuture<'static, Result<(), BoxError>> {
    Box::pin(async {
        sleep(seconds(5.0)).await;
        Err("boom".into())
    })
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_fails_frees_the_lease_when_all_work_has_ended_and_before_it_returns() {
    // LE-8
    let (server, journal) = (server().await, Journal::default());
    server.faults().inject(Fault::delay(seconds(1.0)).verb("update").resource("leases"));
    let mut manager = Manager::new(&server.client(), ManagerOptions::default());
    manager.elect(elector(&server, "one"));
    manager.add_leader_task("bomb", bomb).unwrap();
    manager.add_leader_task("slow", slow_to_end(&server, &journal, seconds(20.0))).unwrap();
    let error = start(manager).1.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "bomb failed");
    assert_eq!(journal.take(), ["one"]);
    assert_eq!(holder(&server.client()).await, "");
}

#[tokio::test(start_paused = true)]
async fn a_lease_expires_instead_of_being_released_if_work_was_aborted() {
    // LE-8
    let (server, journal) = (server().await, Journal::default());
    let mut manager = Manager::new(&server.client(), ManagerOptions::default());
    manager.elect(elector(&server, "one"));
    manager.add_leader_task("slow", slow_to_end(&server, &journal, seconds(40.0))).unwrap();
    let (stop, running) = start(manager);
    sleep(seconds(1.0)).await;
    stop.cancel();
    assert!(matches!(running.await.unwrap(), Err(ManagerError::GracePeriodOver { .. })));
    sleep(seconds(5.0)).await;
    assert_eq!((holder(&server.client()).await, journal.len()), ("one".to_owned(), 0));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_loses_the_lease_during_shutdown_aborts_its_work() {
    let (server, journal) = (server().await, Journal::default());
    let mut manager = Manager::new(&server.client(), ManagerOptions::default().grace_period(None));
    manager.elect(elector(&server, "one"));
    manager.add_leader_task("slow", slow_to_end(&server, &journal, seconds(60.0))).unwrap();
    let (stop, running) = start(manager);
    sleep(seconds(1.0)).await;
    stop.cancel();
    server.faults().inject(Fault::answer(500).resource("leases"));
    let began = Instant::now();
    assert!(matches!(running.await.unwrap(), Err(ManagerError::LeadershipLost)));
    assert!(began.elapsed() < seconds(15.0) && journal.len() == 0, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_failed_task_of_a_standby_lets_the_others_finish() {
    let (server, journal) = (server().await, Journal::default());
    let stop = CancellationToken::new();
    let _leadership = elector(&server, "other").acquire(&stop).await.unwrap();
    let mut manager = Manager::new(&server.client(), ManagerOptions::default());
    manager.elect(elector(&server, "one"));
    manager.add_task("bomb", bomb).unwrap();
    manager.add_task("slow", slow_to_end(&server, &journal, seconds(20.0))).unwrap();
    let error = start(manager).1.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "bomb failed");
    assert_eq!(journal.take(), ["other"]);
}

#[tokio::test(start_paused = true)]
async fn a_panicked_task_is_named() {
    let server = server().await;
    for is_leading in [false, true] {
        let mut manager = Manager::new(&server.client(), ManagerOptions::default());
        let bomb = |_: CancellationToken| async { panic!("boom") };
        // Both the function and its future may panic.
        let made_badly = |_: CancellationToken| -> BoxFuture<'static, Result<(), BoxError>> { panic!("boom") };
        if is_leading {
            manager.add_leader_task("bomb", bomb).unwrap()
        } else {
            manager.add_task("bomb", made_badly).unwrap()
        };
        let error = start(manager).1.await.unwrap().unwrap_err();
        assert_eq!(error.to_string(), "bomb failed");
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(source.contains("boom"), "{source}");
    }
}

pub async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    let code = text.split(' ').nth(1).unwrap().parse().unwrap();
    (code, text.split_once("\r\n\r\n").unwrap().1.to_owned())
}

#[tokio::test]
async fn the_health_endpoints_report_each_controller() {
    let server = server().await;
    server.faults().inject(Fault::answer(403).resource("configmaps"));
    let (tell, told) = oneshot::channel();
    let options = ManagerOptions::default().listen("127.0.0.1:0".parse().unwrap()).tell_address(tell);
    let mut manager = manager(&server, &Journal::default(), Duration::ZERO, options);
    manager.elect(elector(&server, "one"));
    let (stop, running) = start(manager);
    let address = told.await.unwrap();
    assert_eq!(get(address, "/healthz").await, (200, "[+]ping ok\n".to_owned()));
    assert_eq!(get(address, "/healthz/ping").await.0, 200);
    assert_eq!(get(address, "/nothing").await.0, 404);
    eventually("not ready", async || {
        let (code, text) = get(address, "/readyz").await;
        code == 500 && text.starts_with("[-]maps failed: not synced: configmaps")
    })
    .await;
    server.faults().clear();
    eventually("ready", async || get(address, "/readyz/maps").await == (200, "[+]maps ok\n".to_owned())).await;
    let (code, metrics) = get(address, "/metrics").await;
    assert_eq!(code, 200);
    for name in [
        "controller_runtime_reconcile_total",
        "controller_runtime_active_workers",
        r#"workqueue_depth{name="maps",controller="maps",priority="0"}"#,
        r#"leader_election_master_status{name="default/manager"} 1"#,
        r#"rest_client_requests_total{code="200",method="GET",host="""#,
    ] {
        assert!(metrics.contains(name), "{name} is not in\n{metrics}");
    }
    stop.cancel();
    running.await.unwrap().unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}
