//! Leader election, contract by contract.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kubewright_api::coordination::v1::{Lease, LeaseSpec};
use kubewright_apiserver::{Fault, RunningServer};
use kubewright_client::{Api, Client, Config, Error};
use kubewright_core::meta::v1::Status;
use kubewright_core::{GroupResource, Map, MicroTime, Object, ObjectKey, ResourceVersion, Str};
use kubewright_runtime::election::{
    ElectionMetrics, HealthzAdaptor, InvalidElection, LeaderElectionOptions, LeaderElectionRecord, ResourceLock,
};
use kubewright_runtime::{LeaderElector, Leadership};
use tokio::io::AsyncReadExt;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::support::{eventually, seconds, server};

pub fn options() -> LeaderElectionOptions {
    LeaderElectionOptions::default().seed(7)
}

pub fn elector(client: &Client, identity: &str) -> LeaderElector {
    LeaderElector::new(client, "default", "lock", identity, options()).unwrap()
}

pub async fn lease(server: &RunningServer) -> LeaseSpec {
    Api::<Lease>::namespaced(&server.client(), "default").get("lock").await.unwrap().spec.unwrap()
}

pub async fn put(server: &RunningServer, holder: &str, seconds: i32, transitions: i32) {
    let spec = LeaseSpec {
        holder_identity: Some(holder.into()),
        lease_duration_seconds: Some(seconds),
        acquire_time: Some(MicroTime::ZERO),
        // Long ago by the holder's clock, which must not be trusted.
        renew_time: Some("2001-01-01T00:00:00.000000Z".parse().unwrap()),
        lease_transitions: Some(transitions),
        ..Default::default()
    };
    let mut lease = Lease { spec: Some(spec), ..Default::default() };
    lease.set_name("lock");
    lease.set_namespace("default");
    Api::namespaced(&server.client(), "default").create(&lease).await.unwrap();
}

