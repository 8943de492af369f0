//! Sharded replicas: never two on one key, and eventually one on each, with simulated time.
//!
//! `KUBEWRIGHT_SHARDING_RUNS` sets the number of runs, `KUBEWRIGHT_SHARDING_SEED` the first seed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kubewright_api::coordination::v1::Lease;
use kubewright_api::core::v1::ConfigMap;
use kubewright_apiserver::RunningServer;
use kubewright_cache::{InformerHandle, InformerScope, SharedInformerFactory};
use kubewright_client::config::Kubeconfig;
use kubewright_client::transport::{Body, ResponseFuture, TransportError, TransportErrorKind};
use kubewright_client::{Api, Client, Config};
use kubewright_core::options::{ListOptions, QueryParameters};
use kubewright_core::{Kind, Object, ObjectKey};
use kubewright_runtime::election::{InvalidElection, LeaderElectionOptions};
use kubewright_runtime::{Controller, Manager, ManagerOptions, Outcome, Predicate, Sharding};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::election_simulation::Dice;
use crate::support::{config_map, config_maps, eventually, seconds, server, touch};

const SHARDS: usize = 12;
const KEYS: usize = 40;

/// The replica that works on each key, as an observer sees it.
#[derive(Clone, Default)]
struct World {
    working: Arc<Mutex<BTreeMap<ObjectKey, usize>>>,
    runs: Arc<Mutex<Vec<(ObjectKey, usize)>>>,
    /// Recorded instead of asserted, because a controller would catch the panic.
    overlaps: Arc<Mutex<Vec<String>>>,
}

/// A running reconcile.
struct Working(World, ObjectKey);

impl World {
    fn begin(&self, key: &ObjectKey, replica: usize) -> Working {
        let other = self.working.lock().unwrap().insert(key.clone(), replica);
        if let Some(other) = other {
            self.overlaps.lock().unwrap().push(format!("{key} is worked on by {other} and by {replica}"));
        }
        self.runs.lock().unwrap().push((key.clone(), replica));
        Working(self.clone(), key.clone())
    }

    /// Reconciles since the last call, with their replicas.
    fn take_runs(&self) -> Vec<(ObjectKey, usize)> {
        assert_eq!(*self.overlaps.lock().unwrap(), [""; 0]);
        std::mem::take(&mut *self.runs.lock().unwrap())
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.0.working.lock().unwrap().remove(&self.1);
    }
}

/// The scope of a replica's watch: all objects, or those of its shards.
#[derive(Clone, Copy)]
enum Watches {
    All,
    Share,
}

struct Replica {
    sharding: Sharding,
    share: InformerHandle<ConfigMap>,
    stop: CancellationToken,
    is_cut_off: Arc<AtomicBool>,
    task: AbortOnDropHandle<()>,
}

/// A server with an object for each key.
async fn server_with_maps() -> RunningServer {
    let server = server().await;
    for number in 0..KEYS {
        config_maps(&server).create(&config_map(&format!("map-{number}"))).await.unwrap();
    }
    server
}

fn options(seed: u64) -> LeaderElectionOptions {
    LeaderElectionOptions::default().seed(seed)
}

impl Replica {
    fn start(client: &Client, world: &World, number: usize, seed: u64, takes: Duration, watches: Watches) -> Self {
        let (client, is_cut_off) = (client.clone(), Arc::new(AtomicBool::new(false)));
        let cut = is_cut_off.clone();
        let client = Client::over(move |request| -> ResponseFuture {
            if !cut.load(Ordering::Relaxed) {
                return client.transport().send(request);
            }
            // Behaves like a connection whose pings are not answered.
            Box::pin(async {
                sleep(Duration::from_secs(45)).await;
                Err(TransportError::new(TransportErrorKind::Disconnected, "cut off"))
            })
        });
        let sharding =
            Sharding::new(&client, "default", "group", format!("replica_{number}"), SHARDS, options(seed)).unwrap();
        let mut manager = Manager::new(&client, ManagerOptions::default());
        let world = world.clone();
        let dice = Arc::new(Mutex::new(Dice::new(seed ^ number as u64)));
        let ours = Predicate::objects(|map: &ConfigMap| map.namespace() == "default");
        let share = match watches {
            Watches::All => manager.factory().informer::<ConfigMap>(),
            Watches::Share => sharding.informer(manager.factory(), InformerScope::default().namespace("default")),
        };
        let controller = Controller::over("maps", manager.factory(), share.clone(), ConfigMap::RESOURCE);
        let controller = controller.filter(ours).workers(4);
        let reconcile = move |map: Arc<ConfigMap>, _| {
            let (world, pause) = (world.clone(), dice.lock().unwrap().milliseconds(1 + takes.as_millis() as u64));
            async move {
                let _working = world.begin(&map.key(), number);
                sleep(pause).await;
                Ok(Outcome::requeue_after(Duration::from_secs(20)))
            }
        };
        manager.add(controller.reconciling(reconcile)).unwrap();
        manager.share(&sharding);
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = AbortOnDropHandle::new(tokio::spawn(async move { manager.run(&stopped).await.unwrap() }));
        Replica { sharding, share, stop, is_cut_off, task }
    }

