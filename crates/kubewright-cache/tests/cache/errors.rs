//! Errors: the error handler is called, and the reflector continues (RE-11, RE-14, RE-15, RE-16).

use std::time::Duration;

use kubewright_cache::{Reflector, ReflectorError, ReflectorOptions, Store};
use kubewright_client::transport::{TransportError, TransportErrorKind};
use kubewright_client::{Error, Result};
use kubewright_core::meta::v1::Status;
use kubewright_core::stream::{Bookmark, ReportedAs, WatchEvent};
use kubewright_core::{DynamicObject, GroupVersionKind, StatusReason};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::reflector::{Played, play_with};
use crate::script::{
    Answer, Script, ended, errs, events_of, list_fails, listed, page, undecodable, watch_fails, watched,
};
use crate::support::{named, object};

async fn play(answers: impl IntoIterator<Item = Answer>) -> Played {
    play_with(Script::new(answers), ReflectorOptions::default(), Duration::from_secs(60)).await
}

fn failure(reason: StatusReason) -> Status {
    Status::failure(reason, format!("{reason:?}"))
}

const BROKEN: &str = "cannot watch: the connection to the server broke";

fn broken() -> Error {
    TransportError::new(TransportErrorKind::Disconnected, "reset").into()
}

/// A watch of these events.
fn events(events: impl IntoIterator<Item = Result<WatchEvent<DynamicObject>>>, stays_open: bool) -> Answer {
    Answer::Watch(Ok((events.into_iter().collect(), stays_open)))
}

