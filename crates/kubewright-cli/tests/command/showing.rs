//! What `up` shows: the story of `--demo`, log lines, and a picture in a terminal.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kubewright_api::apps::v1::{Deployment, ReplicaSet};
use kubewright_api::core::v1::Pod;
use kubewright_client::Api;
use kubewright_core::options::ListOptions;

use crate::process::{Cluster, PATIENCE};

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_tells_what_really_happens() {
    let cluster = Cluster::start(&["up", "--demo"]);
    let lines = cluster.serving.until_it_says("The cluster stays up");
    let story: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix("demo  ")).collect();
    let steps: Vec<&str> = story.iter().filter_map(|line| line.strip_prefix("== ")).collect();
    assert_eq!(steps.len(), 6, "{steps:#?}");
    let seen: Vec<&str> = story.iter().filter_map(|line| line.trim_start().strip_prefix("-> ")).collect();
    let created = seen.iter().filter(|line| line.ends_with("is created; its owner is ReplicaSet hello"));
    assert_eq!(created.count(), 3, "one, another one, and one in place of the deleted: {seen:#?}");
    assert_eq!(seen.iter().filter(|line| line.starts_with("pod hello-") && line.ends_with("is gone")).count(), 1);
    // DP-3, DP-4: as it was promised, at every moment that was seen.
    for counts in seen.iter().filter(|line| line.starts_with("nginx:1.27: ") && line.contains("nginx:1.28: ")) {
        let numbers: Vec<u32> = counts.split([' ', ';']).filter_map(|word| word.parse().ok()).collect();
        assert!(numbers[0] + numbers[1] <= 10 && numbers[2] >= 6, "{counts}");
    }

    let client = cluster.client();
    let options = ListOptions::default();
    let web = Api::<Deployment>::namespaced(&client, "demo").get("web").await.expect("it was told of");
    assert_eq!(web.status.expect("it has rolled out").available_replicas, Some(8));
    let sets = Api::<ReplicaSet>::namespaced(&client, "demo").list(&options).await.expect("a list").items;
    assert_eq!(sets.len(), 3, "one of its own, and two of the deployment");
    let pods = Api::<Pod>::namespaced(&client, "demo").list(&options).await.expect("a list").items;
    let images: Vec<_> = pods.iter().filter_map(|pod| pod.spec.as_ref()?.containers.first()?.image.clone()).collect();
    assert_eq!(images.iter().filter(|image| *image == "nginx:1.28").count(), 8, "{images:?}");
    let (status, rest) = cluster.serving.stop();
    assert_eq!((status.code(), rest.as_str()), (Some(0), ""), "one line on standard output, and a clean end");
}

#[test]
fn lines_tell_of_caches_and_of_the_end_and_quiet_means_quiet() {
    let told = Cluster::start(&["up", "--nodes", "0"]);
    told.serving.until_it_says("caches are complete");
    told.serving.until_it_says("settled after");
    told.serving.signal("INT");
    told.serving.until_it_says("stopped; memory ");

    let quiet = Cluster::start(&["up", "--quiet"]);
    let (status, rest) = quiet.serving.stop();
    assert_eq!((status.code(), rest.as_str()), (Some(0), ""));
}

#[test]
#[allow(clippy::print_stderr)]
fn a_terminal_shows_a_picture_and_is_given_back() {
    // `script` of util-linux gives a process a terminal, and writes down what it shows.
    let is_there = Command::new("script").arg("--version").output().is_ok_and(|output| output.status.success());
    if !is_there {
        eprintln!("SKIPPED: the live view, because there is no `script` of util-linux on this machine");
        return;
    }
    let up = format!("exec {} up --listen 127.0.0.1:0", env!("CARGO_BIN_EXE_kubewright"));
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--flush", "--command", &up, "/dev/null"]);
    let mut terminal = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it is there");
    let mut keys = terminal.stdin.take().expect("piped");
    let mut out = terminal.stdout.take().expect("piped");
    let (mut shown, start, mut is_told) = (String::new(), Instant::now(), false);
    let mut piece = [0; 4096];
    while let Ok(length @ 1..) = out.read(&mut piece) {
        shown.push_str(&String::from_utf8_lossy(&piece[..length]));
        assert!(start.elapsed() < PATIENCE, "{shown}");
        let is_drawn = shown.contains("CONTROLLERS") && shown.contains("service-accounts") && shown.contains("pods");
        if is_drawn && !is_told {
            is_told = true;
            // Ctrl-C as it is typed: the terminal makes a signal of it.
            std::io::Write::write_all(&mut keys, b"\x03").expect("it listens");
        }
    }
    let status = terminal.wait().expect("it is our child");
    assert!(status.success(), "{status}: {shown}");
    assert!(shown.contains("ready https://127.0.0.1:"), "{shown}");
    let (taken, given) = (shown.find("\x1b[?1049h"), shown.rfind("\x1b[?25h\x1b[?1049l"));
    assert!(taken.is_some() && taken < given, "the terminal is as it was");
    assert!(start.elapsed() > Duration::ZERO && !shown[given.unwrap_or_default()..].contains("CONTROLLERS"));
}
