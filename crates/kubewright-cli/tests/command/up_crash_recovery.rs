//! A cluster that is killed at any moment and restarted reaches the desired state.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use kubewright_api::apps::v1::{Deployment, ReplicaSet};
use kubewright_api::core::v1::Pod;
use kubewright_client::{Api, Client};
use kubewright_core::Object;
use kubewright_core::meta::v1::OwnerReference;
use kubewright_core::options::{ListOptions, Patch};

use crate::process::{Cluster, PATIENCE, Scratch, eventually};
use crate::run_controllers::deployment;

/// Number of kills; `KUBEWRIGHT_KILLS=100` for a thorough run.
fn rounds() -> u32 {
    std::env::var("KUBEWRIGHT_KILLS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(5)
}

/// Acknowledged size and image of each deployment. Without a response, both states are valid.
type Wanted = BTreeMap<String, Vec<(i32, String)>>;

#[tokio::test(flavor = "multi_thread")]
async fn the_desired_state_is_reached_despite_repeated_kills() {
    let data = Scratch::new("killed-up");
    let mut wanted = Wanted::new();
    for round in 0..rounds() {
        let cluster = Cluster::start(&["up", "--quiet", "--data", data.path()]);
        let client = cluster.client();
        let answers = Arc::new(AtomicU32::new(0));
        let counted = answers.clone();
        let work = tokio::spawn(async move { ask_for(&client, round, &counted, wanted).await });
        // Some kills happen while pods start, some during a rollout, and none before the first
        // deployment.
        eventually("some answers", async || answers.load(Ordering::Relaxed) >= 4 + round % 9).await;
        tokio::time::sleep(Duration::from_millis(u64::from(round * 71 % 400))).await;
        cluster.serving.kill();
        wanted = work.await.expect("it notices that nobody answers");
    }
    let cluster = Cluster::start(&["up", "--quiet", "--data", data.path()]);
    let client = cluster.client();
    let start = Instant::now();
    let mut left = missing(&client, &wanted).await;
    let mut progress = start;
    while !left.is_empty() {
        // There may be thousands of pods: progress counts, not the total time.
        assert!(progress.elapsed() < PATIENCE, "{} of {} are missing: {left:#?}", left.len(), wanted.len());
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = missing(&client, &wanted).await;
        if now != left {
            (left, progress) = (now, Instant::now());
        }
    }
    println!("{} deployments after {:?}", wanted.len(), start.elapsed());
    // The state is stable.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(missing(&client, &wanted).await, Vec::<String>::new());
    let (status, _) = cluster.serving.stop();
    assert_eq!(status.code(), Some(0));
}

/// Creates, scales and rolls out deployments until the server is killed.
async fn ask_for(client: &Client, round: u32, answers: &AtomicU32, mut wanted: Wanted) -> Wanted {
    let api = Api::<Deployment>::namespaced(client, "default");
    for number in 0.. {
        let name = format!("web-{round}-{number}");
        let size = 2 + number % 4;
        let created = (size, "one:1".to_owned());
        match api.create(&deployment(&name, size)).await {
            Ok(_) => {
                answers.fetch_add(1, Ordering::Relaxed);
                wanted.insert(name.clone(), vec![created]);
            }
            // It may exist or not; it is not checked.
            Err(_) => return wanted,
        }
        // An older deployment is changed, possibly during its rollout.
        let older = wanted.keys().nth(usize::try_from(number).unwrap_or_default() / 2).cloned().unwrap_or(name);
        let (size, image) = (1 + number % 5, format!("one:{}", number + 2));
        let patch = format!(
            r#"{{"spec":{{"replicas":{size},"template":{{"spec":{{"containers":[{{"name":"main","image":"{image}"}}]}}}}}}}}"#
        );
        let answer = api.patch(&older, Patch::Strategic(patch.into())).await;
        let states = wanted.entry(older).or_default();
        match answer {
            Ok(_) => {
                answers.fetch_add(1, Ordering::Relaxed);
                *states = vec![(size, image)];
            }
            Err(_) => {
                states.push((size, image));
                return wanted;
            }
        }
    }
    wanted
}

/// Descriptions of unmet expectations.
async fn missing(client: &Client, wanted: &Wanted) -> Vec<String> {
    let options = ListOptions::default();
    let pods = Api::<Pod>::namespaced(client, "default").list(&options).await.expect("a list").items;
    let sets = Api::<ReplicaSet>::namespaced(client, "default").list(&options).await.expect("a list").items;
    let owner_of = |owners: &[OwnerReference]| owners.first().map(|owner| owner.name.to_string());
    let deployments = sets.iter().filter_map(|set| Some((set.name(), owner_of(&set.owner_references())?)));
    let deployment_of: HashMap<&str, String> = deployments.collect();
    let mut pods_of: HashMap<&str, Vec<(bool, String)>> = HashMap::new();
    let mut found = Vec::new();
    for pod in &pods {
        let set = owner_of(&pod.owner_references());
        if let Some(deployment) = set.and_then(|set| deployment_of.get(set.as_str())) {
            pods_of.entry(deployment).or_default().push((is_ready(pod), image_of(pod)));
        }
        if pod.is_being_deleted() {
            found.push(format!("pod {} is still going", pod.name()));
        }
    }
    for (name, states) in wanted {
        let own = pods_of.get(name.as_str()).map_or(&[][..], Vec::as_slice);
        let is_met = states.iter().any(|(size, image)| {
            i32::try_from(own.len()) == Ok(*size) && own.iter().all(|(is_ready, of_pod)| *is_ready && of_pod == image)
        });
        if !is_met {
            found.push(format!("{name} should be one of {states:?} and has {own:?}"));
        }
    }
    let addresses = pods.iter().filter_map(|pod| pod.status.as_ref()?.pod_ip.clone());
    let mut distinct = HashSet::new();
    found.extend(addresses.filter(|ip| !distinct.insert(ip.clone())).map(|ip| format!("{ip} is there twice")));
    found
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter());
    conditions.clone().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn image_of(pod: &Pod) -> String {
    let image = pod.spec.as_ref().and_then(|spec| spec.containers.first()?.image.clone());
    image.unwrap_or_default().to_string()
}
