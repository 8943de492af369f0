//! Logs.

use std::time::Duration;

use tokio::time::Instant;

use crate::{Cluster, get, now};

const URL: &str = "https://node:10250/containerLogs/ns/web/main";
const TICKING: &str = r#","command":["sh","-c","i=0; while true; do echo $i; i=$((i+1)); sleep 1; done"]"#;

/// Waits for the first part of a second, since the times of containers have no fractions.
///
/// Repeated, because the system's clock may overtake a paused one on a loaded machine.
async fn next_second() {
    loop {
        let fraction = kubewright_client::clock::now_micros().as_unix_micros().rem_euclid(1_000_000);
        if fraction < 200_000 {
            return;
        }
        tokio::time::sleep(Duration::from_micros(1_000_000 - fraction as u64)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn options_select_lines() {
    next_second().await;
    let cluster = Cluster::default();
    let network = cluster.run("web", "{}", TICKING);
    tokio::time::sleep(Duration::from_millis(4500)).await;
    let log = async |query: &str| get(&network, &format!("{URL}?{query}")).await.unwrap();
    assert_eq!(log("").await, (200, "0\n1\n2\n3\n4\n".to_owned()));
    assert_eq!(log("tailLines=2").await.1, "3\n4\n");
    assert_eq!(log("tailLines=0").await.1, "");
    assert_eq!(log("limitBytes=3").await.1, "0\n1");
    assert_eq!(log("sinceSeconds=1&stream=All").await.1, "3\n4\n");
    assert_eq!(log("stream=Stderr").await.1, "");
    let stamped = log("tailLines=1&timestamps=true").await.1;
    let (time, line) = stamped.split_once(' ').unwrap();
    assert!(time.ends_with(".000000000Z") && line == "4\n", "{stamped}");
}

#[tokio::test(start_paused = true)]
async fn a_follower_gets_lines_as_they_come_until_the_container_ends() {
    next_second().await;
    let cluster = Cluster::default();
    let network = cluster.run("web", "{}", TICKING);
    let start = Instant::now();
    let started = now();
    let ending = async {
        tokio::time::sleep(Duration::from_millis(90_500)).await;
        let ended = now();
        let state = format!(r#"{{"terminated":{{"exitCode":143,"startedAt":"{started}","finishedAt":"{ended}"}}}}"#);
        cluster.set("web", "{}", TICKING, &state, 0);
    };
    let url = format!("{URL}?follow=true");
    let (log, ()) = tokio::join!(get(&network, &url), ending);
    let lines = log.unwrap().1.lines().count();
    assert!((91..=92).contains(&lines), "{lines}");
    assert!((90..92).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
}

#[tokio::test]
async fn errors_are_those_of_a_kubelet() {
    let cluster = Cluster::default();
    let network = cluster.run("web", "{}", "");
    let log = async |query: &str| get(&network, &format!("{URL}?{query}")).await.unwrap();
    let missing = r#"previous terminated container "main" in pod "web" not found"#;
    assert_eq!(log("previous=true").await, (400, missing.to_owned()));
    cluster.set("web", "{}", "", r#"{"waiting":{"reason":"PodInitializing"}}"#, 0);
    let waiting = r#"container "main" in pod "web" is waiting to start: PodInitializing"#;
    assert_eq!(log("").await, (400, waiting.to_owned()));
    let other = get(&network, "https://node:10250/containerLogs/ns/web/other").await.unwrap();
    assert_eq!(other, (404, r#"container "other" not found in pod "web""#.to_owned()));
    let gone = get(&network, "https://node:10250/containerLogs/ns/gone/main").await.unwrap();
    assert_eq!(gone, (404, r#"pod "gone" does not exist"#.to_owned()));
}
