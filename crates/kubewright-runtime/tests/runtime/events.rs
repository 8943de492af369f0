//! Events over the embedded server, in both APIs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kubewright_api::core::v1::{Event as CoreEvent, Namespace};
use kubewright_api::events::v1::Event;
use kubewright_apiserver::{Fault, RunningServer};
use kubewright_client::transport::{Body, ResponseFuture};
use kubewright_client::{Api, Client};
use kubewright_core::{DynamicObject, Object};
use kubewright_runtime::events::{EventApi, EventBroadcaster, EventOptions, EventRecorder, EventType, NewEvent};
use tokio::time::{Instant, sleep};

use crate::support::{config_map, eventually, seconds, server};

async fn core_events(server: &RunningServer) -> Vec<CoreEvent> {
    let api = Api::<CoreEvent>::namespaced(&server.client(), "default");
    api.list(&Default::default()).await.unwrap().into_iter().collect()
}

async fn events(server: &RunningServer) -> Vec<Event> {
    let api = Api::<Event>::namespaced(&server.client(), "default");
    api.list(&Default::default()).await.unwrap().into_iter().collect()
}

#[tokio::test(start_paused = true)]
async fn events_lie_in_the_namespace_of_the_object_and_are_counted() {
    // EV-1, EV-5
    let server = server().await;
    let broadcaster = EventBroadcaster::start(&server.client(), EventOptions::default());
    let recorder = broadcaster.recorder("maps", "host-1", EventApi::Core);
    for _ in 0..3 {
        recorder.warning(&config_map("web"), "Broken", "a \"quoted\" problem");
        sleep(seconds(1.0)).await;
    }
    let found = core_events(&server).await;
    assert_eq!(found.len(), 1);
    let event = &found[0];
    assert_eq!((event.count, event.type_.as_deref()), (Some(3), Some("Warning")));
    assert_eq!(event.message.as_deref(), Some("a \"quoted\" problem"));
    assert_eq!(event.involved_object.kind.as_deref(), Some("ConfigMap"));
    assert!(event.name().starts_with("web.") && event.name()[4..].chars().all(|c| c.is_ascii_hexdigit()));

    // A removed event is created again.
    Api::<CoreEvent>::namespaced(&server.client(), "default").delete(event.name()).await.unwrap();
    recorder.warning(&config_map("web"), "Broken", "a \"quoted\" problem");
    sleep(seconds(1.0)).await;
    assert_eq!(core_events(&server).await[0].count, Some(4));

    // Events of cluster-scoped objects are in `default`; objects without a kind have none.
    let mut namespace = Namespace::default();
    namespace.set_name("blue");
    recorder.normal(&namespace, "Created", "made");
    recorder.normal(&DynamicObject::default(), "Created", "made");
    sleep(seconds(1.0)).await;
    assert_eq!(core_events(&server).await.len(), 2);
    broadcaster.shutdown(seconds(5.0)).await;
}

#[tokio::test(start_paused = true)]
async fn objects_with_names_invalid_for_events_get_events() {
    // EV-1
    let server = server().await;
    let broadcaster = EventBroadcaster::start(&server.client(), EventOptions::default());
    let role = |name: &str| -> DynamicObject {
        let text = r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{}}"#;
        let mut role: DynamicObject = text.parse().unwrap();
        role.set_name(name);
        role
    };
    // The name has a colon, and no space for the time suffix.
    let names = ["system:node".to_owned(), "a".repeat(250)];
    for api in [EventApi::Core, EventApi::Events] {
        let recorder = broadcaster.recorder("roles", "host-1", api);
        names.iter().for_each(|name| recorder.normal(&role(name), "Bound", "to somebody"));
    }
    sleep(seconds(1.0)).await;
    let found = core_events(&server).await;
    for name in &names {
        let of_it: Vec<_> = found.iter().filter(|event| event.involved_object.name.as_deref() == Some(name)).collect();
        assert_eq!(of_it.len(), 2, "one in each API: {found:?}");
        assert!(of_it.iter().all(|event| event.name().len() == 36 && event.name().split('-').count() == 5));
    }
    broadcaster.shutdown(seconds(5.0)).await;
}

