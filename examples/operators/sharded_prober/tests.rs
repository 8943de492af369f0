//! Replicas that join, stop and lose their connection, and a network that sees who probes what.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kubewright::api::coordination::v1::Lease;
use kubewright::options::ListOptions;
use kubewright::runtime::custom::CustomResource;
use kubewright::runtime::testing::{RunningManager, TestCluster};
use kubewright::{Api, condition};
use tokio::time::{Instant, sleep};

use super::{Endpoint, Probe, manager};
use crate::support::{Audit, assert_written, cluster, operator};

const RBAC: &str = include_str!("rbac.yaml");
const CRD: &str = include_str!("crd.yaml");

/// The endpoints, as an observer outside of all replicas sees them.
#[derive(Clone, Default)]
struct Network(Arc<Mutex<NetworkState>>);

#[derive(Default)]
struct NetworkState {
    /// The replica that probes an endpoint now.
    probing: HashMap<String, &'static str>,
    /// The last replica that has probed an endpoint, and the number of endpoints of each.
    probed_by: HashMap<String, &'static str>,
    shares: HashMap<&'static str, usize>,
    down: HashSet<String>,
    /// Endpoints that were probed by two at a time.
    overlaps: Vec<String>,
}

impl Network {
    fn probe(&self, replica: &'static str) -> Probe {
        let network = self.clone();
        Arc::new(move |address| {
            let network = network.clone();
            Box::pin(async move {
                network.change(|state| {
                    if let Some(other) = state.probing.insert(address.clone(), replica) {
                        state.overlaps.push(format!("{address} by {other} and {replica}"));
                    }
                    if let Some(before) = state.probed_by.insert(address.clone(), replica) {
                        *state.shares.entry(before).or_default() -= 1;
                    }
                    *state.shares.entry(replica).or_default() += 1;
                });
                sleep(Duration::from_millis(20)).await;
                network.change(|state| {
                    state.probing.remove(&address);
                    !state.down.contains(&address)
                })
            })
        })
    }

    fn change<R>(&self, change: impl FnOnce(&mut NetworkState) -> R) -> R {
        change(&mut self.0.lock().expect("no panic"))
    }

    /// Waits until all endpoints were last probed by one of these replicas, and returns how many by
    /// each. All the time, no endpoint is probed by two.
    async fn shares(&self, endpoints: usize, replicas: &[&str]) -> HashMap<&'static str, usize> {
        for _ in 0..600 {
            sleep(Duration::from_millis(500)).await;
            let mut shares = self.change(|state| {
                assert_eq!(state.overlaps, [""; 0]);
                state.shares.clone()
            });
            shares.retain(|_, share| *share > 0);
            let is_complete = shares.values().sum::<usize>() == endpoints;
            if is_complete && shares.len() == replicas.len() && replicas.iter().all(|one| shares.contains_key(one)) {
                return shares;
            }
        }
        panic!("not all of {endpoints} endpoints are probed by {replicas:?}");
    }
}

/// The manifests of this many endpoints.
fn endpoints(count: usize, interval: u32) -> String {
    let mut text = String::new();
    for number in 0..count {
        let spec = format!("{{address: 'endpoint-{number}:80', intervalSeconds: {interval}}}");
        let head = format!("apiVersion: probe.example.com/v1, kind: Endpoint, metadata: {{name: endpoint-{number}}}");
        writeln!(text, "---\n{{{head}, spec: {spec}}}").expect("memory");
    }
    text
}

fn start(cluster: &TestCluster, network: &Network, replica: &'static str) -> (RunningManager, Audit) {
    let (client, audit) = operator(cluster, "sharded-prober");
    (cluster.run(manager(&client, replica, network.probe(replica)).expect("valid options")), audit)
}

#[test]
fn the_manifest_is_the_definition_of_the_type() {
    assert_written("sharded_prober/crd.yaml", CRD, &Endpoint::definition());
}

#[tokio::test(start_paused = true)]
async fn replicas_share_50000_endpoints_and_take_over_those_of_others() {
    const ENDPOINTS: usize = 50_000;
    let cluster = cluster(&[RBAC, CRD, &endpoints(ENDPOINTS, 86_400)]).await;
    let network = Network::default();
    let (one, _) = start(&cluster, &network, "one");
    let (two, _) = start(&cluster, &network, "two");
    let (three, line_of_three) = start(&cluster, &network, "three");
    let shares = network.shares(ENDPOINTS, &["one", "two", "three"]).await;
    assert!(shares.values().all(|share| *share > ENDPOINTS / 10), "{shares:?}");

    // A replica that stops hands over before its leases would expire.
    let began = Instant::now();
    two.stop().await.expect("it stops in order");
    network.shares(ENDPOINTS, &["one", "three"]).await;
    assert!(began.elapsed() < Duration::from_secs(12), "{:?}", began.elapsed());

    // One that is cut off stops its probes, and its leases expire.
    line_of_three.cut();
    network.shares(ENDPOINTS, &["one"]).await;
    one.stop().await.expect("it stops in order");
    drop(three);
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_recorded_with_exactly_these_permissions() {
    let cluster = cluster(&[RBAC, CRD, &endpoints(20, 10)]).await;
    let network = Network::default();
    let (one, audit) = start(&cluster, &network, "one");
    let (two, line_of_two) = start(&cluster, &network, "two");
    network.shares(20, &["one", "two"]).await;
    let endpoints = Api::<Endpoint>::namespaced(&cluster.client(), "default");
    assert_eq!(endpoints.get("endpoint-7").await.expect("it is there").status, None);
    let has_condition = |status: &'static str| {
        move |endpoint: &Endpoint| {
            let conditions = endpoint.status.as_ref().map(|status| &status.conditions[..]).unwrap_or_default();
            condition::is_present_and_equal(conditions, "Up", status)
        }
    };
    // The second replica has gone, so the first sees all changes.
    line_of_two.cut();
    network.shares(20, &["one"]).await;
    for status in ["False", "True", "False"] {
        network.change(|state| {
            state.down.clear();
            if status == "False" {
                state.down.insert("endpoint-7:80".to_owned());
            }
        });
        cluster.eventually("default", "endpoint-7", has_condition(status)).await;
    }
    assert_eq!(endpoints.get("endpoint-8").await.expect("it is there").status, None);

    // The lease of the lost replica is deleted at last.
    let leases = Api::<Lease>::namespaced(&cluster.client(), "sharded-prober");
    let count = async || leases.list(&ListOptions::default()).await.expect("it answers").items.len();
    let before = count().await;
    while count().await == before {
        sleep(Duration::from_secs(10)).await;
    }
    assert_eq!(count().await, before - 1);
    one.stop().await.expect("it stops in order");
    drop(two);
    audit.assert_exact(RBAC);
}