    /// Kills the process: it never sends anything again.
    fn kill(self) {
        self.is_cut_off.store(true, Ordering::Relaxed);
    }

    async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

async fn play(seed: u64, watches: Watches) {
    let server = server_with_maps().await;
    let (world, mut dice) = (World::default(), Dice::new(seed));
    let takes = Duration::from_secs(6);
    let mut next = 0;
    let mut start = || {
        next += 1;
        Replica::start(&server.client(), &world, next, seed, takes, watches)
    };
    let mut replicas = vec![start()];
    for _ in 0..12 {
        match dice.roll(5) {
            0 if replicas.len() > 1 => replicas.swap_remove(dice.roll(replicas.len() as u64) as usize).kill(),
            1 if replicas.len() > 1 => replicas.swap_remove(dice.roll(replicas.len() as u64) as usize).stop().await,
            2 => {
                // Disconnected for a while, then reconnected.
                let one = &replicas[dice.roll(replicas.len() as u64) as usize];
                one.is_cut_off.store(true, Ordering::Relaxed);
                sleep(dice.milliseconds(30_000)).await;
                one.is_cut_off.store(false, Ordering::Relaxed);
            }
            _ if replicas.len() < 5 => replicas.push(start()),
            _ => {}
        }
        touch(&server, &format!("map-{}", dice.roll(KEYS as u64)), dice.roll(1000)).await;
        sleep(dice.milliseconds(25_000)).await;
    }
    let all: Vec<usize> = (0..SHARDS).collect();
    eventually("each shard has an owner", async || {
        let mut owned: Vec<usize> = replicas.iter().flat_map(|replica| replica.sharding.owned_shards()).collect();
        owned.sort_unstable();
        owned == all
    })
    .await;
    world.take_runs();
    // A disconnected replica may wait for a response that never comes, and then back off, before it
    // lists its share.
    let mut keys = BTreeSet::new();
    eventually(&format!("each key is worked on (seed {seed})"), async || {
        keys.extend(world.take_runs().into_iter().map(|(key, _)| key));
        keys.len() == KEYS
    })
    .await;
    for replica in replicas {
        replica.stop().await;
    }
}

#[test]
fn each_key_has_at_most_one_replica_and_eventually_exactly_one() {
    let number =
        |name: &str, default: u64| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let first = number("KUBEWRIGHT_SHARDING_SEED", 1);
    for seed in first..first + number("KUBEWRIGHT_SHARDING_RUNS", 4) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(play(seed, if seed % 2 == 0 { Watches::Share } else { Watches::All }));
    }
}