#[tokio::test(start_paused = true)]
async fn repeated_events_become_a_series_with_a_final_count() {
    // EV-7
    let server = server().await;
    let broadcaster = EventBroadcaster::start(&server.client(), EventOptions::default());
    let recorder = broadcaster.recorder("maps", "host-1", EventApi::Events);
    for number in 0..5 {
        let event = NewEvent::new(&config_map("web"), EventType::Normal, "Scaled", format!("to {number}"));
        recorder.record(event.action("Scale").related(&config_map("other")));
        sleep(seconds(1.0)).await;
    }
    let found = events(&server).await;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].series.as_ref().unwrap().count, 2);
    assert_eq!(found[0].action.as_deref(), Some("Scale"));
    sleep(Duration::from_secs(13 * 60)).await;
    assert_eq!(events(&server).await[0].series.as_ref().unwrap().count, 5);
    broadcaster.shutdown(seconds(5.0)).await;
}

#[tokio::test(start_paused = true)]
async fn an_ongoing_series_is_written_every_half_hour() {
    // EV-7
    let server = server().await;
    let broadcaster = EventBroadcaster::start(&server.client(), EventOptions::default());
    let recorder = broadcaster.recorder("maps", "host-1", EventApi::Events);
    for number in 0..7 {
        recorder.normal(&config_map("web"), "Scaled", format!("to {number}"));
        if number == 6 {
            assert_eq!(events(&server).await[0].series.as_ref().unwrap().count, 2, "only counted so far");
        }
        // Shorter than the end of a series.
        sleep(Duration::from_secs(299)).await;
    }
    let found = events(&server).await;
    assert_eq!((found.len(), found[0].series.as_ref().unwrap().count), (1, 7));
    broadcaster.shutdown(seconds(5.0)).await;
}

