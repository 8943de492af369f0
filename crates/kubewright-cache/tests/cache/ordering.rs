//! Guarantees of informers about time and order.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use kubewright_cache::{
    Event, HandlerOptions, Informer, InformerOptions, ReflectorOptions, SharedIndexInformer, UnsupportedOption,
};
use kubewright_core::{DynamicObject, GroupVersionResource};
use tokio::time::{sleep, timeout};

use crate::informer::{Log, Running, informer, logging, shown, taken};
use crate::mutable_server::Live;
use crate::script::{Script, listed, watched};

// RF-11, SI-4, SI-5: a batch is in the cache as a whole before its first event is delivered.
#[tokio::test(start_paused = true)]
async fn the_cache_may_be_newer_than_delivered_events_but_never_older() {
    let script = Script::new([listed("10", "a@1"), watched("+b@11 +c@12 ~a@13")]);
    let informer = SharedIndexInformer::new(script, InformerOptions::default());
    let told: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
    let (log, store) = (told.clone(), informer.store().clone());
    let handler = move |event: &Event<DynamicObject>| {
        log.lock().unwrap().push((shown(event), store.resource_version().to_string()));
    };
    let _handler = informer.add_handler(handler).unwrap();
    let running = Running::start(informer);
    sleep(Duration::from_secs(1)).await;
    let told = told.lock().unwrap().clone();
    let events: Vec<&str> = told.iter().map(|(event, _)| event.as_str()).collect();
    assert_eq!(events, ["+a@1*", "+b@11", "+c@12", "~a@1>13"]);
    assert!(told[1..].iter().all(|(_, version)| version == "13"), "{told:?}");
    running.stop().await;
}

// SI-8: a handler is resynced at most once a second.
#[tokio::test(start_paused = true)]
async fn the_shortest_period_is_a_second() {
    let server = Live::new();
    server.put("a");
    let options = InformerOptions::default().resync_every(Duration::from_millis(10));
    let informer = SharedIndexInformer::new(server, options);
    let (own, shared) = (Log::default(), Log::default());
    let shorter = HandlerOptions::default().resync_every(Duration::from_millis(20));
    let _own = informer.add_handler_with(logging(&own), shorter).unwrap();
    let _shared = informer.add_handler(logging(&shared)).unwrap();
    let running = Running::start(informer);
    sleep(Duration::from_millis(10_500)).await;
    assert_eq!((taken(&own).len(), taken(&shared).len()), (1 + 10, 1 + 10));
    running.stop().await;
}

// SI-13: client-go's TestShutDownEventHandler_Lifecycles: the call in progress is awaited, and
// queued events are dropped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_is_shut_down_when_its_call_has_returned() {
    let server = Live::new();
    ["a", "b", "c"].iter().for_each(|name| server.put(name));
    let informer = informer(&server);
    let log = Log::default();
    let (begun, has_begun) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let mut told = logging(&log);
    let handler = informer
        .add_handler(move |event: &Event<DynamicObject>| {
            told(event);
            begun.send(()).unwrap();
            // An error is the end of the test.
            let _ = released.recv();
        })
        .unwrap();
    let running = Running::start(informer);
    tokio::task::spawn_blocking(move || has_begun.recv()).await.unwrap().unwrap();
    handler.remove();
    let mut shutting = tokio::spawn(async move { handler.shut_down().await });
    assert!(timeout(Duration::from_millis(50), &mut shutting).await.is_err(), "its call has not returned");
    release.send(()).unwrap();
    timeout(Duration::from_secs(10), shutting).await.expect("it has").unwrap();
    assert_eq!(taken(&log), ["+a@1*"]);
    running.stop().await;
}

// SI-19: a synced informer stays synced after it stops, and one that was not synced never becomes
// so.
#[tokio::test(start_paused = true)]
async fn a_stopped_informer_reports_whether_it_had_synced() {
    let server = Live::new();
    server.put("a");
    let synced = informer(&server);
    let handler = synced.add_handler(|_: &Event<DynamicObject>| {}).unwrap();
    let running = Running::start(synced.clone());
    assert!(handler.synced().await);
    running.stop().await;
    assert!(synced.synced().await && handler.synced().await);
    let never = SharedIndexInformer::<DynamicObject>::new(Script::new([]), InformerOptions::default());
    let handler = never.add_handler(|_: &Event<DynamicObject>| {}).unwrap();
    let running = Running::start(never.clone());
    let (asked, ()) = tokio::join!(async { never.synced().await || handler.synced().await }, running.stop());
    assert!(!asked);
}

#[tokio::test(start_paused = true)]
async fn the_resync_period_of_reflector_options_applies_to_shared_informers() {
    // RE-17
    let server = Live::new();
    server.put("a");
    let allowed = Arc::new(AtomicBool::new(true));
    let asked = allowed.clone();
    let reflector = ReflectorOptions::default()
        .resync_every(Duration::from_secs(10))
        .should_resync(move || asked.load(Ordering::Relaxed));
    let informer = SharedIndexInformer::new(server, InformerOptions::default().reflector(reflector));
    let resyncs = Arc::new(AtomicUsize::new(0));
    let counted = resyncs.clone();
    let count = move |event: &Event<DynamicObject>| {
        counted.fetch_add(usize::from(event.is_resync()), Ordering::Relaxed);
    };
    informer.add_handler(count).unwrap();
    let running = Running::start(informer);
    sleep(Duration::from_secs(25)).await;
    assert_eq!(resyncs.load(Ordering::Relaxed), 2);
    allowed.store(false, Ordering::Relaxed);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(resyncs.load(Ordering::Relaxed), 2, "`should_resync` said no");
    running.stop().await;
}

#[tokio::test]
async fn an_option_that_an_informer_does_not_have_is_an_error() {
    let foos = GroupVersionResource::new("example.com", "v1", "foos");
    let options = InformerOptions::<DynamicObject>::default().resource(foos);
    let refused = Informer::new(Live::new(), |_: &Event<DynamicObject>| {}, options).err();
    assert_eq!(refused, Some(UnsupportedOption { option: "resource" }));
}
