//! Controllers run only while their process holds the lease, and a lease is released only after
//! their work has ended, however an election ends.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kubewright_api::coordination::v1::Lease;
use kubewright_api::core::v1::ConfigMap;
use kubewright_apiserver::{Fault, RunningServer};
use kubewright_cache::BoxFuture;
use kubewright_client::{Api, Error};
use kubewright_core::{Object, ResourceVersion};
use kubewright_runtime::election::{
    LeaderCallbacks, LeaderElectionOptions, LeaderElectionRecord, LeadershipLost, ResourceLock,
};
use kubewright_runtime::manager::ManagerError;
use kubewright_runtime::{Context, LeaderElector, Manager, ManagerOptions, Outcome, Sharding};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::election::{acquire, elector, lease};
use crate::support::{Journal, config_map, config_maps, eventually, seconds, server};

/// A manager whose controller and leader task log that they run.
fn manager(server: &RunningServer, journal: &Journal, elector: LeaderElector) -> Manager {
    let mut manager = Manager::new(&server.client(), ManagerOptions::default());
    let noted = journal.clone();
    let maps = manager.controller::<ConfigMap>("maps").reconciling(move |map, _: Context| {
        noted.note(map.name());
        async { Ok(Outcome::Done) }
    });
    manager.add(maps).unwrap();
    let noted = journal.clone();
    let task = move |_| async move {
        noted.note("task");
        Ok(())
    };
    manager.add_leader_task("task", task).unwrap();
    manager.elect(elector);
    manager
}

/// A lock in memory that can be slow, or panic, at the calls of given numbers.
#[derive(Clone, Default)]
struct Odd {
    record: Arc<std::sync::Mutex<Option<LeaderElectionRecord>>>,
    calls: Arc<AtomicUsize>,
    /// How long each write takes.
    takes: Duration,
    panics_at: Option<usize>,
}

impl Odd {
    fn call<'a, R: Send + 'a>(
        &'a self,
        work: impl FnOnce(&mut Option<LeaderElectionRecord>) -> R + Send + 'a,
    ) -> BoxFuture<'a, R> {
        Box::pin(async move {
            let call = self.calls.fetch_add(1, Ordering::SeqCst);
            assert!(self.panics_at.is_none_or(|at| call < at), "as a lock may");
            sleep(self.takes).await;
            work(&mut self.record.lock().unwrap())
        })
    }
}

impl ResourceLock for Odd {
    fn get(&mut self) -> BoxFuture<'_, Result<Option<LeaderElectionRecord>, Error>> {
        self.call(|record| Ok(record.clone()))
    }

    fn create<'a>(&'a mut self, record: &'a LeaderElectionRecord) -> BoxFuture<'a, Result<(), Error>> {
        self.update(record)
    }

    fn update<'a>(&'a mut self, record: &'a LeaderElectionRecord) -> BoxFuture<'a, Result<(), Error>> {
        self.call(|current| {
            *current = Some(record.clone());
            Ok(())
        })
    }

    fn version(&self) -> ResourceVersion {
        ResourceVersion::default()
    }

    fn describe(&self) -> String {
        "odd".to_owned()
    }
}

fn over(lock: &Odd) -> LeaderElector {
    LeaderElector::over(lock.clone(), "me", LeaderElectionOptions::default()).unwrap()
}

/// Runs a manager for an hour, then stops it.
async fn for_an_hour<F: Future<Output = Result<(), ManagerError>> + Send + 'static>(
    run: impl FnOnce(CancellationToken) -> F,
) -> Result<Result<(), ManagerError>, tokio::task::JoinError> {
    let stop = CancellationToken::new();
    let mut running = tokio::spawn(run(stop.clone()));
    if let Ok(ended) = timeout(seconds(3600.0), &mut running).await {
        return ended;
    }
    stop.cancel();
    running.await
}

