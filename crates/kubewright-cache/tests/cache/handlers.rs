//! Handlers of shared informers: filters, full buffers, panics, and many handlers.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kubewright_cache::{
    BoxFuture, Deleted, Event, EventHandler, FilteringHandler, HandlerOptions, HandlerRegistration, InformerOptions,
    OnPanic, Overflow, SharedIndexInformer,
};
use kubewright_core::{DynamicObject, Object};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use crate::informer::{Log, Running, informer, logging, settle, shown, taken};
use crate::mutable_server::Live;
use crate::script::{Script, listed, watched};

// SI-18
#[tokio::test(start_paused = true)]
async fn a_filter_turns_changes_into_coming_and_going() {
    let log = Log::default();
    // Objects pass at even versions.
    let even = |object: &DynamicObject| object.resource_version().parse::<u64>().unwrap() % 2 == 0;
    let mut handler = FilteringHandler::new(even, logging(&log));
    let o = |version: u64| crate::support::object("a", version);
    let updated = |old, new| Event::Updated { old: o(old), new: o(new) };
    for event in [
        Event::Added { object: o(1), is_in_initial_list: true },
        Event::Added { object: o(2), is_in_initial_list: true },
        updated(2, 4),
        updated(4, 5),
        updated(5, 7),
        updated(7, 8),
        Event::Deleted(Deleted::Final(o(9))),
        Event::Deleted(Deleted::Final(o(10))),
        Event::Deleted(Deleted::LastKnown { key: o(1).key(), object: None }),
    ] {
        handler.on_event(&event);
    }
    assert_eq!(taken(&log), ["+a@2*", "~a@2>4", "xa@4", "+a@8", "-a@10", "xa@?"]);
}

/// A handler that accepts an event only when the test permits it.
fn stalled(
    informer: &SharedIndexInformer<DynamicObject>,
    options: HandlerOptions,
) -> (HandlerRegistration, mpsc::Receiver<Event<DynamicObject>>) {
    let (sender, receiver) = mpsc::channel(1);
    (informer.add_handler_with(sender, options).unwrap(), receiver)
}

async fn drained(receiver: &mut mpsc::Receiver<Event<DynamicObject>>) -> Vec<String> {
    let mut all = Vec::new();
    while let Ok(Some(event)) = timeout(Duration::from_secs(1), receiver.recv()).await {
        all.push(shown(&event));
    }
    all
}

// SI-9: the informer yields to its handlers while it reads a long stream, so their buffers stay
// small.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_watch_that_always_has_more_leaves_handlers_their_turns() {
    const EVENTS: u64 = 20_000;
    let changes: Vec<String> = (11..=10 + EVENTS).map(|version| format!("~o{}@{version}", version % 500)).collect();
    let script = Script::new([listed("10", "a@1"), watched(&changes.join(" "))]);
    let informer = SharedIndexInformer::new(script, InformerOptions::default());
    let version = |text: &str| text.parse::<u64>().unwrap();
    let (store, furthest) = (informer.store().clone(), Arc::new(AtomicU64::new(0)));
    let (sender, mut last) = mpsc::unbounded_channel();
    let behind = furthest.clone();
    let watching = move |event: &Event<DynamicObject>| {
        let seen = version(event.object().unwrap().resource_version());
        let now = version(store.snapshot().resource_version().as_str());
        behind.fetch_max(now.saturating_sub(seen.max(10)), Ordering::Relaxed);
        if seen == 10 + EVENTS {
            sender.send(()).unwrap();
        }
    };
    let _handler = informer.add_handler(watching).unwrap();
    let running = Running::start(informer);
    last.recv().await.unwrap();
    let furthest = furthest.load(Ordering::Relaxed);
    // Without yielding, this would be nearly all events.
    assert!(furthest < EVENTS / 4, "a handler was {furthest} changes behind");
    running.stop().await;
}