// RE-11: all but 429 and internal errors that may be retried lead to a list, and the handler
// receives each error.
#[tokio::test(start_paused = true)]
async fn an_error_event_is_reported_and_leads_to_a_list() {
    for reason in
        [StatusReason::Expired, StatusReason::Forbidden, StatusReason::InternalError, StatusReason::Unauthorized]
    {
        let played =
            play([listed("10", "a@1"), errs("+b@11", failure(reason)), listed("20", "a@1 b@11"), watched("")]).await;
        assert_eq!(played.errors, [format!("cannot watch: {reason:?}")]);
        assert_eq!(played.requests[2], r#"list "11""#, "{reason:?}");
    }
}

// RE-11
#[tokio::test(start_paused = true)]
async fn a_watch_is_retried_after_429() {
    let busy = Status::too_many_requests("busy", 3);
    let played = play([listed("10", "a@1"), errs("+b@11", busy), watched("+c@12")]).await;
    assert_eq!(played.requests[2], r#"watch "11""#);
    assert_eq!(played.errors, ["cannot watch: busy"]);
}

// RE-11
#[tokio::test(start_paused = true)]
async fn internal_errors_are_reported_while_they_are_retried() {
    let internal = || failure(StatusReason::InternalError);
    let answers = [listed("10", "a@1"), errs("", internal()), errs("+b@11", internal()), watched("")];
    let options = ReflectorOptions::default().retry_internal_errors_for(Duration::from_secs(30));
    let played = play_with(Script::new(answers), options, Duration::from_secs(60)).await;
    assert_eq!(played.requests[1..], [r#"watch "10""#, r#"watch "10""#, r#"watch "11""#]);
    assert_eq!(played.errors, ["cannot watch: InternalError", "cannot watch: InternalError"]);
}

// RE-12: a broken connection is reported, and the watch is resumed without a list.
#[tokio::test(start_paused = true)]
async fn a_connection_that_breaks_is_reported_and_resumed() {
    let mut first = events_of("+b@11");
    first.push(Err(broken()));
    let played =
        play([listed("10", "a@1"), events(first, false), events([Err(broken())], false), watched("+c@12")]).await;
    assert_eq!(played.requests[1..], [r#"watch "10""#, r#"watch "11""#, r#"watch "11""#]);
    assert_eq!(played.errors, [BROKEN, BROKEN]);
    assert_eq!(played.objects(), "a@1 b@11 c@12");
    // The same in the middle of a streaming list.
    let mut first = events_of("+a@1");
    first.push(Err(broken()));
    let script = Script::new([events(first, false), watched("+a@1 !10")]).streaming();
    let played = play_with(script, ReflectorOptions::default(), Duration::from_secs(60)).await;
    assert_eq!((played.errors, played.requests.len()), (vec![BROKEN.to_owned()], 2));
}

// Lists that fail, whatever the reflector does about it.
#[tokio::test(start_paused = true)]
async fn lists_and_watches_that_are_refused_are_reported() {
    let expired = || failure(StatusReason::Expired);
    let played = play([
        list_fails(failure(StatusReason::Forbidden)),
        page("10", "a@1", "next"),
        list_fails(failure(StatusReason::InternalError)),
        listed("10", "a@1"),
        watch_fails(expired()),
        list_fails(expired()),
        page("30", "a@1", "next"),
        list_fails(expired()),
        listed("30", "a@1"),
        watched(""),
    ])
    .await;
    let expected = ["list: Forbidden", "list: InternalError", "watch: Expired", "list: Expired", "list: Expired"];
    assert_eq!(played.errors, expected.map(|error| format!("cannot {error}")));
}

// RE-14: versions of synthetic events are not ordered, so none counts before a regular event.
#[tokio::test(start_paused = true)]
async fn a_watch_without_a_version_takes_it_from_the_first_non_initial_event() {
    for version in ["", "0"] {
        for (start, counts) in
            [("+b@7 +c@3", false), ("+b@7 ?+c@3", false), ("+b@7 ~b@9", true), ("+b@7 ?~b@9", true), ("=9", true)]
        {
            let played = play([listed(version, "a@1"), ended(start), watched("")]).await;
            let expected = if counts { "9" } else { version };
            assert_eq!(played.requests[2], format!("watch {expected:?}"), "{version:?} {start}");
        }
    }
}

fn foo() -> GroupVersionKind {
    GroupVersionKind::new("example.com", "v1", "Foo")
}

fn of_kind(kind: &str, name: &str) -> DynamicObject {
    let mut object = (*object(name, 15)).clone();
    object.kind = kind.into();
    object
}

// RE-15: other kinds, `Table` objects and objects without metadata are reported and skipped, and
// the version stays.
#[tokio::test(start_paused = true)]
async fn events_of_another_type_are_reported_and_skipped() {
    let mut other_kind = undecodable(ReportedAs::Deleted, &object("a", 15));
    let Error::Undecodable(other) = &mut other_kind else { panic!("it is one") };
    other.is_other_kind = true;
    let cases = [
        (Ok(WatchEvent::Modified(of_kind("Bar", "a"))), "unexpected object default/a of kind example.com/v1, Kind=Bar"),
        (Ok(WatchEvent::Deleted(of_kind("Bar", "a"))), "unexpected object default/a of kind example.com/v1, Kind=Bar"),
        (Ok(WatchEvent::Added(of_kind("Table", ""))), "unexpected object default/ of kind example.com/v1, Kind=Table"),
        (
            Ok(WatchEvent::Added(DynamicObject { kind: "Foo".into(), ..DynamicObject::default() })),
            "unexpected object  of kind /, Kind=Foo",
        ),
        (Err(other_kind), "cannot decode object default/a: expected a number"),
    ];
    for (event, error) in cases {
        let answers = [listed("10", "a@1"), events([event], true)];
        let options = ReflectorOptions::default().expect_kind(foo());
        let played = play_with(Script::new(answers), options, Duration::from_secs(60)).await;
        assert_eq!(played.errors, [error]);
        assert_eq!((played.objects().as_str(), played.reflector.last_sync_resource_version().as_str()), ("a@1", "10"));
        assert_eq!(played.reflector.health().undecodable.count, 0);
    }
}

// A skipped event does not count as an event of a very short watch.
#[tokio::test(start_paused = true)]
async fn an_event_that_is_skipped_is_no_sign_of_life() {
    let other = WatchEvent::Added(of_kind("Bar", "a"));
    let answers = [listed("10", "a@1"), events([Ok(other)], false), listed("10", "a@1"), watched("")];
    let options = ReflectorOptions::default().expect_kind(foo());
    let played = play_with(Script::new(answers), options, Duration::from_secs(60)).await;
    assert!(played.errors[1].starts_with("very short watch"), "{:?}", played.errors);
}

// RE-16: a bookmark of another kind is rejected and reported, including one that would end a
// streaming list.
#[tokio::test(start_paused = true)]
async fn a_bookmark_of_another_kind_is_rejected() {
    let bookmark = |kind: &str, version: &str| {
        let mut bookmark = Bookmark { kind: GroupVersionKind::new("example.com", "v1", kind), ..Bookmark::default() };
        bookmark.metadata.resource_version = Some(version.into());
        bookmark.metadata.annotations.insert("k8s.io/initial-events-end", "true".into());
        Ok(WatchEvent::Bookmark(Box::new(bookmark)))
    };
    let options = || ReflectorOptions::default().expect_kind(foo());
    let answers = [listed("10", "a@1"), events([bookmark("Foo", "11"), bookmark("Bar", "12")], true)];
    let played = play_with(Script::new(answers), options(), Duration::from_secs(60)).await;
    assert_eq!(played.errors, ["unexpected bookmark of kind example.com/v1, Kind=Bar"]);
    assert_eq!(played.store.resource_version(), "11");
    assert_eq!(played.reflector.last_sync_resource_version(), "11");
    let mut start = events_of("+a@1");
    start.extend([bookmark("Bar", "9"), bookmark("Foo", "10")]);
    let played = play_with(Script::new([events(start, true)]).streaming(), options(), Duration::from_secs(60)).await;
    assert_eq!(played.errors, ["unexpected bookmark of kind example.com/v1, Kind=Bar"]);
    assert_eq!((played.objects().as_str(), played.store.resource_version().as_str()), ("a@1", "10"));
}

// client-go's ListAndWatch: one round, and the reason of its end.
#[tokio::test(start_paused = true)]
async fn one_list_and_watch_round_returns_its_end_reason() {
    let expired = || failure(StatusReason::Expired);
    let script = Script::new([listed("10", "a@1"), errs("+b@11", expired()), listed("20", "c@12"), watched("")]);
    let store = Store::default();
    let reflector = Reflector::new(script, store.clone(), ReflectorOptions::default());
    let stop = CancellationToken::new();
    let error = reflector.list_and_watch(&stop).await.expect("the watch has expired");
    assert!(matches!(&error, ReflectorError::Watch(error) if error.is_expired()), "{error}");
    assert_eq!(named(&store.snapshot()), ["a@1", "b@11"]);
    stop.cancel();
    assert!(reflector.list_and_watch(&stop).await.is_none());
    let started = CancellationToken::new();
    let stops = async {
        sleep(Duration::from_secs(1)).await;
        started.cancel();
    };
    let (ended, ()) = tokio::join!(reflector.list_and_watch(&started), stops);
    assert!(ended.is_none());
    assert_eq!(named(&store.snapshot()), ["c@12"]);
}