#[tokio::test(start_paused = true)]
async fn nothing_runs_without_leadership_however_the_election_ends() {
    let server = server().await;
    config_maps(&server).create(&config_map("a")).await.unwrap();
    // Every write takes longer than the lease duration, so each lease has expired when it is
    // acquired.
    let slow = Odd { takes: seconds(20.0), ..Odd::default() };
    // The lock panics immediately.
    let broken = Odd { panics_at: Some(0), ..Odd::default() };
    for (lock, is_panic) in [(slow, false), (broken, true)] {
        let journal = Journal::default();
        let manager = manager(&server, &journal, over(&lock));
        let ended = for_an_hour(|stop| async move { manager.run(&stop).await }).await;
        assert_eq!(journal.take(), Vec::<String>::new());
        assert_eq!(ended.is_err(), is_panic, "{ended:?}");
    }
    // The server rejects the request, another candidate holds the lease, or the shutdown is first.
    for case in ["refused", "held", "cancelled"] {
        let journal = Journal::default();
        let mut other = elector(&server.client(), "other");
        let _held = if case == "held" { Some(acquire(&mut other).await) } else { None };
        if case == "refused" {
            server.faults().inject(Fault::answer(403).resource("leases"));
        }
        let manager = manager(&server, &journal, elector(&server.client(), "me"));
        let ended = for_an_hour(|stop| {
            if case == "cancelled" {
                stop.cancel();
            }
            async move { manager.run(&stop).await }
        });
        ended.await.unwrap().unwrap();
        server.faults().clear();
        assert_eq!(journal.take(), Vec::<String>::new(), "{case}");
    }
}