#[tokio::test(start_paused = true)]
async fn a_joining_replica_gets_a_share_and_a_leaving_one_returns_it_immediately() {
    let server = server_with_maps().await;
    let (world, takes) = (World::default(), Duration::from_millis(10));
    let first = Replica::start(&server.client(), &world, 1, 7, takes, Watches::All);
    eventually("the first has all", async || first.sharding.owned_shards().len() == SHARDS).await;
    sleep(seconds(1.0)).await;
    assert_eq!(world.take_runs().len(), KEYS);
    let second = Replica::start(&server.client(), &world, 2, 8, takes, Watches::All);
    eventually("the second has its share", async || {
        let (first, second) = (first.sharding.owned_shards().len(), second.sharding.owned_shards().len());
        second > 0 && first + second == SHARDS
    })
    .await;
    sleep(seconds(1.0)).await;
    // The new owner of a shard reconciles all its keys, and no other replica reconciles any.
    let mut taken: Vec<ObjectKey> =
        world.take_runs().into_iter().filter(|(_, replica)| *replica == 2).map(|(key, _)| key).collect();
    taken.sort();
    taken.dedup();
    let shards = second.sharding.owned_shards();
    let is_taken = |key: &ObjectKey| shards.contains(&second.sharding.shard_of(key));
    let mut wanted: Vec<ObjectKey> =
        (0..KEYS).map(|number| ObjectKey::namespaced("default", format!("map-{number}"))).filter(is_taken).collect();
    wanted.sort();
    assert_eq!(taken, wanted);
    // Only the owner handles an event.
    let name = wanted[0].name().clone();
    world.take_runs();
    touch(&server, &name, "new").await;
    sleep(seconds(1.0)).await;
    assert!(world.take_runs().contains(&(wanted[0].clone(), 2)));

    let began = tokio::time::Instant::now();
    second.stop().await;
    eventually("the first has all again", async || first.sharding.owned_shards().len() == SHARDS).await;
    // Well before the leases would expire.
    assert!(began.elapsed() < seconds(10.0), "{:?}", began.elapsed());
    first.stop().await;
    for lease in Api::<Lease>::namespaced(&server.client(), "default").list(&ListOptions::default()).await.unwrap() {
        let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone()).unwrap_or_default();
        assert_eq!(holder, "", "{} is not free", lease.name());
    }
}

