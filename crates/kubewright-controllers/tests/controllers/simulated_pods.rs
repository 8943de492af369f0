//! The behaviour of simulated pods, by annotations and commands.

use std::time::Duration;

use kubewright_api::core::v1::{Container, Event, ExecAction, Node, Pod, PodSpec, Probe};
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

/// The reason for which a container of the pod waits.
fn waits_for(pod: &Pod, container: usize) -> String {
    let status = pod.status.iter().flat_map(|status| status.container_statuses.iter()).nth(container);
    let waiting = status.and_then(|status| status.state.as_ref()?.waiting.as_ref());
    waiting.and_then(|waiting| waiting.reason.clone()).unwrap_or_default().to_string()
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_an_image_that_cannot_be_pulled() {
    let cluster = Cluster::with_nodes(1).await;
    let mut web = pod("web", "Always", &[container("main", ""), container("proxy", "")], &[]);
    web.spec.as_mut().unwrap().containers[0].image = Some("registry.invalid/web:1".into());
    let start = Instant::now();
    cluster.create(&web).await;
    let failed = cluster.until::<Pod>("web", |pod| waits_for(pod, 0) == "ErrImagePull").await;
    assert_eq!((phase(&failed), waits_for(&failed, 1).as_str()), ("Pending", ""));
    let waiting = cluster.until::<Pod>("web", |pod| waits_for(pod, 0) == "ImagePullBackOff").await;
    let state = waiting.status.unwrap().container_statuses[0].state.clone().unwrap();
    let message = state.waiting.unwrap().message.clone().unwrap();
    let begin =
        "Back-off pulling image \"registry.invalid/web:1\": ErrImagePull: rpc error: code = Unknown desc = failed";
    assert!(message.starts_with(begin), "{message}");
    let is_report = |event: &Event| event.message.as_deref() == Some("Error: ImagePullBackOff");
    let event = cluster.until_event(is_report).await;
    assert_eq!(event.involved_object.field_path.as_deref(), Some("spec.containers{main}"));
    // The other container does not wait for it.
    cluster.until::<Pod>("web", |pod| ready(pod) == [false, true]).await;
    // Attempts follow after 10 s, and 20 s later.
    cluster.until::<Pod>("web", |pod| waits_for(pod, 0) == "ErrImagePull").await;
    assert!((10..14).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    cluster.until::<Pod>("web", |pod| waits_for(pod, 0) == "ImagePullBackOff").await;
    cluster.until::<Pod>("web", |pod| waits_for(pod, 0) == "ErrImagePull").await;
    assert!((30..36).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    // Another image is pulled at once.
    let image = Patch::Strategic(r#"{"spec":{"containers":[{"name":"main","image":"web:1"}]}}"#.into());
    let fixed = Instant::now();
    Api::<Pod>::namespaced(&cluster.client, "default").patch("web", image).await.unwrap();
    let running = cluster.until::<Pod>("web", |pod| ready(pod) == [true, true]).await;
    assert_eq!(phase(&running), "Running");
    assert!(fixed.elapsed() < Duration::from_secs(3), "{:?}", fixed.elapsed());
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_init_container_without_an_image_holds_the_pod() {
    let cluster = Cluster::with_nodes(1).await;
    let mut web = pod("web", "Always", &[container("main", "")], &[("image-pull.kubewright.dev/first", "denied")]);
    web.spec.as_mut().unwrap().init_containers = [container("first", "true"), container("second", "true")].into();
    cluster.create(&web).await;
    let is_waiting = |pod: &Pod| {
        let first = pod.status.iter().flat_map(|status| status.init_container_statuses.iter()).next();
        let waiting = first.and_then(|status| status.state.as_ref()?.waiting.clone());
        waiting.and_then(|waiting| waiting.reason.clone()).as_deref() == Some("ImagePullBackOff")
    };
    let waiting = cluster.until::<Pod>("web", is_waiting).await;
    assert_eq!((phase(&waiting), waits_for(&waiting, 0).as_str()), ("Pending", "PodInitializing"));
    let allowed = Patch::Merge(r#"{"metadata":{"annotations":{"image-pull.kubewright.dev/first":"ok"}}}"#.into());
    Api::<Pod>::namespaced(&cluster.client, "default").patch("web", allowed).await.unwrap();
    cluster.until::<Pod>("web", |pod| phase(pod) == "Running" && ready(pod) == [true]).await;
    cluster.stop().await;
}

fn exec_probe(command: &str, initial_delay: i32) -> Probe {
    let exec = ExecAction { command: ["sh", "-c", command].map(Str::from).into() };
    Probe {
        exec: Some(exec.into()),
        period_seconds: Some(1),
        failure_threshold: Some(3),
        initial_delay_seconds: Some(initial_delay),
        ..Default::default()
    }
}

fn with_probes(name: &str, image: &str, script: &str, readiness: &str, liveness: &str) -> Pod {
    let probe = |command| Probe { failure_threshold: Some(2), ..exec_probe(command, 0) }.into();
    let mut container = container("main", script);
    container.image = Some(image.into());
    if !readiness.is_empty() {
        container.readiness_probe = Some(probe(readiness));
    }
    if !liveness.is_empty() {
        container.liveness_probe = Some(probe(liveness));
    }
    pod(name, "Always", &[container], &[])
}

#[tokio::test(start_paused = true)]
async fn probes_see_what_the_program_does_to_its_files() {
    let cluster = Cluster::with_nodes(1).await;
    let script = "sleep 5; touch /tmp/ready; sleep 10; rm /tmp/ready; sleep 600";
    let start = Instant::now();
    cluster.create(&with_probes("web", "busybox", script, "cat /tmp/ready", "")).await;
    cluster.until::<Pod>("web", |pod| phase(pod) == "Running").await;
    cluster.until::<Pod>("web", |pod| ready(pod) == [true]).await;
    assert!((5..9).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    cluster.until::<Pod>("web", |pod| ready(pod) == [false]).await;
    assert!((15..20).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    let is_report = |event: &Event| event.reason.as_deref() == Some("Unhealthy");
    let message = cluster.until_event(is_report).await.message.unwrap_or_default();
    assert!(message.starts_with("Readiness probe failed: cat: can't open '/tmp/ready'"), "{message}");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_container_that_is_not_alive_is_restarted() {
    let cluster = Cluster::with_nodes(1).await;
    let script = "touch /tmp/healthy; sleep 30; rm -f /tmp/healthy; sleep 600";
    let start = Instant::now();
    cluster.create(&with_probes("web", "busybox", script, "", "cat /tmp/healthy")).await;
    let restarts = |pod: &Pod| {
        let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter());
        statuses.map(|status| status.restart_count).sum::<i32>()
    };
    let restarted = cluster.until::<Pod>("web", |pod| restarts(pod) == 1).await;
    assert!((30..36).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    let last = restarted.status.unwrap().container_statuses[0].last_state.clone().unwrap();
    assert_eq!(last.terminated.unwrap().exit_code, 137);
    let is_report = |event: &Event| event.reason.as_deref() == Some("Killing");
    let message = cluster.until_event(is_report).await.message.unwrap_or_default();
    assert_eq!(message, "Container main failed liveness probe, will be restarted");
    cluster.stop().await;
}

fn started(pod: &Pod) -> Vec<Option<bool>> {
    pod.status.iter().flat_map(|status| status.container_statuses.iter()).map(|one| one.started).collect()
}

#[tokio::test(start_paused = true)]
async fn a_readiness_probe_waits_for_its_initial_delay_and_its_successes() {
    let cluster = Cluster::with_nodes(1).await;
    let mut web = container("main", "sleep 600");
    web.readiness_probe = Some(Probe { success_threshold: Some(4), ..exec_probe("true", 20) }.into());
    let start = Instant::now();
    cluster.create(&pod("web", "Always", &[web], &[])).await;
    let running = cluster.until::<Pod>("web", |pod| phase(pod) == "Running").await;
    assert_eq!((ready(&running), started(&running)), (vec![false], vec![Some(true)]));
    cluster.until::<Pod>("web", |pod| ready(pod) == [true]).await;
    assert!((22..25).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn other_probes_wait_for_the_startup_probe() {
    let cluster = Cluster::with_nodes(1).await;
    let mut web = container("main", "sleep 10; touch /tmp/started; sleep 600");
    web.startup_probe = Some(Probe { failure_threshold: Some(30), ..exec_probe("cat /tmp/started", 0) }.into());
    web.readiness_probe = Some(exec_probe("true", 0).into());
    // Without a startup probe, this one would restart the container after two seconds.
    web.liveness_probe = Some(exec_probe("cat /tmp/started", 0).into());
    let start = Instant::now();
    cluster.create(&pod("web", "Always", &[web], &[])).await;
    let running = cluster.until::<Pod>("web", |pod| phase(pod) == "Running").await;
    assert_eq!((ready(&running), started(&running)), (vec![false], vec![Some(false)]));
    let ready = cluster.until::<Pod>("web", |pod| ready(pod) == [true]).await;
    assert!((10..13).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    assert_eq!(started(&ready), [Some(true)]);
    assert_eq!(ready.status.unwrap().container_statuses[0].restart_count, 0);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_container_that_does_not_start_is_restarted() {
    let cluster = Cluster::with_nodes(1).await;
    let mut web = container("main", "sleep 600");
    web.startup_probe = Some(exec_probe("cat /tmp/started", 5).into());
    let start = Instant::now();
    cluster.create(&pod("web", "Always", &[web], &[])).await;
    let restarts = |pod: &Pod| pod.status.as_ref().map_or(0, |status| status.container_statuses[0].restart_count);
    let is_restarted = |pod: &Pod| phase(pod) == "Running" && restarts(pod) == 1;
    let restarted = cluster.until::<Pod>("web", is_restarted).await;
    assert!((7..9).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    assert_eq!((ready(&restarted), started(&restarted)), (vec![false], vec![Some(false)]));
    let is_report = |event: &Event| event.reason.as_deref() == Some("Killing");
    let message = cluster.until_event(is_report).await.message.unwrap_or_default();
    assert_eq!(message, "Container main failed startup probe, will be restarted");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_next_init_container_waits_until_a_sidecar_has_started() {
    let cluster = Cluster::with_nodes(1).await;
    let mut proxy = container("proxy", "sleep 8; touch /tmp/started; sleep 600");
    proxy.restart_policy = Some("Always".into());
    proxy.startup_probe = Some(Probe { failure_threshold: Some(30), ..exec_probe("cat /tmp/started", 0) }.into());
    let mut web = pod("web", "Always", &[container("main", "sleep 600")], &[]);
    let spec = web.spec.as_mut().unwrap();
    spec.init_containers = [proxy, container("last", "true")].into_iter().collect();
    let start = Instant::now();
    cluster.create(&web).await;
    cluster.until::<Pod>("web", |pod| phase(pod) == "Running" && ready(pod) == [true]).await;
    assert!((8..11).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
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
