//! Assertions of a test cluster that wait, and their messages.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;
use std::time::Duration;

use kubewright_api::core::v1::ConfigMap;
use kubewright_client::{Api, clock};
use kubewright_core::options::Patch;
use kubewright_core::{Object, json};
use kubewright_runtime::events::EventApi;
use kubewright_runtime::testing::TestCluster;
use kubewright_runtime::{Context, Outcome, Predicate};
use tokio::time::{Instant, sleep};

use crate::support::config_map;

/// A controller that copies `data.wanted` to `data.observed` and records an event.
async fn running(cluster: &TestCluster) -> kubewright_runtime::testing::RunningManager {
    let mut manager = cluster.manager();
    let events = manager.recorder("copier", EventApi::Core);
    let controller = manager.controller::<ConfigMap>("copier");
    let controller = controller.filter(Predicate::objects(|map: &ConfigMap| map.data.contains_key("wanted")));
    let controller = controller.reconciling_with(events, |map, context: Context, events| async move {
        let wanted = map.data.get("wanted").cloned().unwrap_or_default();
        if map.data.get("observed") != Some(&wanted) {
            let mut map = (*map).clone();
            map.data.insert("observed", wanted);
            let map = context.api::<ConfigMap>(map.namespace()).update(&map).await?;
            events.normal(&map, "Copied", "copied once");
        }
        Ok(Outcome::Done)
    });
    manager.add(controller).unwrap();
    cluster.run(manager)
}

#[tokio::test(start_paused = true)]
async fn a_failed_assertion_prints_the_history_of_the_object() {
    let cluster = TestCluster::start().await.unwrap();
    let running = running(&cluster).await;
    let maps = Api::<ConfigMap>::namespaced(&cluster.client(), "default");
    let mut map = config_map("a");
    map.data.insert("wanted", "1".into());
    maps.create(&map).await.unwrap();
    let observed =
        |value: &'static str| move |map: &ConfigMap| map.data.get("observed").is_some_and(|seen| seen == value);
    let found: ConfigMap = cluster.eventually("default", "a", observed("1")).await;
    assert_eq!(found.data.get("wanted").map(|wanted| &**wanted), Some("1"));
    maps.patch("a", Patch::merge(json!({"data": {"wanted": "2"}}))).await.unwrap();
    cluster.eventually("default", "a", observed("2")).await;
    running.until_idle().await;
    sleep(Duration::from_secs(5)).await;

    let began = Instant::now();
    let (_cluster, message) = message_of(cluster, async |cluster| {
        cluster.eventually("default", "a", observed("3")).await;
    })
    .await;
    assert!(began.elapsed() >= Duration::from_secs(60));
    let lines: Vec<&str> = message.lines().collect();
    assert!(lines[0].starts_with("ConfigMap default/a does not satisfy the condition, at "), "{message}");
    assert!(lines[0].contains("assertions.rs:"), "{message}");
    let text = |line: &str| line.split_once(": ").map_or(String::new(), |(_, text)| text.to_owned());
    let versions: Vec<String> =
        lines.iter().filter(|line| line.starts_with("  version")).map(|line| text(line)).collect();
    let wanted = [
        "created by test (Update)",
        "updated by manager (Update)",
        "updated by test (Update)",
        "updated by manager (Update)",
    ];
    assert_eq!(versions, wanted, "{message}");
    for line in ["    ~ data.wanted: \"1\" → \"2\"", "    + data.observed: \"1\"", "    ~ data.observed: \"1\" → \"2\""]
    {
        assert!(lines.contains(&line), "{line} is not in\n{message}");
    }
    assert!(message.contains("event: Normal Copied: copied once"), "{message}");
    assert!(!message.contains("managedFields"), "{message}");
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_object_that_never_existed_and_one_that_stays_are_told_apart() {
    let cluster = TestCluster::start().await.unwrap().patience(Duration::from_secs(1));
    Api::<ConfigMap>::namespaced(&cluster.client(), "default").create(&config_map("a")).await.unwrap();
    cluster.eventually_gone::<ConfigMap>("default", "b").await;
    let (cluster, message) = message_of(cluster, async |cluster| {
        cluster.eventually::<ConfigMap>("default", "b", |_| true).await;
    })
    .await;
    assert!(message.contains("it has never existed"), "{message}");
    let (cluster, message) = message_of(cluster, async |cluster| {
        cluster.eventually_gone::<ConfigMap>("default", "a").await;
    })
    .await;
    assert!(message.starts_with("ConfigMap default/a still exists"), "{message}");
    // It is deleted after a while.
    let maps = Api::<ConfigMap>::namespaced(&cluster.client(), "default");
    let deleted = tokio::spawn(async move {
        sleep(Duration::from_secs(30)).await;
        maps.delete("a").await.unwrap();
    });
    cluster.consistently::<ConfigMap>("default", "a", Duration::from_secs(20), |map| map.is_some()).await;
    let (cluster, message) = message_of(cluster, async |cluster| {
        cluster.consistently::<ConfigMap>("default", "a", Duration::from_secs(20), |map| map.is_some()).await;
    })
    .await;
    assert!(message.contains("no longer satisfies the condition") && message.contains("deleted by"), "{message}");
    deleted.await.unwrap();
    cluster.eventually_gone::<ConfigMap>("default", "a").await;
}

/// The message with which an assertion panics.
async fn message_of(cluster: TestCluster, assertion: impl AsyncFn(&TestCluster)) -> (TestCluster, String) {
    let mut running = Box::pin(assertion(&cluster));
    let panic = poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(context))) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(())) => panic!("the assertion holds"),
        Err(panic) => Poll::Ready(panic),
    })
    .await;
    drop(running);
    (cluster, panic.downcast_ref::<String>().expect("a message").clone())
}

#[tokio::test(start_paused = true)]
async fn server_and_controllers_share_the_paused_clock() {
    let cluster = TestCluster::start().await.unwrap();
    let maps = Api::<ConfigMap>::namespaced(&cluster.client(), "default");
    let first = maps.create(&config_map("a")).await.unwrap();
    let mut manager = cluster.manager();
    let events = manager.recorder("test", EventApi::Core);
    events.normal(&first, "Made", "made");
    let running = cluster.run(manager);
    sleep(Duration::from_secs(1800)).await;
    let later = maps.create(&config_map("b")).await.unwrap();
    let (was, is) = (first.creation_timestamp().unwrap(), later.creation_timestamp().unwrap());
    let passed = is.duration_since(was).unwrap().as_secs();
    assert!((1799..1900).contains(&passed), "{passed}");
    assert!(clock::now().duration_since(is).unwrap_or_default().as_secs() <= 1);
    assert_eq!(cluster.history::<ConfigMap>("default", "a").await.events, ["Normal Made: made"]);
    // Events live for an hour of simulated time.
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(cluster.history::<ConfigMap>("default", "a").await.events, [""; 0]);
    running.stop().await.unwrap();
}
