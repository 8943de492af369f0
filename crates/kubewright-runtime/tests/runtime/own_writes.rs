//! Read-your-writes consistency of reconciles.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kubewright_api::core::v1::{ConfigMap, Secret};
use kubewright_apiserver::{Fault, RunningServer};
use kubewright_core::options::DeleteOptions;
use kubewright_core::{Object, ObjectKey, Selector};
use kubewright_runtime::{Context, Finalizing, Freshness, Outcome, finalize};
use tokio::time::{Instant, sleep};

use crate::support::{Journal, Running, config_map, config_maps, controller, eventually, seconds, server, touch};

/// Delays the caches by this duration.
fn hold_back_watches(server: &RunningServer, time: Duration) {
    server.faults().inject(Fault::delay(time).verb("watch"));
    server.faults().cut_watches();
}

#[tokio::test(start_paused = true)]
async fn a_key_waits_for_its_own_writes_and_others_do_not() {
    let server = server().await;
    for name in ["a", "b"] {
        config_maps(&server).create(&config_map(name)).await.unwrap();
    }
    let journal = Journal::default();
    let noted = journal.clone();
    let running = Running::start(controller(&server).reconciling(move |map, context: Context| {
        let journal = noted.clone();
        async move {
            let value = map.data.get("value").map(|value| value.to_string()).unwrap_or_default();
            journal.note(format!("{} {value:?}", map.name()));
            // Reconciled only on request, so that the test decides when.
            if context.reasons().iter().any(|reason| reason.source == "go") {
                let mut map = (*map).clone();
                map.data.insert("value", "done".into());
                context.api::<ConfigMap>("default").update(&map).await?;
                return Ok(Outcome::requeue_after(Duration::ZERO));
            }
            Ok(Outcome::Done)
        }
    }));
    let running = running.working().await;
    running.idle().await;
    touch(&server, "a", "wanted").await;
    running.idle().await;
    journal.take();
    // From now on the cache is ten seconds behind.
    hold_back_watches(&server, seconds(10.0));
    let start = Instant::now();
    running.handle.request(ObjectKey::namespaced("default", "a"), "go");
    sleep(seconds(0.1)).await;
    assert_eq!(journal.take(), ["a \"wanted\""]);
    for _ in 0..20 {
        running.handle.request(ObjectKey::namespaced("default", "a"), "test");
        running.handle.request(ObjectKey::namespaced("default", "b"), "test");
        sleep(seconds(0.2)).await;
    }
    let lines = journal.take();
    assert_eq!(lines.iter().filter(|line| line.starts_with("b")).count(), 20);
    assert_eq!(lines.iter().filter(|line| line.starts_with("a")).count(), 0, "{lines:?}");
    assert!(running.handle.health().active == 0);
    eventually("the write is seen", async || journal.take().contains(&"a \"done\"".to_owned())).await;
    assert!(start.elapsed() < seconds(20.0));
}

#[tokio::test(start_paused = true)]
async fn reads_wait_for_the_requested_freshness() {
    let server = server().await;
    config_maps(&server).create(&config_map("a")).await.unwrap();
    let journal = Journal::default();
    let noted = journal.clone();
    let running = Running::start(controller(&server).owns::<Secret>().reconciling(move |map, context: Context| {
        let journal = noted.clone();
        async move {
            if map.name() != "a" || map.data.get("value").is_none() {
                return Ok(Outcome::Done);
            }
            let secrets = context.api::<Secret>("default");
            let mut secret = Secret::default();
            secret.set_name("mine");
            secret.set_namespace("default");
            // Written without tracking, then recorded.
            let made = secrets.untracked().create(&secret).await?;
            secrets.record("mine", made.resource_version());
            let start = Instant::now();
            for freshness in [Freshness::Cached, Freshness::Live, Freshness::AtLeastMyWrites, Freshness::Cached] {
                let found = secrets.get("mine", freshness).await?.is_some();
                journal.note(format!("{freshness:?} {found} after {}", start.elapsed().as_secs()));
            }
            let all = Selector::everything();
            for freshness in [Freshness::Cached, Freshness::AtLeastMyWrites, Freshness::Live] {
                let names: Vec<String> =
                    secrets.list(&all, freshness).await?.iter().map(|secret| secret.name().to_owned()).collect();
                journal.note(format!("{names:?}"));
            }
            // A dry run is not waited for.
            secrets.delete_with("mine", &DeleteOptions::default().dry_run()).await?;
            let kept = secrets.get("mine", Freshness::AtLeastMyWrites).await?.is_some();
            journal.note(format!("kept {kept}"));
            secrets.delete("mine").await?;
            let left = secrets.list(&all, Freshness::AtLeastMyWrites).await?.len();
            journal.note(format!("{left} left"));
            let gone = secrets.get("mine", Freshness::AtLeastMyWrites).await?.is_none();
            journal.note(format!("gone {gone}"));
            Ok(Outcome::Done)
        }
    }));
    let running = running.working().await;
    running.idle().await;
    // The watch of secrets alone is slow.
    let faults = server.faults();
    faults.inject(Fault::delay(seconds(3.0)).verb("watch").resource("secrets"));
    faults.cut_watches();
    sleep(seconds(0.1)).await;
    touch(&server, "a", "go").await;
    eventually("it has run", async || journal.len() == 10).await;
    let lines = journal.take();
    assert_eq!(lines[0], "Cached false after 0");
    assert_eq!(lines[1], "Live true after 0");
    assert!(
        lines[2].starts_with("AtLeastMyWrites true after ") && lines[2] != "AtLeastMyWrites true after 0",
        "{lines:?}"
    );
    assert!(lines[3].starts_with("Cached true"));
    assert_eq!(lines[4..], ["[\"mine\"]", "[\"mine\"]", "[\"mine\"]", "kept true", "0 left", "gone true"]);
    drop(running);
}

