//! Resumed watches, and waiting for conditions.

use std::time::Duration;

use bytes::Bytes;
use kubewright_api::core::v1::ConfigMap;
use kubewright_client::transport::{ResponseFuture, Transport};
use kubewright_client::watch::{Condition, RetryWatcher, UntilError, await_condition, until, until_on};
use kubewright_client::{Api, Client, Error};
use kubewright_core::Object;
use kubewright_core::options::{ListOptions, WatchOptions};
use kubewright_core::stream::WatchEvent;
use tokio::time::{sleep, timeout};

use crate::script::{Answer, Script, answer};
use crate::support::{config_map, test_client};

const MINUTE: Duration = Duration::from_secs(60);

fn event(kind: &str, name: &str, version: &str) -> String {
    let version = if version.is_empty() { String::new() } else { format!(r#","resourceVersion":"{version}""#) };
    format!(
        r#"{{"type":"{kind}","object":{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"{name}"{version}}}}}}}"#
    )
}

fn failure(code: u16, reason: &str, retry_after: u32) -> String {
    format!(
        r#"{{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"{reason}","code":{code},"details":{{"retryAfterSeconds":{retry_after}}}}}"#
    )
}

fn error_event(code: u16, reason: &str, retry_after: u32) -> String {
    format!(r#"{{"type":"ERROR","object":{}}}"#, failure(code, reason, retry_after))
}

/// The events of a watcher from version 1, with the versions and times of its watches.
async fn play(answers: Vec<Answer>) -> (Vec<String>, Vec<String>, Vec<u64>) {
    let script = Script::new(answers);
    let api = Api::<ConfigMap>::namespaced(&script.client().retries(0), "default");
    let mut watcher = RetryWatcher::new(api, WatchOptions::default().resource_version("1").bookmarks()).unwrap();
    let mut seen = Vec::new();
    // After the script no connection succeeds, and the watcher retries forever.
    while let Ok(Some(event)) = tokio::time::timeout(Duration::from_secs(60), watcher.next()).await {
        seen.push(match event {
            WatchEvent::Added(object) => format!("added {}", object.name()),
            WatchEvent::Modified(object) => format!("modified {}", object.name()),
            WatchEvent::Deleted(object) => format!("deleted {}", object.name()),
            WatchEvent::Bookmark(_) => "bookmark".to_owned(),
            WatchEvent::Error(status) => format!("error {}", status.code.unwrap_or(0)),
        });
    }
    let asked = script.asked();
    let version = |line: &str| line.split("resourceVersion=").nth(1).unwrap().split('&').next().unwrap().to_owned();
    let versions = asked.iter().map(|one| version(&one.line)).collect();
    (seen, versions, asked.iter().map(|one| (one.at - asked[0].at).as_secs()).collect())
}

#[test]
fn a_watch_without_a_version_cannot_be_continued() {
    // WT-1
    let api = Api::<ConfigMap>::namespaced(&Script::default().client(), "default");
    for options in [WatchOptions::default(), WatchOptions::default().resource_version("0")] {
        assert!(RetryWatcher::new(api.clone(), options).is_err());
    }
    // Each new watch would repeat them.
    let initial = WatchOptions::default().initial_events().resource_version("5");
    assert!(RetryWatcher::new(api, initial).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_client_side_failure_is_not_reported_as_a_server_response() {
    // WT-1, WT-2
    let from = || WatchOptions::default().resource_version("1");
    // A namespace that cannot be part of a path is refused here.
    let script = Script::default();
    let nowhere = Api::<ConfigMap>::namespaced(&script.client(), "a/b");
    let mut watcher = RetryWatcher::new(nowhere.clone(), from()).unwrap();
    let refused = timeout(MINUTE, watcher.next()).await.expect("it is not tried for ever").unwrap();
    assert!(matches!(&refused, WatchEvent::Error(status) if status.is_bad_request()), "{refused:?}");
    let failed = until(&nowhere, from(), vec![is("added")]).await.unwrap_err();
    assert!(matches!(failed, UntilError::Error(Error::InvalidRequest(_))), "{failed:?}");
    assert!(script.asked().is_empty());

    let surprise = || answer(200, event("SURPRISE", "a", "5"));
    let script = Script::new([surprise(), list(""), surprise()]);
    let maps = Api::<ConfigMap>::namespaced(&script.client(), "default");
    let failed = until(&maps, from(), vec![is("added")]).await.unwrap_err();
    assert!(matches!(failed, UntilError::Error(Error::Decode(_))), "{failed:?}");
    let failed = await_condition(&maps, "a", |found| found.is_some()).await.unwrap_err();
    assert!(matches!(failed, Error::Decode(_)) && !failed.is_retriable(), "{failed:?}");
}

#[tokio::test]
async fn one_object_is_waited_for() {
    let script = Script::default();
    let everywhere = Api::<ConfigMap>::all(&script.client());
    let one = Api::<ConfigMap>::namespaced(&script.client(), "default");
    for (api, name) in [(everywhere, "a"), (one, "")] {
        let failed = await_condition(&api, name, |found| found.is_none()).await.unwrap_err();
        assert!(matches!(failed, Error::InvalidRequest(_)), "{failed:?}");
    }
    assert!(script.asked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_watch_resumes_from_its_last_version_at_most_once_per_second() {
    // WT-1
    let (seen, versions, times) = play(vec![
        answer(200, event("ADDED", "a", "5")),
        answer(200, [event("BOOKMARK", "", "8"), event("MODIFIED", "a", "9")].concat()),
        answer(200, event("BOOKMARK", "", "20")),
        answer(200, event("DELETED", "a", "21")).then_cut(),
        answer(504, failure(504, "Timeout", 0)),
        answer(410, failure(410, "Expired", 0)),
        answer(200, error_event(410, "Expired", 0)),
    ])
    .await;
    assert_eq!(seen, ["added a", "modified a", "deleted a", "error 410"]);
    assert_eq!(versions, ["1", "5", "9", "20", "21", "21", "21"]);
    assert_eq!(times, [0, 1, 2, 3, 4, 5, 6]);
}

#[tokio::test(start_paused = true)]
async fn the_server_may_ask_for_more_time() {
    // WT-1
    let (seen, _, times) = play(vec![
        answer(200, error_event(500, "InternalError", 7)),
        answer(200, error_event(418, "Teapot", 0)),
        answer(200, [event("ADDED", "a", "5"), error_event(410, "Gone", 0)].concat()),
    ])
    .await;
    assert_eq!(seen, ["added a", "error 410"]);
    assert_eq!(times, [0, 7, 8]);
}

#[tokio::test(start_paused = true)]
async fn a_permanent_error_ends_the_watch() {
    // WT-1
    for (reply, last) in [
        (answer(403, failure(403, "Forbidden", 0)), "error 403"),
        (answer(401, failure(401, "Unauthorized", 0)), "error 401"),
        (answer(200, event("ADDED", "a", "")), "error 500"),
        (answer(200, event("SURPRISE", "a", "5")), "error 500"),
    ] {
        let (seen, versions, _) = play(vec![reply, answer(200, event("ADDED", "b", "6"))]).await;
        assert_eq!((seen.as_slice(), versions.len()), (&[last.to_owned()][..], 1));
    }
}

fn is(kind: &'static str) -> Condition<'static, ConfigMap> {
    Box::new(move |event| {
        Ok(matches!(
            (kind, event),
            ("added", WatchEvent::Added(_))
                | ("modified", WatchEvent::Modified(_))
                | ("deleted", WatchEvent::Deleted(_))
        ))
    })
}

#[tokio::test]
async fn until_sees_every_change_in_order() {
    // WT-2
    let server = test_client().await;
    let api = Api::<ConfigMap>::namespaced(&server.client, server.namespace.as_str());
    let version = api.list(&ListOptions::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut object = api.create(&config_map("a")).await.unwrap();
    object.data.insert("key", "new".into());
    api.update(&object).await.unwrap();
    api.delete("a").await.unwrap();
    let options = WatchOptions::default().resource_version(version);
    // The second is first tried on the event that met the first.
    let conditions = vec![is("added"), is("added"), is("modified"), is("deleted")];
    let last = until(&api, options, conditions).await.unwrap().unwrap();
    assert!(matches!(last, WatchEvent::Deleted(_)));
}

#[tokio::test]
async fn waiting_ends_with_the_watch_or_its_failure() {
    // WT-2
    let gone = error_event(410, "Expired", 0);
    let script = Script::new([answer(200, event("ADDED", "a", "5")), answer(200, gone.clone()), answer(200, gone)]);
    let api = Api::<ConfigMap>::namespaced(&script.client(), "default");
    let options = WatchOptions::default().resource_version("1");
    let mut once = api.watch(&options).await.unwrap();
    assert!(matches!(until_on(&mut once, vec![is("deleted")]).await, Err(UntilError::Closed)));
    let mut failing = api.watch(&options).await.unwrap();
    assert!(matches!(until_on(&mut failing, vec![is("deleted")]).await, Err(UntilError::Failed(_))));
    let failed = until(&api, options, vec![is("deleted")]).await.unwrap_err();
    assert!(matches!(&failed, UntilError::Failed(status) if status.is_expired()), "{failed}");
}

#[tokio::test]
async fn await_condition_covers_existing_objects_and_deletions() {
    let server = test_client().await;
    let api = Api::<ConfigMap>::namespaced(&server.client, server.namespace.as_str());
    let has = |key: &'static str| move |map: Option<&ConfigMap>| map.is_some_and(|map| map.data.contains_key(key));
    let (waited, created) = tokio::join!(await_condition(&api, "a", has("new")), async {
        api.create(&config_map("b")).await.unwrap();
        let mut object = api.create(&config_map("a")).await.unwrap();
        object.data.insert("new", "yes".into());
        api.update(&object).await.unwrap()
    });
    assert_eq!(waited.unwrap().unwrap().resource_version(), created.resource_version());
    // A condition that already holds returns immediately.
    assert!(await_condition(&api, "a", has("new")).await.unwrap().is_some());
    let (gone, deleted) = tokio::join!(await_condition(&api, "a", |map| map.is_none()), api.delete("a"));
    assert!(gone.unwrap().is_none() && deleted.is_ok());
}

fn list(items: &str) -> Answer {
    let list = format!(
        r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{{"resourceVersion":"7"}},"items":[{items}]}}"#
    );
    answer(200, list)
}

#[tokio::test(start_paused = true)]
async fn await_condition_lists_again_after_an_expired_version() {
    let script = Script::new([
        list(""),
        answer(200, event("ADDED", "a", "8") + &error_event(410, "Expired", 0)),
        list(r#"{"metadata":{"name":"a","resourceVersion":"9"}}"#),
        list(""),
        answer(403, failure(403, "Forbidden", 0)),
    ]);
    let api = Api::<ConfigMap>::namespaced(&script.client().retries(0), "default");
    let is_nine = |map: Option<&ConfigMap>| map.is_some_and(|map| map.resource_version() == "9");
    assert!(await_condition(&api, "a", is_nine).await.unwrap().is_some());
    assert!(await_condition(&api, "a", is_nine).await.unwrap_err().is_forbidden());
    assert!(
        script.asked().iter().all(|one| one.line.contains("fieldSelector=metadata.name%3Da")),
        "{:?}",
        script.asked()
    );
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_where_the_server_refuses_to_watch() {
    // WT-2
    for (code, reason) in [(400, "BadRequest"), (404, "NotFound"), (405, "MethodNotAllowed")] {
        let script =
            Script::new([list(""), answer(code, failure(code, reason, 0)), answer(code, failure(code, reason, 0))]);
        let api = Api::<ConfigMap>::namespaced(&script.client().retries(0), "default");
        let waited = timeout(MINUTE, await_condition(&api, "a", |map| map.is_some())).await.expect("it ends");
        assert_eq!(waited.unwrap_err().status().unwrap().code, Some(code.into()));
        let options = WatchOptions::default().resource_version("1");
        let waited = timeout(MINUTE, until(&api, options, vec![is("added")])).await.expect("it ends");
        let failed = waited.unwrap_err();
        assert!(matches!(&failed, UntilError::Failed(status) if status.code == Some(code.into())), "{failed}");
    }
}

#[tokio::test(start_paused = true)]
async fn await_condition_retries_while_the_server_is_overloaded() {
    // WT-2
    let script = Script::new([
        list(""),
        answer(503, failure(503, "ServiceUnavailable", 0)),
        answer(410, failure(410, "Expired", 0)),
        list(r#"{"metadata":{"name":"a","resourceVersion":"9"}}"#),
        answer(410, failure(410, "Expired", 0)),
    ]);
    let api = Api::<ConfigMap>::namespaced(&script.client().retries(0), "default");
    let waited = timeout(MINUTE, await_condition(&api, "a", |map| map.is_some())).await.expect("it ends");
    assert!(waited.unwrap().is_some());
    let options = WatchOptions::default().resource_version("1");
    let waited = timeout(MINUTE, until(&api, options, vec![is("added")])).await.expect("it ends");
    assert!(matches!(waited.unwrap_err(), UntilError::Failed(status) if status.is_expired()));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_poll_does_not_open_the_watch_twice() {
    // WT-1
    let script = Script::new([answer(200, event("ADDED", "a", "5"))]);
    let slow = script.clone();
    let client = Client::over(move |request: http::Request<Bytes>| -> ResponseFuture {
        let answer = slow.send(request);
        Box::pin(async move {
            sleep(Duration::from_secs(3)).await;
            answer.await
        })
    });
    let api = Api::<ConfigMap>::namespaced(&client, "default");
    let mut watcher = RetryWatcher::new(api, WatchOptions::default().resource_version("1")).unwrap();
    let mut ticks = 0;
    let event = loop {
        tokio::select! {
            event = watcher.next() => break event,
            () = sleep(Duration::from_millis(100)) => ticks += 1,
        }
        assert!(ticks < 100, "the watch is never opened");
    };
    assert!(matches!(event, Some(WatchEvent::Added(_))));
    assert_eq!(script.asked().len(), 1);
}
