//! Waiting for conditions on a cache.

use std::sync::Arc;
use std::time::Duration;

use kubewright_api::core::v1::ConfigMap;
use kubewright_apiserver::ApiServer;
use kubewright_cache::{InformerOptions, ListWatch, Store, indexer_informer_watcher, until_with_sync};
use kubewright_client::watch::{Condition, UntilError};
use kubewright_client::{Api, Error};
use kubewright_core::stream::WatchEvent;
use kubewright_core::{DynamicObject, Object};
use tokio::time::{sleep, timeout};

use crate::mutable_server::Live;
use crate::script::{Script, list_fails, listed, refused};
use crate::support::named;

type Event = WatchEvent<Arc<DynamicObject>>;

/// Whether an event is `+`, `~` or `-` of the object of this name.
fn is(expected: &'static str) -> Condition<'static, Arc<DynamicObject>> {
    Box::new(move |event: &Event| Ok(shown(event).starts_with(expected)))
}

fn shown(event: &Event) -> String {
    match event {
        WatchEvent::Added(object) => format!("+{}@{}", object.name(), object.resource_version()),
        WatchEvent::Modified(object) => format!("~{}@{}", object.name(), object.resource_version()),
        WatchEvent::Deleted(object) => format!("-{}@{}", object.name(), object.resource_version()),
        other => format!("{other:?}"),
    }
}

async fn settle() {
    sleep(Duration::from_millis(10)).await;
}

// WT-2
#[tokio::test(start_paused = true)]
async fn conditions_are_met_one_after_the_other_each_tried_on_the_last_event_first() {
    let server = Live::new();
    server.put("a");
    let waiting = tokio::spawn(until_with_sync(server.clone(), None, vec![is("+a"), is("+a"), is("~a"), is("-a")]));
    settle().await;
    server.put("b");
    server.put("a");
    settle().await;
    assert!(!waiting.is_finished());
    server.delete("a");
    let met = waiting.await.expect("no panic").expect("it happened").expect("there were conditions");
    assert_eq!(shown(&met), "-a@4");
    settle().await;
    assert_eq!(server.watches(), 0, "nothing is left running");
}

// WT-2
#[tokio::test(start_paused = true)]
async fn the_precondition_sees_the_whole_first_list_and_ends_the_wait_if_it_is_met() {
    let server = Live::new();
    (1..=100).for_each(|count| server.put(&format!("object-{count}")));
    let precondition = |store: &Store<DynamicObject>| {
        assert_eq!(store.snapshot().len(), 100);
        Ok(true)
    };
    let met = until_with_sync(server.clone(), Some(Box::new(precondition)), vec![is("+never")]).await;
    assert!(met.expect("it is met").is_none(), "no event has met it");

    let not_yet = |_: &Store<DynamicObject>| Ok(false);
    let met = until_with_sync(server.clone(), Some(Box::new(not_yet)), vec![is("+object-7@")]).await;
    assert_eq!(shown(&met.expect("it happened").expect("there was a condition")), "+object-7@7");

    let fails = |_: &Store<DynamicObject>| Err(Error::InvalidRequest("no".to_owned()));
    let error = until_with_sync(server, Some(Box::new(fails)), vec![is("+never")]).await.expect_err("it fails");
    assert!(matches!(error, UntilError::Error(Error::InvalidRequest(_))), "{error}");
}

// WT-2
#[tokio::test(start_paused = true)]
async fn lost_connections_and_forgotten_versions_are_survived_and_the_newest_state_is_seen() {
    for server in [Live::new(), Live::streaming()] {
        server.put("a");
        server.put("b");
        let mut watcher = indexer_informer_watcher(server.clone(), InformerOptions::default());
        assert!(watcher.synced().await);
        let mut seen = Vec::new();
        for _ in 0..2 {
            seen.push(shown(&watcher.next().await.expect("it goes on")));
        }
        seen.sort();
        assert_eq!(seen, ["+a@1", "+b@2"]);
        server.cut();
        server.put("a");
        assert_eq!(shown(&watcher.next().await.expect("it goes on")), "~a@3");
        // Changes during an outage are seen as one change to the final state.
        settle().await;
        server.put("c");
        server.delete("c");
        server.put("a");
        server.put("a");
        server.delete("b");
        server.forget();
        // Order is kept per object, not across objects, and a list may resync unchanged objects.
        let mut missing = vec!["~a@7", "-b@2"];
        while !missing.is_empty() {
            let event = timeout(Duration::from_secs(600), watcher.next()).await.expect("it is seen in time");
            let event = shown(&event.expect("it goes on"));
            assert!(!event.contains('c'), "{event}: what came and went unseen stays unseen");
            missing.retain(|missing| *missing != event);
        }
        assert_eq!(named(watcher.store().snapshot().iter()), ["a@7"]);
        watcher.stop().await;
        assert_eq!(server.watches(), 0);
    }
}

// WT-2
#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_be_reached_at_first_is_waited_for() {
    let script = Script::new([list_fails(refused()), list_fails(refused()), listed("5", "a@3")]);
    let met = until_with_sync(script, None, vec![is("+a@3")]).await.expect("it happened");
    assert!(met.is_some());
}

// WT-2
#[tokio::test(start_paused = true)]
async fn a_timeout_stops_the_informer() {
    let server = Live::new();
    server.put("a");
    let never = until_with_sync(server.clone(), None, vec![is("+never")]);
    assert!(timeout(Duration::from_secs(60), never).await.is_err());
    settle().await;
    assert_eq!(server.watches(), 0);
    let failing: Condition<'_, _> = Box::new(|_| Err(Error::InvalidRequest("no".to_owned())));
    let error = until_with_sync(server.clone(), None, vec![failing]).await.expect_err("the condition fails");
    assert!(matches!(error, UntilError::Error(_)));
    settle().await;
    assert_eq!(server.watches(), 0);
}

// WT-2
#[tokio::test]
async fn a_cache_survives_broken_connections_and_expired_versions() {
    let server = ApiServer::in_memory().start().await.expect("it starts");
    let client = server.client();
    let maps = Api::<ConfigMap>::namespaced(&client, "default");
    let mut map = ConfigMap::default();
    map.set_name("settings");
    maps.create(&map).await.expect("it is new");
    let is_ready = |event: &WatchEvent<Arc<ConfigMap>>| match event {
        WatchEvent::Added(map) | WatchEvent::Modified(map) => Ok(map.data.contains_key("ready")),
        _ => Ok(false),
    };
    let waiting = tokio::spawn(until_with_sync(ListWatch::new(maps.clone()), None, vec![Box::new(is_ready)]));
    for round in 0..3 {
        map.data.insert("round", format!("{round}").into());
        maps.update(&map).await.expect("there is no other writer");
        server.faults().compact();
        server.faults().cut_watches();
    }
    map.data.insert("ready", "yes".into());
    maps.update(&map).await.expect("there is no other writer");
    let met = timeout(Duration::from_secs(60), waiting).await.expect("it is seen").expect("no panic");
    assert!(met.expect("it happened").is_some());
}