// With several threads and real time: a task that is spawned and aborted immediately may still run.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_lease_that_expires_before_its_acquisition_returns_starts_nothing() {
    let server = server().await;
    config_maps(&server).create(&config_map("a")).await.unwrap();
    let slow = || {
        let options = LeaderElectionOptions::default().lease_duration(seconds(1.0));
        let options = options.renew_deadline(seconds(0.5)).retry_period(seconds(0.1));
        let lock = Odd { takes: seconds(1.1), ..Odd::default() };
        LeaderElector::over(lock, "me", options).unwrap()
    };
    let journal = Journal::default();
    let (manager, noted) = (manager(&server, &journal, slow()), journal.clone());
    let callbacks = LeaderCallbacks::new(move |_| async move { noted.note("work") }, || {});
    let stop = CancellationToken::new();
    let stopping = async {
        sleep(seconds(5.0)).await;
        stop.cancel();
    };
    let (_, _, ()) = tokio::join!(manager.run(&stop), slow().run(callbacks, &stop), stopping);
    assert_eq!(journal.take(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_panics_later_ends_the_leadership_and_the_work() {
    let server = server().await;
    let journal = Journal::default();
    let lock = Odd { panics_at: Some(5), ..Odd::default() };
    let mut manager = manager(&server, &journal, over(&lock));
    let noted = journal.clone();
    let work = move |_| async move {
        loop {
            sleep(seconds(0.1)).await;
            noted.note("work");
        }
    };
    manager.add_leader_task("work", work).unwrap();
    let start = tokio::time::Instant::now();
    let error = manager.run(&CancellationToken::new()).await.unwrap_err();
    assert!(matches!(error, ManagerError::LeadershipLost), "{error}");
    assert!(start.elapsed() < seconds(10.0), "at once, not when the lease has expired: {:?}", start.elapsed());
    let before = journal.len();
    sleep(seconds(10.0)).await;
    assert_eq!(journal.len(), before);
}

#[tokio::test(start_paused = true)]
async fn a_candidate_recovers_from_a_panic_of_its_lock() {
    let lock = Odd { panics_at: Some(3), ..Odd::default() };
    let mut elector = over(&lock);
    acquire(&mut elector).await.lost().await;
    // The lock works again, and the candidate acquires it.
    lock.calls.store(0, Ordering::SeqCst);
    let again = timeout(seconds(60.0), elector.acquire(&CancellationToken::new())).await.unwrap();
    assert!(again.is_some_and(|leadership| leadership.is_leading()));
}

#[tokio::test(start_paused = true)]
async fn dropping_the_run_of_a_manager_lets_the_lease_expire() {
    // LE-8
    let (server, journal) = (server().await, Journal::default());
    config_maps(&server).create(&config_map("a")).await.unwrap();
    let mut manager = manager(&server, &journal, elector(&server.client(), "me"));
    // Work that ignores cancellation, like a thread or a detached task.
    manager.add_leader_task("slow", |_| std::future::pending()).unwrap();
    let running = tokio::spawn(async move { manager.run(&CancellationToken::new()).await });
    eventually("it leads", async || journal.len() > 0).await;
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    let mut other = elector(&server.client(), "other");
    let start = tokio::time::Instant::now();
    sleep(seconds(1.0)).await;
    assert_eq!(lease(&server).await.holder_identity.as_deref(), Some("me"), "nobody may take it at once");
    let _leadership = acquire(&mut other).await;
    assert!(start.elapsed() >= seconds(10.0), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_leadership_that_is_dropped_lets_the_lease_expire_and_one_that_is_released_frees_it() {
    // LE-8
    let server = server().await;
    let mut elector = elector(&server.client(), "me");
    drop(acquire(&mut elector).await);
    sleep(seconds(5.0)).await;
    assert_eq!(lease(&server).await.holder_identity.as_deref(), Some("me"));
    // It is not renewed either.
    let renewed = lease(&server).await.renew_time;
    sleep(seconds(5.0)).await;
    assert_eq!(lease(&server).await.renew_time, renewed);
    acquire(&mut elector).await.release().await;
    assert_eq!(lease(&server).await.holder_identity.as_deref().unwrap_or_default(), "");
}

/// Runs an elector whose work never ends, and stops it after five seconds, followed by `then`.
async fn stop_stuck_work<R>(server: &RunningServer, then: impl Future<Output = R>) -> (Result<(), LeadershipLost>, R) {
    let stop = CancellationToken::new();
    let callbacks = LeaderCallbacks::new(|_| std::future::pending(), || {});
    let elector = elector(&server.client(), "me");
    let stopping = async {
        sleep(seconds(5.0)).await;
        stop.cancel();
        then.await
    };
    tokio::join!(elector.run(callbacks, &stop), stopping)
}

#[tokio::test(start_paused = true)]
async fn a_lease_expires_if_the_callbacks_work_does_not_end() {
    // LE-8
    let server = server().await;
    let (ended, ()) = stop_stuck_work(&server, async {}).await;
    assert_eq!(ended, Ok(()));
    sleep(seconds(1.0)).await;
    assert_eq!(lease(&server).await.holder_identity.as_deref(), Some("me"));
}

#[tokio::test(start_paused = true)]
async fn callbacks_that_lose_the_lease_while_they_stop_wait_no_longer() {
    let server = server().await;
    let take_by_force = async {
        let leases = Api::<Lease>::namespaced(&server.client(), "default");
        let mut taken = leases.get("lock").await.unwrap();
        taken.spec.as_mut().unwrap().holder_identity = Some("other".into());
        leases.update(&taken).await.unwrap();
        tokio::time::Instant::now()
    };
    let (ended, taken) = stop_stuck_work(&server, take_by_force).await;
    assert_eq!(ended, Err(LeadershipLost));
    assert!(taken.elapsed() < seconds(5.0), "{:?}", taken.elapsed());
}

#[tokio::test(start_paused = true)]
async fn dropping_a_sharded_manager_lets_the_leases_of_its_shards_expire() {
    let (server, journal) = (server().await, Journal::default());
    config_maps(&server).create(&config_map("a")).await.unwrap();
    let sharding = |identity: &str| {
        Sharding::new(&server.client(), "default", "maps", identity, 2, LeaderElectionOptions::default()).unwrap()
    };
    let first = sharding("one");
    let mut manager = Manager::new(&server.client(), ManagerOptions::default());
    let noted = journal.clone();
    let maps = manager.controller::<ConfigMap>("maps").reconciling(move |map, _: Context| {
        noted.note(map.name());
        // Never ends by itself.
        std::future::pending()
    });
    manager.add(maps).unwrap();
    manager.share(&first);
    let running = tokio::spawn(async move { manager.run(&CancellationToken::new()).await });
    eventually("it has a shard", async || journal.len() > 0).await;
    running.abort();
    let _ = running.await;
    let shards = async || {
        let leases = Api::<Lease>::namespaced(&server.client(), "default").list(&Default::default()).await.unwrap();
        let shards = leases.items.into_iter().filter(|lease| lease.name().contains("shard"));
        shards.map(|lease| lease.spec.unwrap_or_default()).collect::<Vec<_>>()
    };
    sleep(seconds(1.0)).await;
    let before = shards().await;
    assert!(before.iter().all(|shard| shard.holder_identity.as_deref() == Some("one")), "{before:?}");
    assert_eq!(first.owned_shards(), Vec::<usize>::new());
    sleep(seconds(10.0)).await;
    assert_eq!(shards().await, before, "neither freed nor renewed");
}