/// Each reconcile writes the next number, and must read the previous one.
#[tokio::test]
async fn a_reconcile_after_an_own_write_never_sees_the_older_object() {
    let tries = std::env::var("KUBEWRIGHT_OWN_WRITES").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000usize);
    let server = server().await;
    for number in 0..4 {
        config_maps(&server).create(&config_map(&format!("map-{number}"))).await.unwrap();
    }
    let (done, stale) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let written = Arc::new(Mutex::new(HashMap::<String, usize>::new()));
    let counted = (done.clone(), stale.clone());
    let running = Running::start(controller(&server).workers(4).reconciling(move |map, context: Context| {
        let ((done, stale), written) = (counted.clone(), written.clone());
        async move {
            if done.load(Ordering::Relaxed) >= tries {
                return Ok(Outcome::Done);
            }
            let value: usize = map.data.get("value").and_then(|value| value.parse().ok()).unwrap_or(0);
            let last = written.lock().unwrap().get(map.name()).copied().unwrap_or(0);
            if value < last {
                stale.fetch_add(1, Ordering::Relaxed);
                return Ok(Outcome::requeue_after(Duration::ZERO));
            }
            let mut next = (*map).clone();
            next.data.insert("value", (value + 1).to_string().into());
            context.api::<ConfigMap>("default").update(&next).await?;
            written.lock().unwrap().insert(map.name().to_owned(), value + 1);
            done.fetch_add(1, Ordering::Relaxed);
            Ok(Outcome::requeue_after(Duration::ZERO))
        }
    }));
    while done.load(Ordering::Relaxed) < tries {
        sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(stale.load(Ordering::Relaxed), 0);
    running.stopped().await.unwrap();
}

/// Cleans up once and removes the finalizer by `finalize`, or by hand, while the cache falls
/// behind.
async fn cleanups(by_hand: bool) -> Vec<String> {
    const FINALIZER: &str = "example.com/cleanup";
    let server = Arc::new(server().await);
    let mut map = config_map("a");
    map.metadata.finalizers = [FINALIZER.into()].into();
    config_maps(&server).create(&map).await.unwrap();
    let journal = Journal::default();
    let (noted, faulty) = (journal.clone(), server.clone());
    let running = Running::start(controller(&server).reconciling(move |map, context: Context| {
        let (journal, server) = (noted.clone(), faulty.clone());
        async move {
            let api = context.api::<ConfigMap>("default");
            let clean_up = || {
                journal.note("cleanup");
                hold_back_watches(&server, seconds(10.0));
            };
            if by_hand && map.is_being_deleted() {
                clean_up();
                let mut map = (*map).clone();
                map.metadata.finalizers = Default::default();
                api.update(&map).await?;
                return Ok(Outcome::Done);
            }
            let reconcile = |what| async move {
                if matches!(what, Finalizing::Cleanup(_)) {
                    clean_up();
                }
                Ok(Outcome::Done)
            };
            finalize(&api, FINALIZER, map, reconcile).await
        }
    }));
    let running = running.working().await;
    running.idle().await;
    config_maps(&server).delete("a").await.unwrap();
    eventually("it is gone", async || config_maps(&server).get_opt("a").await.unwrap().is_none()).await;
    // The owned object is deleted and the key requested, while the cache still has the object.
    for _ in 0..20 {
        running.handle.request(ObjectKey::namespaced("default", "a"), "test");
        sleep(seconds(0.2)).await;
    }
    sleep(seconds(30.0)).await;
    running.idle().await;
    journal.take()
}

#[tokio::test(start_paused = true)]
async fn an_object_without_finalizers_is_not_cleaned_up_again() {
    assert_eq!(cleanups(false).await, ["cleanup"]);
    assert_eq!(cleanups(true).await, ["cleanup"]);
}