#[tokio::test(start_paused = true)]
async fn repeatedly_acquired_shards_are_listed_as_soon_as_new_ones() {
    let server = server_with_maps().await;
    let (world, takes) = (World::default(), Duration::from_millis(10));
    let first = Replica::start(&server.client(), &world, 1, 7, takes, Watches::Share);
    for round in 2..8 {
        let other = Replica::start(&server.client(), &world, round, 7, takes, Watches::Share);
        let mut theirs = BTreeSet::new();
        eventually("another works on its share", async || {
            let runs = world.take_runs();
            theirs.extend(runs.into_iter().filter(|(_, replica)| *replica == round).map(|(key, _)| key));
            theirs.len() > 2
        })
        .await;
        other.stop().await;
        world.take_runs();
        eventually("the first has all again", async || first.sharding.owned_shards().len() == SHARDS).await;
        let began = tokio::time::Instant::now();
        eventually("the first works on what was another's", async || {
            world.take_runs().into_iter().for_each(|(key, _)| _ = theirs.remove(&key));
            theirs.is_empty()
        })
        .await;
        assert!(began.elapsed() < seconds(5.0), "{:?} in round {round}", began.elapsed());
    }
    first.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_shard_is_handed_over_only_when_the_runs_in_hand_have_ended() {
    let server = server_with_maps().await;
    let world = World::default();
    let factory = SharedInformerFactory::new(&server.client(), Default::default());
    let sharding = Sharding::new(&server.client(), "default", "group", "slow", 1, options(1)).unwrap();
    let noted = world.clone();
    let ours = Predicate::objects(|map: &ConfigMap| map.name() == "map-0");
    let slow = Controller::<ConfigMap>::new("maps", &factory).filter(ours).sharded(&sharding).reconciling(
        move |map: Arc<ConfigMap>, _| {
            let noted = noted.clone();
            async move {
                let _working = noted.begin(&map.key(), 1);
                sleep(seconds(100.0)).await;
                Ok(Outcome::Done)
            }
        },
    );
    let stop = CancellationToken::new();
    let (stop_controller, stop_sharding) = (stop.clone(), stop.clone());
    let running = AbortOnDropHandle::new(tokio::spawn(async move { slow.run(&stop_controller).await }));
    let shared = sharding.clone();
    let owning = AbortOnDropHandle::new(tokio::spawn(async move { shared.run(&stop_sharding).await }));
    eventually("it works", async || !world.working.lock().unwrap().is_empty()).await;
    let began = tokio::time::Instant::now();
    stop.cancel();
    sleep(seconds(50.0)).await;
    let leases = Api::<Lease>::namespaced(&server.client(), "default");
    let holder = async || leases.get("group-shard-0").await.unwrap().spec.unwrap().holder_identity.unwrap_or_default();
    // The lease is renewed for much longer than its duration, although no new work starts.
    assert_eq!(holder().await, "slow");
    assert!(sharding.owned_shards().is_empty());
    running.await.unwrap().unwrap();
    owning.await.unwrap().unwrap();
    assert!(began.elapsed() >= seconds(90.0));
    assert_eq!(holder().await, "");
}

#[tokio::test(start_paused = true)]
async fn a_group_needs_a_name_that_can_be_a_label() {
    let server = server().await;
    let refused = Sharding::new(&server.client(), "default", "no label!", "a", 4, options(1));
    assert_eq!(refused.err(), Some(InvalidElection::NotALabel));
    let refused = Sharding::new(&server.client(), "default", "group", "", 4, options(1));
    assert_eq!(refused.err(), Some(InvalidElection::NoIdentity));
}

/// Two replicas that watch their shares, until one stops.
async fn share_a_watch(client: &Client, is_cut: bool) {
    let maps = Api::<ConfigMap>::namespaced(client, "default");
    // A real server may have maps of an earlier run, and of others.
    let run = fastrand::u32(..);
    let names: BTreeSet<String> = (0..KEYS).map(|number| format!("map-{run:x}-{number}")).collect();
    for name in &names {
        maps.create(&config_map(name)).await.unwrap();
    }
    let (world, takes) = (World::default(), Duration::from_millis(10));
    let held = |replica: &Replica| -> BTreeSet<String> {
        let objects = replica.share.store().list();
        objects.iter().map(|map| map.name().to_owned()).filter(|name| names.contains(name)).collect()
    };
    let first = Replica::start(client, &world, 1, 7, takes, Watches::Share);
    eventually("the first has all", async || held(&first) == names).await;
    assert_eq!(first.sharding.is_cut_by_server::<ConfigMap>(), Some(is_cut));
    let second = Replica::start(client, &world, 2, 8, takes, Watches::Share);
    eventually("both have a share", async || {
        let (first, second) = (held(&first), held(&second));
        !second.is_empty() && first.is_disjoint(&second) && &first | &second == names
    })
    .await;
    let theirs = held(&second);
    eventually("the second looks at its share", async || {
        let runs = world.runs.lock().unwrap();
        let by_second = runs.iter().filter(|(_, replica)| *replica == 2).map(|(key, _)| key.name().to_string());
        by_second.filter(|name| names.contains(name)).collect::<BTreeSet<_>>() == theirs
    })
    .await;
    // Only the owner receives an event.
    world.take_runs();
    let name = theirs.first().unwrap();
    let mut map = maps.get(name).await.unwrap();
    map.data.insert("value", "new".into());
    maps.update(&map).await.unwrap();
    let key = ObjectKey::namespaced("default", name.as_str());
    eventually("it is seen", async || world.runs.lock().unwrap().contains(&(key.clone(), 2))).await;
    assert!(!world.take_runs().contains(&(key.clone(), 1)));
    second.stop().await;
    eventually("the first looks at it again", async || world.runs.lock().unwrap().contains(&(key.clone(), 1))).await;
    eventually("the first has all again", async || held(&first) == names).await;
    world.take_runs();
    first.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_share_is_cut_here_where_the_server_does_not() {
    share_a_watch(&server().await.client(), false).await;
}

#[tokio::test(start_paused = true)]
async fn a_share_is_cut_by_the_server_where_it_can() {
    let server = server().await;
    share_a_watch(&cutting(server.client()), true).await;
}

#[tokio::test(start_paused = true)]
async fn shards_added_between_two_pages_are_listed_completely() {
    let server = server_with_maps().await;
    // The first page is requested before there are shards, the second one when all are owned.
    let client = paging(server.client(), seconds(60.0));
    let replica = Replica::start(&client, &World::default(), 1, 7, Duration::from_millis(10), Watches::Share);
    eventually("it has all shards", async || replica.sharding.owned_shards().len() == SHARDS).await;
    eventually("it has all objects", async || {
        let objects = replica.share.store().list();
        objects.iter().filter(|map| map.name().starts_with("map-")).count() == KEYS
    })
    .await;
    replica.stop().await;
}

/// `KUBEWRIGHT_SHARDING_KUBECONFIG` names an API server of 1.36 with
/// `--feature-gates=ShardedListAndWatch=true`.
#[tokio::test]
#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
async fn a_share_is_cut_by_a_real_server() {
    let Ok(file) = std::env::var("KUBEWRIGHT_SHARDING_KUBECONFIG") else {
        eprintln!("SKIPPED: KUBEWRIGHT_SHARDING_KUBECONFIG names no server that shards");
        return;
    };
    let kubeconfig = Kubeconfig::read(file.as_ref()).unwrap();
    let client = Client::try_from(Config::from_kubeconfig(&kubeconfig, &Default::default()).unwrap()).unwrap();
    share_a_watch(&client, true).await;
}

/// A server that filters lists as in KEP-5866, in front of one that does not. Watches are not
/// filtered.
fn cutting(client: Client) -> Client {
    Client::over(move |mut request: http::Request<bytes::Bytes>| -> ResponseFuture {
        let query = request.uri().query().unwrap_or_default();
        let selector =
            ListOptions::from_query(&QueryParameters::parse(query)).ok().and_then(|options| options.shard_selector);
        let is_list = !query.contains("watch=");
        let Some(selector) = selector.filter(|_| is_list) else {
            return client.transport().send(request);
        };
        request.headers_mut().insert("accept", "application/json".parse().unwrap());
        Box::pin(rewritten(client.transport().send(request), move |list| {
            list["metadata"]["shardInfo"] = serde_json::json!({ "selector": &*selector });
            let is_chosen = |item: &serde_json::Value| is_chosen(&selector, item["metadata"]["uid"].as_str().unwrap());
            list["items"].as_array_mut().unwrap().retain(is_chosen);
        }))
    })
}

/// A server that returns config maps in two pages, the very first one after a delay.
fn paging(client: Client, pause: Duration) -> Client {
    let is_first = AtomicBool::new(true);
    Client::over(move |mut request: http::Request<bytes::Bytes>| -> ResponseFuture {
        let query = request.uri().query().unwrap_or_default();
        if query.contains("watch=") || !request.uri().path().ends_with("/configmaps") {
            return client.transport().send(request);
        }
        let is_second_page = query.contains("continue=");
        *request.uri_mut() = request.uri().path().parse().unwrap();
        request.headers_mut().insert("accept", "application/json".parse().unwrap());
        let (client, is_held) = (client.clone(), is_first.swap(false, Ordering::Relaxed));
        Box::pin(async move {
            if is_held {
                sleep(pause).await;
            }
            let answer = client.transport().send(request);
            let page = rewritten(answer, |list| {
                let items = list["items"].as_array_mut().unwrap();
                let second = items.split_off(items.len() / 2);
                if is_second_page {
                    *items = second;
                } else {
                    list["metadata"]["continue"] = "more".into();
                }
            });
            page.await
        })
    })
}

/// A response with another list.
async fn rewritten(
    answer: ResponseFuture,
    change: impl FnOnce(&mut serde_json::Value),
) -> Result<http::Response<Body>, TransportError> {
    let (head, mut body) = answer.await?.into_parts();
    let mut text = Vec::new();
    while let Some(chunk) = body.chunk().await? {
        text.extend_from_slice(&chunk);
    }
    let mut list: serde_json::Value = serde_json::from_slice(&text).unwrap();
    change(&mut list);
    let chunk = futures_util::stream::once(std::future::ready(Ok(bytes::Bytes::from(list.to_string()))));
    Ok(http::Response::from_parts(head, Body::new(chunk)))
}

/// Whether a shard selector matches a uid, evaluated on the text like a server.
fn is_chosen(selector: &str, uid: &str) -> bool {
    let hash = uid
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    selector.split(" || ").any(|range| {
        let bounds = range.strip_prefix("shardRange(object.metadata.uid, '0x").unwrap().strip_suffix("')").unwrap();
        let (start, end) = bounds.split_once("', '0x").unwrap();
        let number = |text| u128::from_str_radix(text, 16).unwrap();
        (number(start)..number(end)).contains(&hash.into())
    })
}