// SI-9: a stalled handler does not delay others, and later sees each object once.
#[tokio::test(start_paused = true)]
async fn a_stalled_handler_is_given_the_difference() {
    let server = Live::new();
    ["a", "b", "c"].iter().for_each(|name| server.put(name));
    let informer = informer(&server);
    let (handler, mut events) = stalled(&informer, HandlerOptions::default().buffer(4));
    let log = Log::default();
    informer.add_handler(logging(&log)).unwrap();
    let running = Running::start(informer);
    assert!(running.informer.synced().await);
    for _ in 0..20 {
        server.put("a");
        settle().await;
    }
    server.delete("b");
    settle().await;
    server.put("d");
    settle().await;
    server.delete("c");
    server.put("c");
    settle().await;
    assert_eq!(taken(&log).len(), 3 + 20 + 1 + 1 + 2);
    assert!(handler.is_behind());
    assert_eq!(handler.lag(), 4);
    assert!(!handler.has_synced());
    let told = drained(&mut events).await;
    let (list, rest) = told.split_at(3);
    assert_eq!(list, ["+a@1*", "+b@2*", "+c@3*"]);
    let mut rest = rest.to_vec();
    rest.sort();
    assert_eq!(rest, ["+c@27*", "+d@25*", "xb@2", "xc@3", "~a@1>23"]);
    assert!(handler.has_synced() && !handler.is_behind() && handler.lag() == 0);
    server.put("a");
    assert_eq!(drained(&mut events).await, ["~a@23>28"]);
    running.stop().await;
}

// SI-9: half a buffer of changes is delivered one by one, the rest as one difference from there.
#[tokio::test(start_paused = true)]
async fn a_lagging_handler_gets_each_change_up_to_the_buffer_limit() {
    let server = Live::new();
    server.put("a");
    let informer = informer(&server);
    let (handler, mut events) = stalled(&informer, HandlerOptions::default().buffer(8));
    let running = Running::start(informer);
    assert!(running.informer.synced().await);
    for _ in 0..20 {
        server.put("a");
        settle().await;
    }
    assert!(handler.is_behind());
    assert_eq!(handler.lag(), 4 + 1);
    let told = drained(&mut events).await;
    assert_eq!(told, ["+a@1*", "~a@1>2", "~a@2>3", "~a@3>4", "~a@4>5", "~a@5>6", "~a@6>21"]);
    // After catching up, the listener has no mark.
    server.put("a");
    assert_eq!(drained(&mut events).await, ["~a@21>22"]);
    assert!(!handler.is_behind() && handler.lag() == 0);
    running.stop().await;
}

// SI-9: with `Replay`, all objects are delivered again.
#[tokio::test(start_paused = true)]
async fn a_stalled_handler_can_be_replayed() {
    let server = Live::new();
    ["a", "b"].iter().for_each(|name| server.put(name));
    let informer = informer(&server);
    let (_handler, mut events) = stalled(&informer, HandlerOptions::default().buffer(1).overflow(Overflow::Replay));
    let running = Running::start(informer);
    running.informer.synced().await;
    for _ in 0..5 {
        server.put("a");
        settle().await;
    }
    let mut told = drained(&mut events).await;
    told.sort();
    assert_eq!(told, ["+a@1*", "+b@2*", "~a@1>7", "~b@2>2"]);
    running.stop().await;
}

// SI-9: with `Block`, the informer waits and no event is dropped; removing the handler unblocks the
// others.
#[tokio::test(start_paused = true)]
async fn a_blocking_handler_gets_every_event() {
    let server = Live::new();
    let informer = informer(&server);
    let options = HandlerOptions::default().buffer(2).overflow(Overflow::Block);
    let (handler, mut events) = stalled(&informer, options);
    let running = Running::start(informer);
    running.informer.synced().await;
    for _ in 0..10 {
        server.put("a");
        settle().await;
    }
    assert!(running.informer.store().resource_version() != "10");
    assert_eq!(drained(&mut events).await.len(), 10);
    assert_eq!(running.informer.store().resource_version(), "10");
    for _ in 0..10 {
        server.put("a");
        settle().await;
    }
    handler.remove();
    settle().await;
    assert_eq!(running.informer.store().resource_version(), "20");
    running.stop().await;
}