#[tokio::test(start_paused = true)]
async fn after_twelve_tries_an_event_is_given_up() {
    // EV-6
    let server = server().await;
    let broadcaster = EventBroadcaster::start(&server.client().retries(0), EventOptions::default());
    let recorder = broadcaster.recorder("maps", "host-1", EventApi::Core);
    server.faults().inject(Fault::drop_request().verb("create").resource("events").times(12));
    let start = Instant::now();
    recorder.normal(&config_map("web"), "Lost", "for good");
    recorder.normal(&config_map("web"), "Next", "one");
    eventually("the next one", async || core_events_of(&server, "Next").await == 1).await;
    assert_eq!(core_events_of(&server, "Lost").await, 0);
    // Ten seconds between attempts; the first delay is random.
    assert!(start.elapsed() >= seconds(100.0) && start.elapsed() <= seconds(111.0), "{:?}", start.elapsed());
    broadcaster.shutdown(seconds(5.0)).await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_server_is_waited_for_and_a_refusal_is_final() {
    // EV-6
    let server = server().await;
    let client = server.client().retries(0);
    let broadcaster = EventBroadcaster::start(&client, EventOptions::default());
    let recorder = broadcaster.recorder("maps", "host-1", EventApi::Core);
    server.faults().inject(Fault::drop_request().verb("create").resource("events").times(5));
    let start = Instant::now();
    recorder.normal(&config_map("web"), "Lost", "and found");
    eventually("it is written", async || core_events_of(&server, "Lost").await == 1).await;
    assert!(start.elapsed() >= seconds(30.0) && start.elapsed() < seconds(51.0), "{:?}", start.elapsed());
    server.faults().inject(Fault::answer(403).verb("create").resource("events").times(1));
    recorder.normal(&config_map("web"), "Refused", "and gone");
    recorder.normal(&config_map("web"), "Next", "one");
    sleep(seconds(1.0)).await;
    assert_eq!((core_events_of(&server, "Refused").await, core_events_of(&server, "Next").await), (0, 1));
    // At shutdown each event is tried once.
    server.faults().inject(Fault::drop_request().verb("create").resource("events"));
    recorder.normal(&config_map("web"), "Last", "try");
    let start = Instant::now();
    broadcaster.shutdown(seconds(60.0)).await;
    assert!(start.elapsed() < seconds(1.0));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_none_of_a_server_is_not_final() {
    // EV-6
    let server = server().await;
    let (behind, refusals) = (server.client(), AtomicUsize::new(2));
    let client = Client::over(move |request: http::Request<bytes::Bytes>| -> ResponseFuture {
        let left = refusals.load(Ordering::Relaxed);
        if request.method() != http::Method::POST || left == 0 {
            return behind.transport().send(request);
        }
        refusals.store(left - 1, Ordering::Relaxed);
        let page = bytes::Bytes::from_static(b"<html>Please log in</html>");
        let body = Body::new(futures_util::stream::once(std::future::ready(Ok(page))));
        Box::pin(std::future::ready(Ok(http::Response::new(body))))
    });
    let broadcaster = EventBroadcaster::start(&client, EventOptions::default());
    let recorder = broadcaster.recorder("maps", "host-1", EventApi::Core);
    let start = Instant::now();
    recorder.normal(&config_map("web"), "Lost", "and found");
    eventually("it is written", async || core_events_of(&server, "Lost").await == 1).await;
    assert!(start.elapsed() >= seconds(10.0) && start.elapsed() < seconds(21.0), "{:?}", start.elapsed());
    broadcaster.shutdown(seconds(5.0)).await;
}

async fn core_events_of(server: &RunningServer, reason: &str) -> usize {
    let api = Api::<CoreEvent>::namespaced(&server.client(), "default");
    // While requests are dropped, the test's own requests fail too.
    let Ok(list) = api.list(&Default::default()).await else { return 0 };
    list.into_iter().filter(|event| event.reason.as_deref() == Some(reason)).count()
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_drops_and_counts() {
    // EV-1
    let server = server().await;
    server.faults().freeze();
    let broadcaster = EventBroadcaster::start(&server.client(), EventOptions::default());
    let recorder = broadcaster.recorder("maps", "host-1", EventApi::Core);
    for number in 0..1500 {
        recorder.normal(&config_map(&format!("map-{number}")), "Made", "one");
    }
    assert_eq!(broadcaster.dropped(), 500);
}

#[tokio::test(start_paused = true)]
async fn a_fake_recorder_sends_texts_to_a_bounded_channel() {
    // EV-8
    let (core, mut texts) = EventRecorder::fake(1);
    for recorder in [core.clone(), core.with_api(EventApi::Events)] {
        recorder.normal(&config_map("web"), "Synced", "all is well");
        recorder.warning(&config_map("web"), "Dropped", "since the buffer is full");
        assert_eq!(texts.recv().await.as_deref(), Some("Normal Synced all is well"));
        assert!(texts.try_recv().is_err());
    }
    // A dropped receiver blocks nothing.
    drop(texts);
    core.normal(&config_map("web"), "Synced", "all is well");
}

#[tokio::test(start_paused = true)]
async fn a_recorder_of_one_api_is_adapted_to_the_other() {
    // EV-8
    for (from, to) in [(EventApi::Core, EventApi::Events), (EventApi::Events, EventApi::Core)] {
        let server = server().await;
        let broadcaster = EventBroadcaster::start(&server.client(), EventOptions::default());
        let recorder = broadcaster.recorder("maps", "host-1", from);
        let adapted = recorder.with_api(to);
        assert_eq!((recorder.api(), adapted.api()), (from, to));
        let event = || {
            let event = NewEvent::new(&config_map("web"), EventType::Warning, "Broken", "a problem");
            event.action("Repair").related(&config_map("other"))
        };
        for _ in 0..2 {
            adapted.record(event());
        }
        recorder.record(event());
        broadcaster.shutdown(seconds(5.0)).await;
        // The server shows an event in both APIs. Its format tells which recorder has written it.
        let found = core_events(&server).await;
        assert_eq!(found.len(), 2);
        let counted: Vec<_> = found.iter().filter(|event| event.count.is_some()).collect();
        let series: Vec<_> = found.iter().filter(|event| event.count.is_none()).collect();
        let ([counted], [series]) = (&counted[..], &series[..]) else { panic!("{found:?}") };
        assert_eq!(counted.count, Some(if to == EventApi::Core { 2 } else { 1 }));
        assert_eq!(series.series.is_some(), to == EventApi::Events, "{series:?}");
        assert_eq!(series.action.as_deref(), Some("Repair"));
        for event in [counted, series] {
            assert_eq!(event.reporting_component.as_deref(), Some("maps"));
            assert_eq!(event.message.as_deref(), Some("a problem"));
            assert_eq!((event.reason.as_deref(), event.type_.as_deref()), (Some("Broken"), Some("Warning")));
            assert_eq!(event.involved_object.name.as_deref(), Some("web"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_newer_api_is_used_where_the_server_has_it() {
    // EV-8
    let server = server().await;
    assert_eq!(EventApi::detect(&server.client()).await.unwrap(), EventApi::Events);
    let without = |code: u16| {
        Client::over(move |_: http::Request<bytes::Bytes>| -> ResponseFuture {
            let body = format!(r#"{{"kind":"Status","apiVersion":"v1","status":"Failure","code":{code}}}"#);
            let body = Body::new(futures_util::stream::once(std::future::ready(Ok(bytes::Bytes::from(body)))));
            let response = http::Response::builder().status(code).body(body).unwrap();
            Box::pin(std::future::ready(Ok(response)))
        })
    };
    assert_eq!(EventApi::detect(&without(404)).await.unwrap(), EventApi::Core);
    assert!(EventApi::detect(&without(403)).await.is_err(), "who may not ask does not know");
}

#[tokio::test(start_paused = true)]
async fn texts_too_long_for_events_v1_are_truncated() {
    // EV-7: servers refuse more than 1024 bytes, and Go's events are lost.
    let server = server().await;
    let broadcaster = EventBroadcaster::start(&server.client(), EventOptions::default());
    let recorder = broadcaster.recorder("maps", "h".repeat(200), EventApi::Events);
    recorder.normal(&config_map("web"), "Long", "\u{fc}".repeat(600));
    recorder.normal(&config_map("web"), "Fits", "x".repeat(1024));
    recorder.normal(&config_map("web"), "R".repeat(129), "short");
    broadcaster.shutdown(seconds(5.0)).await;
    let found = events(&server).await;
    let note = |reason: &str| {
        let event = found.iter().find(|event| event.reason.as_deref() == Some(reason)).expect("it was written");
        assert_eq!(event.reporting_instance.as_deref().map(str::len), Some(128));
        event.note.clone().unwrap_or_default()
    };
    let long = note("Long");
    assert!(long.len() == 1023 && long.ends_with("\u{fc}..."), "{long}");
    assert_eq!(note("Fits"), "x".repeat(1024));
    assert_eq!(note(&format!("{}...", "R".repeat(125))), "short");
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_event_request_is_retried() {
    // EV-6: in Go, no event is written any more.
    for begins in [false, true] {
        let server = server().await;
        let recorded = [(None, 71.0), (Some(5.0), 16.0), (Some(300.0), 311.0)];
        for (index, (limit, within)) in recorded.into_iter().enumerate() {
            let client = silent_at_first(&server, begins);
            let client = limit.into_iter().fold(client, |client, limit| client.request_timeout(seconds(limit)));
            let broadcaster = EventBroadcaster::start(&client, EventOptions::default());
            let recorder = broadcaster.recorder("maps", "host-1", EventApi::Core);
            let reason = format!("Lost{index}");
            recorder.normal(&config_map("web"), reason.clone(), "and found");
            // The delay before the second attempt is at most ten seconds.
            sleep(seconds(within - 11.5)).await;
            assert_eq!(core_events_of(&server, &reason).await, 0, "{limit:?}");
            sleep(seconds(11.5)).await;
            assert_eq!(core_events_of(&server, &reason).await, 1, "{limit:?}");
            broadcaster.shutdown(seconds(5.0)).await;
        }
    }
}

/// A server whose first response to a create never comes, or with `begins` stalls.
fn silent_at_first(server: &RunningServer, begins: bool) -> Client {
    let (behind, silences) = (server.client(), AtomicUsize::new(1));
    Client::over(move |request: http::Request<bytes::Bytes>| -> ResponseFuture {
        if request.method() != http::Method::POST || silences.swap(0, Ordering::Relaxed) == 0 {
            return behind.transport().send(request);
        }
        if !begins {
            return Box::pin(std::future::pending());
        }
        let head = http::Response::builder().status(201).header("content-type", "application/json");
        let answer = head.body(Body::new(futures_util::stream::pending())).unwrap();
        Box::pin(async { Ok(answer) })
    })
}
