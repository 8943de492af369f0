//! The behaviour of simulated pods, by annotations and commands.

use std::time::Duration;

use kubewright_api::core::v1::{Container, Event, Node, Pod, PodSpec};
use kubewright_client::Api;
use kubewright_controllers::NodeOptions;
use kubewright_core::Str;
use kubewright_core::options::Patch;
use tokio::time::{Instant, sleep};

use crate::support::Cluster;

fn container(name: &str, script: &str) -> Container {
    let mut container = Container { name: name.into(), image: Some("busybox".into()), ..Default::default() };
    if !script.is_empty() {
        container.command = ["sh", "-c", script].map(Str::from).into();
    }
    container
}

fn pod(name: &str, policy: &str, containers: &[Container], annotations: &[(&str, &str)]) -> Pod {
    let mut pod = Pod::default();
    pod.metadata.name = Some(name.into());
    for (name, value) in annotations {
        pod.metadata.annotations.insert(*name, (*value).into());
    }
    let containers = containers.iter().cloned().collect();
    pod.spec = Some(PodSpec { containers, restart_policy: Some(policy.into()), ..Default::default() });
    pod
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

fn codes(pod: &Pod) -> Vec<Option<i32>> {
    let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter());
    statuses.map(|one| Some(one.state.as_ref()?.terminated.as_ref()?.exit_code)).collect()
}

fn ready(pod: &Pod) -> Vec<bool> {
    pod.status.iter().flat_map(|status| status.container_statuses.iter()).map(|one| one.ready).collect()
}

#[tokio::test(start_paused = true)]
async fn containers_end_when_their_commands_do() {
    let cluster = Cluster::with_nodes(1).await;
    let containers = [container("short", "sleep 5; exit 3"), container("long", "sleep 30")];
    let start = Instant::now();
    cluster.create(&pod("both", "Never", &containers, &[])).await;
    let one = cluster.until::<Pod>("both", |pod| codes(pod).contains(&Some(3))).await;
    assert_eq!((phase(&one), codes(&one)), ("Running", vec![Some(3), None]));
    assert!((5..7).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    let both = cluster.until::<Pod>("both", |pod| phase(pod) == "Failed").await;
    assert_eq!(codes(&both), [Some(3), Some(0)]);
    assert!((30..32).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn annotations_set_delays_readiness_and_restarts() {
    let cluster = Cluster::with_nodes(1).await;
    let annotations = [
        ("kubewright.dev/start-delay", "10s"),
        ("ready-delay.kubewright.dev/slow", "20s"),
        ("ready-delay.kubewright.dev/never", "never"),
        ("restarts.kubewright.dev/flaky", "1"),
        ("kubewright.dev/run-time", "soon"),
    ];
    let containers = [container("slow", ""), container("never", ""), container("flaky", "")];
    let start = Instant::now();
    cluster.create(&pod("web", "Always", &containers, &annotations)).await;
    cluster.until::<Pod>("web", |pod| phase(pod) == "Running").await;
    assert_eq!(start.elapsed().as_secs(), 10);
    let web = cluster.until::<Pod>("web", |pod| ready(pod) == [true, false, true]).await;
    assert_eq!(start.elapsed().as_secs(), 30);
    sleep(Duration::from_secs(600)).await;
    assert_eq!(cluster.get::<Pod>("web").await.status, web.status);
    assert_eq!(web.status.as_ref().unwrap().container_statuses[2].restart_count, 1);
    let is_problem = |event: &Event| event.reason.as_deref() == Some("InvalidBehaviour");
    let problem = cluster.until_event(is_problem).await.message.unwrap_or_default();
    assert!(problem.starts_with(r#"annotation kubewright.dev/run-time: "soon" is ignored"#), "{problem}");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn init_containers_run_one_after_the_other_until_they_succeed() {
    let cluster = Cluster::with_nodes(1).await;
    let mut web = pod("web", "Always", &[container("main", "")], &[("exit-code.kubewright.dev/second", "1")]);
    let first = [container("first", "sleep 5"), container("second", "sleep 5")];
    web.spec.as_mut().unwrap().init_containers = first.into();
    web.metadata.annotations.insert("restarts.kubewright.dev/second", "1".into());
    let start = Instant::now();
    cluster.create(&web).await;
    let initializing =
        cluster.until::<Pod>("web", |pod| pod.status.as_ref().is_some_and(|status| status.pod_ip.is_some())).await;
    assert_eq!(phase(&initializing), "Pending");
    let running = cluster.until::<Pod>("web", |pod| phase(pod) == "Running").await;
    assert!((15..18).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    assert_eq!(running.status.unwrap().init_container_statuses[1].restart_count, 1);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn everything_takes_longer_on_a_slow_node() {
    let cluster = Cluster::new(NodeOptions::default().count(1).start_delay(Duration::from_secs(2))).await;
    sleep(Duration::from_secs(1)).await;
    let slow = Patch::Merge(r#"{"metadata":{"annotations":{"kubewright.dev/slowdown":"5"}}}"#.into());
    Api::<Node>::all(&cluster.client).patch("kubewright-node-1", slow).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    let start = Instant::now();
    cluster.create(&pod("job", "Never", &[container("main", "sleep 4")], &[])).await;
    cluster.until::<Pod>("job", |pod| phase(pod) == "Running").await;
    assert_eq!(start.elapsed().as_secs(), 10);
    cluster.until::<Pod>("job", |pod| phase(pod) == "Succeeded").await;
    assert_eq!(start.elapsed().as_secs(), 30);
    cluster.stop().await;
}