// SI-9, SI-14: handlers that share a full channel take turns, and none loses an event.
#[tokio::test(start_paused = true)]
async fn handlers_may_share_a_channel() {
    let server = Live::new();
    (0..20).for_each(|at| server.put(&format!("o{at}")));
    for room in [1, 2, 3] {
        let informer = informer(&server);
        let (sender, mut events) = mpsc::channel(room);
        let all = |_: &DynamicObject| true;
        informer.add_handler(sender.clone()).unwrap();
        informer.add_handler(FilteringHandler::new(all, sender.clone())).unwrap();
        informer.add_handler(sender).unwrap();
        let running = Running::start(informer);
        running.informer.synced().await;
        settle().await;
        assert_eq!(drained(&mut events).await.len(), 3 * 20, "{room}");
        // A dropped receiver blocks no handler.
        drop(events);
        server.put("o0");
        settle().await;
        running.stop().await;
    }
}

/// Panics in `ready`.
struct Impatient;

impl EventHandler<DynamicObject> for Impatient {
    fn on_event(&mut self, _: &Event<DynamicObject>) {}

    fn is_ready(&self) -> bool {
        false
    }

    fn ready(&mut self) -> BoxFuture<'_, ()> {
        panic!("no patience")
    }
}

// SI-10
#[tokio::test(start_paused = true)]
async fn a_panic_while_a_handler_waits_is_one_of_the_handler() {
    let server = Live::new();
    ["a", "b"].iter().for_each(|name| server.put(name));
    let informer = informer(&server);
    let handler = informer.add_handler(Impatient).unwrap();
    let running = Running::start(informer);
    assert!(handler.synced().await);
    assert_eq!(handler.panics(), 2);
    running.stop().await;
}

// SI-10: client-go's TestEventPanics; the handler syncs nevertheless.
#[tokio::test(start_paused = true)]
async fn a_handler_continues_after_a_panic_which_is_counted() {
    for (policy, expected) in [
        (OnPanic::Skip, vec!["+a@1*", "+c@3*", "+d@4"]),
        (OnPanic::Remove, vec!["+a@1*"]),
        (OnPanic::Replay, vec!["+a@1*", "+a@1*", "+b@2*", "+c@3*", "+d@4"]),
    ] {
        let server = Live::new();
        ["a", "b", "c"].iter().for_each(|name| server.put(name));
        let informer = informer(&server);
        let log = Log::default();
        let mut told = logging(&log);
        let mut panics = 1;
        let handler = move |event: &Event<DynamicObject>| {
            if *event.key().name() == "b" && panics > 0 {
                panics -= 1;
                panic!("no b");
            }
            told(event);
        };
        let handler = informer.add_handler_with(handler, HandlerOptions::default().on_panic(policy)).unwrap();
        let other = Log::default();
        informer.add_handler(logging(&other)).unwrap();
        let running = Running::start(informer);
        assert_eq!(handler.synced().await, policy != OnPanic::Remove, "{policy:?}");
        sleep(Duration::from_secs(2)).await;
        server.put("d");
        settle().await;
        let mut all = taken(&log);
        // The order of a replay is unspecified.
        if policy == OnPanic::Replay {
            all[1..4].sort();
        }
        assert_eq!(all, expected, "{policy:?}");
        assert_eq!(handler.panics(), 1);
        assert_eq!(taken(&other).len(), 4);
        running.stop().await;
    }
}