pub async fn acquire(elector: &mut LeaderElector) -> Leadership {
    elector.acquire(&CancellationToken::new()).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_candidate_without_identity_is_refused() {
    // LE-1
    let server = server().await;
    let refused = LeaderElector::new(&server.client(), "default", "lock", "", options());
    assert_eq!(refused.err(), Some(InvalidElection::NoIdentity));
}

#[tokio::test(start_paused = true)]
async fn a_missing_lease_is_created_immediately_with_labels() {
    // LE-3, LE-7, LE-13
    let server = server().await;
    let start = Instant::now();
    let labels = Map::from([("team", Str::from("blue"))]);
    let key = ObjectKey::namespaced("default", "lock");
    let options = options().lease_duration(seconds(15.9));
    let mut elector = LeaderElector::labelled(&server.client(), key, "a", labels, options).unwrap();
    let leadership = acquire(&mut elector).await;
    assert!(leadership.is_leading() && elector.is_leader());
    assert_eq!(start.elapsed(), Duration::ZERO);
    let spec = lease(&server).await;
    assert_eq!(spec.holder_identity.as_deref(), Some("a"));
    assert_eq!(spec.lease_duration_seconds, Some(15));
    assert_eq!(spec.lease_transitions, Some(0));
    let lease = Api::<Lease>::namespaced(&server.client(), "default").get("lock").await.unwrap();
    assert_eq!(lease.labels().get("team"), Some("blue"));
    // An existing lease keeps its other labels.
    let (key, labels) = (ObjectKey::namespaced("default", "lock"), Map::from([("more", Str::from("yes"))]));
    let mut again = LeaderElector::labelled(&server.client(), key, "a", labels, self::options()).unwrap();
    let _again = acquire(&mut again).await;
    let lease = Api::<Lease>::namespaced(&server.client(), "default").get("lock").await.unwrap();
    assert_eq!((lease.labels().get("team"), lease.labels().get("more")), (Some("blue"), Some("yes")));
}

#[tokio::test(start_paused = true)]
async fn lease_expiry_counts_from_the_local_time_of_the_observed_change() {
    // LE-2, LE-3, LE-4
    let server = server().await;
    put(&server, "other", 20, 3).await;
    let start = Instant::now();
    let mut elector = elector(&server.client(), "a");
    let leadership = acquire(&mut elector).await;
    let waited = start.elapsed();
    assert!(waited >= seconds(20.0) && waited <= seconds(24.4), "{waited:?}");
    let spec = lease(&server).await;
    assert_eq!(spec.lease_transitions, Some(4));
    assert_eq!(leadership.fencing_token().transitions, 4);
    assert_ne!(spec.acquire_time, Some(MicroTime::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_free_lease_is_acquired_immediately_and_an_own_one_is_renewed() {
    // LE-4
    let server = server().await;
    put(&server, "", 20, 3).await;
    let start = Instant::now();
    let mut first = elector(&server.client(), "a");
    let leadership = acquire(&mut first).await;
    assert_eq!(start.elapsed(), Duration::ZERO);
    let before = lease(&server).await;
    assert_eq!(before.lease_transitions, Some(4));
    // The same candidate returns, as after a crash: the lease has not changed hands.
    let mut again = elector(&server.client(), "a");
    let _again = acquire(&mut again).await;
    let after = lease(&server).await;
    assert_eq!((after.lease_transitions, after.acquire_time), (Some(4), before.acquire_time));
    drop(leadership);
}

#[tokio::test(start_paused = true)]
async fn releasing_frees_the_lease_immediately() {
    // LE-8
    let server = server().await;
    let mut a = elector(&server.client(), "a");
    let leadership = acquire(&mut a).await;
    // A conflict and a transport error are retried.
    server.faults().inject(Fault::answer(409).verb("update").resource("leases").times(2));
    server.faults().inject(Fault::answer(500).verb("get").resource("leases").times(1));
    leadership.release().await;
    let spec = lease(&server).await;
    assert_eq!(spec.holder_identity.as_deref().unwrap_or_default(), "");
    assert_eq!((spec.lease_duration_seconds, spec.lease_transitions), (Some(1), Some(0)));
    let start = Instant::now();
    let mut b = elector(&server.client(), "b");
    let leadership = acquire(&mut b).await;
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_eq!(leadership.fencing_token().transitions, 1);
    // The first candidate may return, and waits.
    let stop = CancellationToken::new();
    assert!(timeout(seconds(60.0), a.acquire(&stop)).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn only_the_holder_releases_a_lease() {
    // LE-8
    let server = server().await;
    let mut a = elector(&server.client(), "a");
    let leadership = acquire(&mut a).await;
    let leases = Api::<Lease>::namespaced(&server.client(), "default");
    let mut stolen = leases.get("lock").await.unwrap();
    stolen.spec.as_mut().unwrap().holder_identity = Some("thief".into());
    leases.update(&stolen).await.unwrap();
    leadership.release().await;
    assert_eq!(lease(&server).await.holder_identity.as_deref(), Some("thief"));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_steps_down_before_its_lease_ends() {
    // LE-6, LE-10
    let server = server().await;
    let mut a = elector(&server.client(), "a");
    let leadership = acquire(&mut a).await;
    sleep(seconds(61.0)).await;
    assert!(leadership.is_leading());
    server.faults().inject(Fault::answer(500).resource("leases"));
    let start = Instant::now();
    leadership.lost().await;
    let lasted = start.elapsed();
    assert!(lasted >= seconds(10.0) && lasted <= seconds(12.0), "{lasted:?}");
    assert!(!leadership.is_leading());
}

/// The leaderships of `a`, and of `b` after the lease was deleted.
async fn taken_over(server: &RunningServer, a: &mut LeaderElector) -> (Leadership, Leadership) {
    let leadership = acquire(a).await;
    sleep(seconds(5.0)).await;
    Api::<Lease>::namespaced(&server.client(), "default").delete("lock").await.unwrap();
    let other = acquire(&mut elector(&server.client(), "b")).await;
    (leadership, other)
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_observes_another_holder_steps_down_immediately() {
    // LE-6, LE-10
    let server = server().await;
    let mut a = elector(&server.client(), "a");
    let (leadership, other) = taken_over(&server, &mut a).await;
    // At the next renewal after 2 s, and not at the renew deadline of 10 s.
    let start = Instant::now();
    leadership.lost().await;
    assert!(start.elapsed() <= seconds(2.0), "{:?}", start.elapsed());
    assert!(!leadership.is_leading() && other.is_leading());
    drop(leadership);
    eventually("it says who leads", async || a.leader() == "b").await;
    sleep(seconds(60.0)).await;
    assert!(other.is_leading(), "nobody has freed the lease of another");
    assert_eq!(lease(&server).await.holder_identity.as_deref(), Some("b"));
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_another_has_had_and_freed_is_taken_anew_with_another_token() {
    // LE-10: client-go's leader continues as if nothing had happened in between.
    let server = server().await;
    let mut a = elector(&server.client(), "a");
    let (leadership, other) = taken_over(&server, &mut a).await;
    let token = other.fencing_token().clone();
    other.release().await;
    timeout(seconds(2.0), leadership.lost()).await.expect("with the next renewal");
    assert_eq!(lease(&server).await.holder_identity.as_deref().unwrap_or_default(), "", "it was left alone");
    drop(leadership);
    let leadership = acquire(&mut a).await;
    assert!(leadership.fencing_token().transitions > token.transitions);
    assert!(leadership.fencing_token().version > token.version);
}

#[tokio::test(start_paused = true)]
async fn the_leader_recreates_a_deleted_lease() {
    // LE-6, LE-10
    let server = server().await;
    put(&server, "", 15, 3).await;
    let mut a = elector(&server.client(), "a");
    let leadership = acquire(&mut a).await;
    let before = lease(&server).await;
    Api::<Lease>::namespaced(&server.client(), "default").delete("lock").await.unwrap();
    sleep(seconds(60.0)).await;
    assert!(leadership.is_leading());
    let after = lease(&server).await;
    assert_eq!(after.holder_identity.as_deref(), Some("a"));
    // client-go restarts at zero, which is less than this leader's token.
    assert_eq!((after.lease_transitions, after.acquire_time), (Some(4), before.acquire_time));
    let token = leadership.fencing_token().clone();
    leadership.release().await;
    let next = acquire(&mut elector(&server.client(), "b")).await;
    assert!(next.fencing_token().transitions > token.transitions);
    // The same for a candidate that has only observed the leader.
    timeout(seconds(5.0), a.acquire(&CancellationToken::new())).await.expect_err("it is b's");
    Api::<Lease>::namespaced(&server.client(), "default").delete("lock").await.unwrap();
    let last = acquire(&mut a).await;
    assert!(last.fencing_token().transitions > next.fencing_token().transitions);
}

#[tokio::test(start_paused = true)]
async fn work_of_a_lost_leadership_is_dropped() {
    // LE-10
    let server = server().await;
    let mut a = elector(&server.client(), "a");
    let leadership = acquire(&mut a).await;
    assert_eq!(leadership.while_leading(async { 7 }).await, Some(7));
    server.faults().freeze();
    assert_eq!(leadership.while_leading(std::future::pending::<()>()).await, None);
}

/// Replays responses, and records requests.
#[derive(Clone, Default)]
struct Script {
    asked: Arc<Mutex<Vec<&'static str>>>,
    fails: Arc<Mutex<VecDeque<&'static str>>>,
    record: Arc<Mutex<Option<LeaderElectionRecord>>>,
}

impl Script {
    fn ask(&self, verb: &'static str) -> Result<(), Error> {
        self.asked.lock().unwrap().push(verb);
        let mut fails = self.fails.lock().unwrap();
        if fails.front() == Some(&verb) {
            fails.pop_front();
            return Err(Status::conflict(&GroupResource::from_static("", "leases"), "lock", "changed").into());
        }
        Ok(())
    }

    fn asked(&self) -> String {
        std::mem::take(&mut *self.asked.lock().unwrap()).join(" ")
    }
}

type Answer<'a, T> = std::pin::Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

impl ResourceLock for Script {
    fn get(&mut self) -> Answer<'_, Option<LeaderElectionRecord>> {
        let answer = self.ask("get").map(|()| self.record.lock().unwrap().clone());
        Box::pin(async { answer })
    }

    fn create<'a>(&'a mut self, record: &'a LeaderElectionRecord) -> Answer<'a, ()> {
        let answer = self.ask("create").map(|()| *self.record.lock().unwrap() = Some(record.clone()));
        Box::pin(async { answer })
    }

    fn update<'a>(&'a mut self, record: &'a LeaderElectionRecord) -> Answer<'a, ()> {
        let answer = self.ask("update").map(|()| *self.record.lock().unwrap() = Some(record.clone()));
        Box::pin(async { answer })
    }

    fn version(&self) -> ResourceVersion {
        ResourceVersion::default()
    }

    fn describe(&self) -> String {
        "script".to_owned()
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_renews_without_reading_and_reads_when_that_fails() {
    // LE-5
    let mut registry = prometheus_client::registry::Registry::default();
    let metrics = ElectionMetrics::register(&mut registry);
    let script = Script::default();
    let mut elector = LeaderElector::over(script.clone(), "a", options().metrics(&metrics)).unwrap();
    let leadership = acquire(&mut elector).await;
    assert_eq!(script.asked(), "get create");
    sleep(seconds(5.0)).await;
    assert_eq!(script.asked(), "update update");
    script.fails.lock().unwrap().push_back("update");
    sleep(seconds(2.0)).await;
    assert_eq!(script.asked(), "update get update");
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    assert!(text.contains(r#"leader_election_slowpath_total{name="script"} 2"#), "{text}");
    assert!(text.contains(r#"leader_election_master_status{name="script"} 1"#), "{text}");
    leadership.release().await;
    assert_eq!(script.asked(), "get update");
}

#[tokio::test(start_paused = true)]
async fn a_coordinated_candidate_waits_to_be_chosen_and_leaves_at_the_end_of_its_term() {
    // LE-14
    let script = Script::default();
    let mut elector = LeaderElector::over(script.clone(), "a", options().coordinated()).unwrap();
    let stop = CancellationToken::new();
    assert!(timeout(seconds(30.0), elector.acquire(&stop)).await.is_err());
    assert!(!script.asked().contains("create"));
    let given = LeaderElectionRecord { holder_identity: "a".into(), lease_duration_seconds: 15, ..Default::default() };
    *script.record.lock().unwrap() = Some(given);
    let leadership = acquire(&mut elector).await;
    sleep(seconds(60.0)).await;
    assert!(leadership.is_leading());
    script.record.lock().unwrap().as_mut().unwrap().preferred_holder = Some("b".into());
    let start = Instant::now();
    leadership.lost().await;
    assert!(start.elapsed() <= seconds(12.0));
}

#[tokio::test]
async fn lease_requests_have_a_user_agent_suffix() {
    // LE-12
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut config = Config::new(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    config.user_agent = "my-program/v1".to_owned();
    let mut elector = elector(&Client::try_from(config).unwrap(), "a");
    let stop = CancellationToken::new();
    let head = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.windows(4).any(|end| end == b"\r\n\r\n") {
            let mut part = [0; 1024];
            let length = stream.read(&mut part).await.unwrap();
            head.extend_from_slice(&part[..length]);
        }
        String::from_utf8(head).unwrap().to_ascii_lowercase()
    };
    let head = tokio::select! {
        head = head => head,
        _ = elector.acquire(&stop) => panic!("there is no response"),
    };
    assert!(head.contains("user-agent: my-program/v1/leader-election\r\n"), "{head}");
}

/// The clock advances while the process is suspended, except for the thread that answers probes.
#[test]
fn the_health_check_fails_for_a_stalled_leader() {
    // LE-11
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let options = options().lease_duration(seconds(1.0)).renew_deadline(seconds(0.5)).retry_period(seconds(0.1));
    let mut elector = LeaderElector::over(Script::default(), "a", options).unwrap();
    let mut health = HealthzAdaptor::new(seconds(0.2));
    health.watch(&elector);
    let leadership = runtime.block_on(acquire(&mut elector));
    assert!(health.check().is_ok());
    std::thread::sleep(seconds(1.5));
    assert!(health.check().unwrap_err().since > seconds(1.2));
    // By the clock, this process no longer leads, although no task has run since.
    assert!(!leadership.is_leading());
    // The lease was not acquired in the meantime, so it is renewed as soon as the process
    // continues.
    runtime.block_on(eventually("it is healthy again", async || health.check().is_ok()));
}

#[tokio::test(start_paused = true)]
async fn health_is_bad_only_for_a_leader_that_does_not_renew() {
    // LE-11
    let mut health = HealthzAdaptor::new(seconds(5.0));
    assert!(health.check().is_ok());
    let script = Script::default();
    let mut elector = LeaderElector::over(script.clone(), "a", options()).unwrap();
    health.watch(&elector);
    assert!(health.check().is_ok());
    let leadership = acquire(&mut elector).await;
    sleep(seconds(60.0)).await;
    assert!(health.check().is_ok());
    // A candidate that has stepped down is healthy, however long ago it renewed.
    script.fails.lock().unwrap().extend(["update", "get"].repeat(20));
    leadership.lost().await;
    sleep(seconds(60.0)).await;
    assert!(health.check().is_ok());
}
