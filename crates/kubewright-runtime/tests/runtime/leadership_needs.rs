//! Controllers that work, or fill their queue, while another process leads.

use kubewright_api::core::v1::{ConfigMap, Secret};
use kubewright_apiserver::RunningServer;
use kubewright_core::Object;
use kubewright_runtime::controller::RunnableController;
use kubewright_runtime::{Context, Controller, LeaderElector, Manager, ManagerOptions, Outcome, Predicate};
use kubewright_workqueue::LOW_PRIORITY;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::manager::get;
use crate::support::{Journal, config_map, config_maps, eventually, seconds, server};

fn elector(server: &RunningServer, identity: &str) -> LeaderElector {
    LeaderElector::new(&server.client(), "default", "manager", identity, Default::default()).unwrap()
}

/// Holds the lease until the token is cancelled.
async fn another_leader(server: &RunningServer) -> CancellationToken {
    let (stop, mut manager) = (CancellationToken::new(), Manager::new(&server.client(), ManagerOptions::default()));
    manager.elect(elector(server, "other"));
    let shutdown = stop.clone();
    tokio::spawn(async move { manager.run(&shutdown).await.unwrap() });
    sleep(seconds(1.0)).await;
    stop
}

/// Notes each reconcile of the namespace `default`.
fn noting(journal: &Journal, controller: Controller<ConfigMap>) -> RunnableController {
    let is_ours = Predicate::objects(|map: &ConfigMap| map.namespace() == "default");
    controller.filter(is_ours).reconciling_with(journal.clone(), |map, context: Context, journal| async move {
        journal.note(format!("{}: {}", map.name(), context.reasons()));
        Ok(Outcome::Done)
    })
}

#[tokio::test(start_paused = true)]
async fn a_controller_without_leader_election_works_on_every_replica() {
    let (server, everywhere, leading) = (server().await, Journal::default(), Journal::default());
    config_maps(&server).create(&config_map("a")).await.unwrap();
    let other = another_leader(&server).await;
    let mut manager = Manager::new(&server.client(), ManagerOptions::default());
    let routes = manager.controller::<ConfigMap>("routes").without_leader_election();
    manager.add(noting(&everywhere, routes)).unwrap();
    let maps = manager.controller::<ConfigMap>("maps");
    manager.add(noting(&leading, maps)).unwrap();
    manager.elect(elector(&server, "me"));
    let (stop, handles) = (CancellationToken::new(), manager.handles());
    let shutdown = stop.clone();
    let running = tokio::spawn(async move { manager.run(&shutdown).await });
    sleep(seconds(30.0)).await;
    assert_eq!((everywhere.len(), leading.len()), (1, 0));
    assert!(handles[0].health().is_working && !handles[1].health().is_working);
    other.cancel();
    sleep(seconds(30.0)).await;
    assert_eq!((everywhere.len(), leading.len()), (1, 1));
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_standby_is_ready_when_its_controllers_without_leader_election_work() {
    let server = server().await;
    let other = another_leader(&server).await;
    let (tell, address) = oneshot::channel();
    let options = ManagerOptions::default().listen(([127, 0, 0, 1], 0).into()).tell_address(tell);
    let mut manager = Manager::new(&server.client(), options);
    let routes = manager.controller::<Secret>("routes").without_leader_election();
    manager.add(routes.reconciling(|_, _| async { Ok(Outcome::Done) })).unwrap();
    let maps = manager.controller::<ConfigMap>("maps");
    manager.add(maps.reconciling(|_, _| async { Ok(Outcome::Done) })).unwrap();
    manager.elect(elector(&server, "me"));
    let (stop, handles) = (CancellationToken::new(), manager.handles());
    let shutdown = stop.clone();
    let running = tokio::spawn(async move { manager.run(&shutdown).await });
    let address = address.await.unwrap();
    eventually("ready", async || get(address, "/readyz").await == (200, "[+]routes ok\n[+]maps ok\n".to_owned())).await;
    assert!(handles[0].health().is_working && !handles[1].health().is_working);
    stop.cancel();
    other.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_warm_controller_has_its_queue_filled_when_it_leads() {
    let (server, journal) = (server().await, Journal::default());
    for name in ["a", "b"] {
        config_maps(&server).create(&config_map(name)).await.unwrap();
    }
    let other = another_leader(&server).await;
    let mut manager = Manager::new(&server.client(), ManagerOptions::default());
    let warm = manager.controller::<ConfigMap>("warm").warm_up();
    manager.add(noting(&journal, warm)).unwrap();
    let cold = manager.controller::<ConfigMap>("cold");
    manager.add(noting(&Journal::default(), cold)).unwrap();
    manager.elect(elector(&server, "me"));
    let (stop, handles) = (CancellationToken::new(), manager.handles());
    let shutdown = stop.clone();
    let running = tokio::spawn(async move { manager.run(&shutdown).await });
    sleep(seconds(30.0)).await;
    let waiting = |index: usize| handles[index].queue(10).waiting;
    assert_eq!((waiting(0).len(), waiting(1).len(), journal.len()), (2, 0, 0));
    assert!(waiting(0).iter().all(|one| one.priority == LOW_PRIORITY));
    // A change while another process leads is queued too.
    config_maps(&server).create(&config_map("c")).await.unwrap();
    sleep(seconds(1.0)).await;
    assert_eq!(waiting(0).len(), 3);
    assert!(!handles[0].health().is_working && handles[0].health().relations[0].has_synced);
    let start = Instant::now();
    other.cancel();
    while journal.len() < 3 {
        sleep(seconds(0.1)).await;
    }
    assert!(start.elapsed() < seconds(15.0));
    let mut told = journal.take();
    told.sort();
    let expected =
        ["a: configmaps default/a listed", "b: configmaps default/b listed", "c: configmaps default/c added"];
    assert_eq!(told, expected);
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_warm_standby_stops_without_having_led() {
    let (server, journal) = (server().await, Journal::default());
    config_maps(&server).create(&config_map("a")).await.unwrap();
    let _other = another_leader(&server).await;
    let mut manager = Manager::new(&server.client(), ManagerOptions::default());
    let warm = manager.controller::<ConfigMap>("warm").warm_up();
    manager.add(noting(&journal, warm)).unwrap();
    manager.elect(elector(&server, "me"));
    let stop = CancellationToken::new();
    let shutdown = stop.clone();
    let running = tokio::spawn(async move { manager.run(&shutdown).await });
    sleep(seconds(30.0)).await;
    stop.cancel();
    running.await.unwrap().unwrap();
    assert_eq!(journal.len(), 0);
}