// SI-10: the events after a panic in a batch are not lost, deletions in particular.
#[tokio::test(start_paused = true)]
async fn a_replay_after_a_panic_starts_from_the_last_completed_event() {
    let server = Live::new();
    ["a", "b"].iter().for_each(|name| server.put(name));
    let informer = informer(&server);
    let log = Log::default();
    let mut told = logging(&log);
    let mut panics = 2;
    let handler = move |event: &Event<DynamicObject>| {
        if *event.key().name() == "c" && panics > 0 {
            panics -= 1;
            panic!("no c");
        }
        told(event);
    };
    let handler = informer.add_handler_with(handler, HandlerOptions::default().on_panic(OnPanic::Replay)).unwrap();
    let running = Running::start(informer);
    assert!(handler.synced().await);
    taken(&log);
    // Both changes are in one batch.
    server.put("c");
    server.delete("a");
    settle().await;
    assert_eq!((taken(&log).len(), handler.panics()), (0, 1));
    // Another change, during the delay before the replay.
    server.delete("b");
    sleep(Duration::from_secs(5)).await;
    let mut all = taken(&log);
    all.sort();
    // The first replay stopped after the deletions.
    assert_eq!(all, ["+c@3", "xa@1", "xa@1", "xb@2", "xb@2"]);
    assert_eq!(handler.panics(), 2);
    server.put("c");
    settle().await;
    assert_eq!(taken(&log), ["~c@3>6"]);
    running.stop().await;
}

// SI-10, SI-12: a late handler gets the initial list as one batch, and has synced when all of it
// was delivered.
#[tokio::test(start_paused = true)]
async fn a_batch_that_a_panic_cut_short_is_replayed() {
    let server = Live::new();
    ["a", "b", "c"].iter().for_each(|name| server.put(name));
    let running = Running::start(informer(&server));
    assert!(running.informer.synced().await);
    for policy in [OnPanic::Skip, OnPanic::Replay, OnPanic::Remove] {
        let seen: Arc<Mutex<BTreeSet<String>>> = Arc::default();
        let (told, mut panics) = (seen.clone(), 1);
        let handler = move |event: &Event<DynamicObject>| {
            if std::mem::take(&mut panics) > 0 {
                panic!("not the first");
            }
            told.lock().unwrap().insert(shown(event));
        };
        let options = HandlerOptions::default().on_panic(policy);
        let handler = running.informer.add_handler_with(handler, options).unwrap();
        assert_eq!(handler.synced().await, policy != OnPanic::Remove, "{policy:?}");
        let expected = match policy {
            OnPanic::Skip => 2,
            OnPanic::Replay => 3,
            OnPanic::Remove => 0,
        };
        let seen = seen.lock().unwrap();
        assert_eq!(seen.len(), expected, "{policy:?}: {seen:?}");
        assert!(seen.iter().all(|event| event.starts_with('+') && event.ends_with('*')), "{seen:?}");
    }
    running.stop().await;
}

// SI-9, SI-11: ten handlers share their events.
#[tokio::test(start_paused = true)]
async fn events_are_shared_by_all_handlers() {
    let server = Live::new();
    (0..100).for_each(|at| server.put(&format!("o{at}")));
    let informer = informer(&server);
    let kept: Vec<_> = (0..10)
        .map(|_| {
            let kept: Arc<Mutex<Vec<Arc<DynamicObject>>>> = Arc::default();
            let into = kept.clone();
            let handler = move |event: &Event<DynamicObject>| into.lock().unwrap().extend(event.object().cloned());
            informer.add_handler(handler).unwrap();
            kept
        })
        .collect();
    let running = Running::start(informer);
    running.informer.synced().await;
    settle().await;
    let snapshot = running.informer.store().snapshot();
    for kept in &kept {
        let kept = kept.lock().unwrap();
        assert_eq!(kept.len(), 100);
        assert!(kept.iter().all(|object| Arc::ptr_eq(object, snapshot.get("default", object.name()).unwrap())));
    }
    running.stop().await;
}
