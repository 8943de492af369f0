//! Reflector: client-go's cases, in simulated time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kubewright_cache::{
    HealthState, RealFifo, RealFifoOptions, Reflector, ReflectorBackoff, ReflectorError, ReflectorOptions, Store,
};
use kubewright_client::Error;
use kubewright_core::meta::v1::{Status, StatusCause, StatusDetails};
use kubewright_core::{DynamicObject, GroupVersionKind, Object, StatusReason};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::script::{Answer, Script, ended, errs, list_fails, listed, page, refused, watch_fails, watched};
use crate::support::{all_shown, named};

/// The outcome of a script.
pub struct Played {
    pub store: Store<DynamicObject>,
    pub reflector: Reflector<DynamicObject>,
    pub requests: Vec<String>,
    pub errors: Vec<String>,
}

impl Played {
    pub fn objects(&self) -> String {
        named(&self.store.snapshot()).join(" ")
    }
}

async fn play(script: Script) -> Played {
    play_with(script, ReflectorOptions::default(), Duration::from_secs(60)).await
}

pub async fn play_with(script: Script, options: ReflectorOptions<DynamicObject>, time: Duration) -> Played {
    let errors: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = errors.clone();
    let options = options.on_error(move |error: &ReflectorError| {
        let source = std::error::Error::source(error).map(|source| format!(": {source}")).unwrap_or_default();
        log.lock().unwrap().push(format!("{error}{source}"));
    });
    let store = Store::default();
    let reflector = Reflector::new(script.clone(), store.clone(), options);
    assert_eq!(reflector.health().state, HealthState::Idle);
    let stop = CancellationToken::new();
    let task = tokio::spawn({
        let (reflector, stop) = (reflector.clone(), stop.clone());
        async move { reflector.run(&stop).await }
    });
    sleep(time).await;
    let health = reflector.health();
    stop.cancel();
    // RE-4: it stops immediately, whatever it is waiting for.
    timeout(Duration::from_millis(1), task).await.expect("it stops").unwrap();
    assert_eq!(reflector.health().state, HealthState::Stopped);
    assert_ne!(health.state, HealthState::Idle);
    let errors = errors.lock().unwrap().clone();
    Played { store, reflector, requests: script.requests(), errors }
}

fn expired() -> Status {
    Status::expired("too old resource version")
}

// RE-1, RE-12, RE-14, RE-16: Go's TestReflectorListAndWatch and TestReflectorWatchHandler.
#[tokio::test(start_paused = true)]
async fn it_lists_then_watches_and_resumes_a_closed_watch() {
    let script = Script::new([listed("10", "a@1 b@2"), ended("+c@11 ~a@12 -b@13"), ended("=20"), watched("+d@21")]);
    let played = play(script).await;
    assert_eq!(played.requests, [r#"list "0" limit 500"#, r#"watch "10""#, r#"watch "13""#, r#"watch "20""#]);
    assert_eq!(played.objects(), "a@12 c@11 d@21");
    assert_eq!(played.store.resource_version(), "21");
    assert_eq!(played.reflector.last_sync_resource_version(), "21");
    assert!(played.errors.is_empty());
}

// RE-1, RE-7, RE-9: Go's …ResyncWithResourceVersion, …ExpiredExactResourceVersion.
#[tokio::test(start_paused = true)]
async fn a_forgotten_version_is_listed_from_then_given_up() {
    let script = Script::new([
        listed("10", "a@1 b@2"),
        errs("", expired()),
        list_fails(expired()),
        listed("30", "a@1"),
        errs("", expired()),
        listed("40", ""),
        watched(""),
    ]);
    let played = play(script).await;
    let lists: Vec<&String> = played.requests.iter().filter(|request| request.starts_with("list")).collect();
    assert_eq!(lists, [r#"list "0" limit 500"#, r#"list "10""#, r#"list "" limit 500"#, r#"list "30""#]);
    assert_eq!(played.objects(), "");
}

// RE-8: client-go's …FullListIfTooLarge, with the messages of three server generations.
#[tokio::test(start_paused = true)]
async fn a_version_that_the_server_has_not_reached_is_given_up() {
    let cause = StatusCause { reason: Some("ResourceVersionTooLarge".into()), ..StatusCause::default() };
    let details = StatusDetails { causes: [cause].into(), ..StatusDetails::default() };
    let newest = Status { details: Some(details.into()), ..Status::failure(StatusReason::Timeout, "x") };
    let cause = StatusCause { message: Some("Too large resource version".into()), ..StatusCause::default() };
    let details = StatusDetails { causes: [cause].into(), ..StatusDetails::default() };
    let newer = Status { details: Some(details.into()), ..Status::failure(StatusReason::Timeout, "x") };
    let old = Status::failure(StatusReason::Timeout, "Too large resource version: 20, current: 10");
    for error in [newest, newer, old] {
        let script =
            Script::new([listed("10", ""), errs("", expired()), list_fails(error), listed("8", "a@1"), watched("")]);
        let played = play(script).await;
        assert_eq!(played.requests[2..], [r#"list "10""#, r#"list "" limit 500"#, r#"watch "8""#]);
        assert_eq!(played.objects(), "a@1");
    }
}

// RE-6: Go's …WatchListPageSize, …NotPaginatingNotConsistentReads,
// …PaginatingNonConsistentReadsIfWatchCacheDisabled.
#[tokio::test(start_paused = true)]
async fn pages_where_they_do_not_cost_the_server_more() {
    let script = Script::new([
        page("10", "a@1", "next"),
        listed("10", "b@2"),
        errs("", expired()),
        // The list from "0" was paginated, so the server has no watch cache, and pagination stays
        // on.
        listed("20", "a@1"),
        watched(""),
    ]);
    let played = play(script).await;
    assert_eq!(played.requests[..2], [r#"list "0" limit 500"#, r#"list "-" limit 500 continue next"#]);
    assert_eq!(played.requests[3], r#"list "10" limit 500"#);
    let script = Script::new([page("10", "a@1", "next"), listed("10", "b@2"), watched("")]);
    let played = play_with(script, ReflectorOptions::default().page_size(4), Duration::from_secs(9)).await;
    assert_eq!(played.requests[0], r#"list "0" limit 4"#);
    assert_eq!(played.objects(), "a@1 b@2");
}

// RE-6: Go's …FullListIfExpired.
#[tokio::test(start_paused = true)]
async fn an_expired_continue_token_leads_to_a_full_list() {
    let script = Script::new([page("10", "a@1", "next"), list_fails(expired()), listed("11", "a@1 b@2"), watched("")]);
    let played = play(script).await;
    assert_eq!(played.requests[2], r#"list "0""#);
    assert_eq!(played.objects(), "a@1 b@2");
}

// RE-10, RE-11: Go's TestBackoffOnTooManyRequests, TestNoRelistOnTooManyRequests, …InitConnBackoff.
#[tokio::test(start_paused = true)]
async fn a_busy_or_absent_server_is_waited_for_without_another_list() {
    let busy = || Status::too_many_requests("busy", 3);
    let script = Script::new([
        listed("10", "a@1"),
        watch_fails(refused()),
        watch_fails(busy()),
        errs("+b@11", busy()),
        watched("+c@12"),
    ]);
    let start = Instant::now();
    let played = play(script).await;
    assert_eq!(
        played.requests,
        [r#"list "0" limit 500"#, r#"watch "10""#, r#"watch "10""#, r#"watch "10""#, r#"watch "11""#]
    );
    assert_eq!(played.objects(), "a@1 b@11 c@12");
    // The server's Retry-After wins if it is longer than the back-off.
    assert!(start.elapsed() >= Duration::from_secs(3 + 3));
    assert_eq!(played.errors.len(), 3);
}

// RE-11: Go's TestRetryInternalError: off, all fail, one succeeds.
#[tokio::test(start_paused = true)]
async fn internal_errors_are_retried_for_as_long_as_allowed() {
    let internal = || Status::failure(StatusReason::InternalError, "etcd");
    let answers = || [listed("10", ""), errs("+a@11", internal()), watched("+b@12")];
    let options = ReflectorOptions::default().retry_internal_errors_for(Duration::from_secs(5));
    let played = play_with(Script::new(answers()), options, Duration::from_secs(9)).await;
    assert_eq!(played.requests[1..], [r#"watch "10""#, r#"watch "11""#]);
    let mut answers: Vec<Answer> = answers().into();
    answers[2] = listed("12", "a@11 b@12");
    let played = play(Script::new(answers)).await;
    assert_eq!(played.requests[2], r#"list "11""#);
}

// RE-13
#[tokio::test(start_paused = true)]
async fn a_very_short_watch_is_an_error() {
    let script = Script::new([listed("10", "a@1"), ended(""), listed("10", "a@1"), watched("+b@11")]);
    let played = play(script).await;
    assert_eq!(played.errors, ["very short watch: it ended unexpectedly without events"]);
    assert_eq!(played.objects(), "a@1 b@11");
}

// RE-23: Go's TestReflectorReplacesStoreOnUnsafeDelete.
#[tokio::test(start_paused = true)]
async fn an_object_that_was_corrupt_and_deleted_leaves_with_the_next_list() {
    let corrupt = Status::failure(StatusReason::InternalError, "corrupt object deleted");
    let script = Script::new([listed("10", "a@1 b@2"), errs("~a@11", corrupt), listed("20", "a@11"), watched("")]);
    let played = play(script).await;
    assert_eq!(played.objects(), "a@11");
    assert_eq!(played.errors, ["cannot watch: corrupt object deleted"]);
}

// RE-15: bad events are skipped and reported, and the watch continues.
#[tokio::test(start_paused = true)]
async fn undecodable_objects_do_not_block_the_cache() {
    let options = ReflectorOptions::default().expect_kind(GroupVersionKind::new("example.com", "v1", "Foo"));
    let script = Script::new([listed("10", "a@1"), watched("+b@11 ?+x@12 +c@13")]);
    let played = play_with(script, options, Duration::from_secs(9)).await;
    assert_eq!(played.objects(), "a@1 b@11 c@13");
    assert_eq!(played.errors, ["cannot decode object default/x: expected a number"]);
    assert_eq!(played.reflector.health().skipped, 1);
    let options = ReflectorOptions::default().expect_kind(GroupVersionKind::new("example.com", "v1", "Other"));
    let script = Script::new([listed("10", "a@1"), watched("+b@11")]);
    let played = play_with(script, options, Duration::from_secs(9)).await;
    assert_eq!(played.objects(), "");
    assert_eq!(played.errors[0], "unexpected object default/a of kind example.com/v1, Kind=Foo");
    assert_eq!(played.reflector.last_sync_resource_version(), "10");
    // A stream that breaks at an object it cannot read is not resumed in a hot loop.
    let bad = (0..100).flat_map(|_| [listed("10", "a@1"), ended("?")]);
    let played = play(Script::new(bad)).await;
    assert!(played.requests.len() < 20, "{}", played.requests.len());
}

// RE-17: Go's TestReflectorResync.
#[tokio::test(start_paused = true)]
async fn resync_runs_while_the_watch_is_open() {
    let script = Script::new([listed("10", "a@1"), watched("")]);
    let queue = RealFifo::new(RealFifoOptions::default());
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let options = ReflectorOptions::default().resync_every(Duration::from_secs(10)).should_resync(move || {
        // The predicate allows every second resync.
        count.fetch_add(1, Ordering::Relaxed).is_multiple_of(2)
    });
    let reflector = Reflector::new(script, queue.clone(), options);
    let stop = CancellationToken::new();
    let (_, ()) = tokio::join!(timeout(Duration::from_secs(45), reflector.run(&stop)), async {
        let mut popped = Vec::new();
        for _ in 0..3 {
            popped.push(queue.pop(|deltas, _| all_shown(&deltas)).await.unwrap());
        }
        assert_eq!(popped, ["ReplacedAll a@1 at 10", "SyncAll", "SyncAll"]);
    });
    assert_eq!(asked.load(Ordering::Relaxed), 4);
}

// RE-2, RE-3: Go's TestWatchList and TestWatchListResourceVersion.
#[tokio::test(start_paused = true)]
async fn a_streaming_list_continues_as_the_watch() {
    let script = Script::new([watched("+a@1 +b@2 =5 ~a@6 -b@7 +c@8 !10 +d@11 ~c@12"), listed("0", "")]).streaming();
    let played = play(script).await;
    assert_eq!(played.requests, [r#"watch "" from the start"#]);
    assert_eq!(played.objects(), "a@6 c@12 d@11");
    assert_eq!(played.store.resource_version(), "12");
    assert_eq!(played.reflector.health().lists, 1);
}

// RE-3: the store changes only when the streaming list is complete.
#[tokio::test(start_paused = true)]
async fn a_streaming_list_is_all_or_nothing() {
    let script = Script::new([watched("+a@1 +b@2 =5")]).streaming();
    let played = play(script).await;
    assert_eq!((played.objects().as_str(), played.reflector.health().lists), ("", 0));
}

// RE-4: closed early, refused, busy, expired, and servers that cannot.
#[tokio::test(start_paused = true)]
async fn failures_of_a_streaming_list() {
    let whole = || watched("+a@1 !10");
    let start = r#"watch "" from the start"#;
    for (first, requests) in [
        (ended("+x@1"), &[start, start][..]),
        (watch_fails(refused()), &[start, start]),
        (watch_fails(Status::too_many_requests("busy", 1)), &[start, start]),
        (errs("+x@1", expired()), &[start, start]),
        (watch_fails(expired()), &[start, start]),
    ] {
        let played = play(Script::new([first, whole()]).streaming()).await;
        assert_eq!(played.requests, requests);
        assert_eq!(played.objects(), "a@1");
    }
    for error in
        [Status::failure(StatusReason::Invalid, "sendInitialEvents"), Status::forbidden(&Default::default(), "", "")]
    {
        let script = Script::new([watch_fails(error), listed("5", "a@1"), watched("+b@6")]).streaming();
        let played = play(script).await;
        assert_eq!(played.requests, [start, r#"list "0" limit 500"#, r#"watch "5""#]);
        assert_eq!(played.objects(), "a@1 b@6");
    }
    // After an expired version, the streaming list is requested from the last version first, then
    // without a version.
    let script = Script::new([errs("+a@1 !10", expired()), watch_fails(expired()), watched("+b@19 !20")]).streaming();
    let played = play(script).await;
    assert_eq!(played.requests, [start, r#"watch "10" from the start"#, start]);
    assert_eq!(played.objects(), "b@19");
}

// RE-4: after the back-off it lists again, and its health shows that.
#[tokio::test(start_paused = true)]
async fn a_streaming_list_that_begins_anew_is_one() {
    let script = Script::new([ended("+a@1"), ended("+a@1"), watched("+a@1")]).streaming();
    let reflector = Reflector::new(script.clone(), Store::default(), ReflectorOptions::default());
    let stop = CancellationToken::new();
    let looks = async {
        sleep(Duration::from_millis(1)).await;
        assert_eq!(reflector.health().state, HealthState::BackingOff);
        sleep(Duration::from_secs(60)).await;
        assert_eq!((reflector.health().state, script.requests().len()), (HealthState::Listing, 3));
        stop.cancel();
    };
    tokio::join!(reflector.run(&stop), looks);
}

// RE-5: Go's TestNewReflectorWithDisablementWatchList.
#[tokio::test(start_paused = true)]
async fn streaming_lists_can_be_turned_off() {
    let script = Script::new([listed("5", "a@1"), watched("")]).streaming();
    let options = ReflectorOptions::default().without_streaming_lists();
    let played = play_with(script, options, Duration::from_secs(9)).await;
    assert_eq!(played.requests[0], r#"list "0" limit 500"#);
}

// RE-18: each change exactly once, across streaming lists and relists.
#[tokio::test(start_paused = true)]
async fn each_state_of_an_object_is_transformed_once() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let options = ReflectorOptions::default().transform(Arc::new(move |mut object: DynamicObject| {
        counted.fetch_add(1, Ordering::Relaxed);
        assert!(object.metadata.labels.insert("seen", "yes".into()).is_none());
        if object.name() == "bad" { Err("bad".into()) } else { Ok(object) }
    }));
    let script = Script::new([errs("+a@1 +b@2 !10 ~a@11", expired()), watched("+a@11 +b@12 +bad@13 !20")]).streaming();
    let played = play_with(script, options, Duration::from_secs(60)).await;
    assert_eq!(count.load(Ordering::Relaxed), 2 + 1 + 2);
    assert_eq!(played.objects(), "a@11 b@12");
    assert_eq!(played.errors, ["cannot watch: too old resource version", "cannot transform default/bad: bad"]);
}

// RE-21: a relist reuses unchanged objects.
#[tokio::test(start_paused = true)]
async fn a_relist_reuses_unchanged_objects() {
    let busy = Status::failure(StatusReason::InternalError, "etcd");
    let script = Script::new([listed("10", "a@1 b@2"), errs("=11", busy), listed("20", "a@1 b@15"), watched("")]);
    let store = Store::default();
    let reflector = Reflector::new(script, store.clone(), ReflectorOptions::default());
    let stop = CancellationToken::new();
    let looked = async {
        while store.len() < 2 {
            tokio::task::yield_now().await;
        }
        store.snapshot()
    };
    let (_, before) = tokio::join!(timeout(Duration::from_secs(60), reflector.run(&stop)), looked);
    let same = |name| Arc::ptr_eq(before.get("default", name).unwrap(), store.snapshot().get("default", name).unwrap());
    assert!(same("a") && !same("b"));
}

// RE-22: errors are reported and reflected in the health.
#[tokio::test(start_paused = true)]
async fn health_reports_the_error_and_its_start() {
    let forbidden = || Error::from(Status::forbidden(&kubewright_core::GroupResource::new("", "pods"), "", "no"));
    let script = Script::new((0..20).map(|_| list_fails(forbidden())));
    let options = ReflectorOptions::default().backoff(ReflectorBackoff { jitter: 0.0, ..ReflectorBackoff::default() });
    let reflector = Reflector::new(script.clone(), Store::default(), options);
    let stop = CancellationToken::new();
    let start = Instant::now();
    let _ = timeout(Duration::from_secs(10), reflector.run(&stop)).await;
    // 0, 0.8, 2.4, 5.6 seconds.
    assert_eq!(script.requests().len(), 4);
    let health = reflector.health();
    let (error, at) = health.last_error.clone().unwrap();
    assert!(error.is_forbidden() && !health.is_healthy());
    assert_eq!((at - start).as_millis(), 5600);
    assert_eq!((health.failures, health.lists), (4, 0));
}

// RE-20: inconsistencies are reported without a panic.
#[tokio::test(start_paused = true)]
async fn a_streaming_list_can_be_verified() {
    let options = || ReflectorOptions::default().verify_streaming_lists();
    let script = Script::new([watched("+a@1 +b@2 !10"), listed("10", "a@1 b@2")]).streaming();
    let played = play_with(script, options(), Duration::from_secs(9)).await;
    assert_eq!(played.requests[1], r#"list "10""#);
    assert!(played.errors.is_empty());
    for other in ["a@1", "a@1 b@3", "a@1 b@2 c@3"] {
        let script = Script::new([watched("+a@1 +b@2 !10"), listed("10", other)]).streaming();
        let played = play_with(script, options(), Duration::from_secs(9)).await;
        assert!(played.errors[0].starts_with("a streaming list at version 10 differs from a plain one, in default/"));
        assert_eq!(played.objects(), "a@1 b@2");
    }
}
