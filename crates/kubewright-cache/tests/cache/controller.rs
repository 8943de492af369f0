//! The low-level controller and the unshared informer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kubewright_cache::{
    Config, Controller, DeltaFifo, DeltaFifoOptions, Event, Fifo, Indexers, Informer, InformerOptions, Queue,
    QueueKind, RealFifo, RealFifoOptions, ReflectorOptions, Store,
};
use kubewright_core::{DynamicObject, Object, Str};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::informer::{Log, logging, shown, taken};
use crate::mutable_server::Live;
use crate::script::{Script, listed, watched};
use crate::support::{all_shown, named};

// SI-1: client-go's Example: a controller over a DeltaFIFO whose process function maintains the
// store.
#[tokio::test(start_paused = true)]
async fn a_controller_processes_the_popped_deltas() {
    let server = Live::new();
    server.put("a");
    let store = Store::<DynamicObject>::default();
    let queue = Arc::new(DeltaFifo::new(DeltaFifoOptions::default().known_objects(store.clone())));
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let (log, target) = (seen.clone(), store.clone());
    let mut panics = true;
    let controller = Controller::new(Config {
        queue,
        lister_watcher: Box::new(server.clone()),
        process: Box::new(move |deltas, is_in_initial_list| {
            log.lock().unwrap().push(format!("{} {is_in_initial_list}", all_shown(&deltas)));
            // SI-17: processing continues a second after a panic.
            if std::mem::take(&mut panics) {
                panic!("once");
            }
            for object in deltas.iter().filter(|delta| !delta.is_deletion()).filter_map(|delta| delta.object()) {
                target.add(object.clone());
            }
            Ok(())
        }),
        reflector: ReflectorOptions::default().name("foos"),
        retry_on_error: false,
    });
    assert!(!controller.has_synced());
    let stop = CancellationToken::new();
    let (ran, ()) = tokio::join!(timeout(Duration::from_secs(60), controller.run(&stop)), async {
        sleep(Duration::from_secs(1)).await;
        assert!(controller.has_synced());
        server.put("b");
        sleep(Duration::from_secs(2)).await;
        stop.cancel();
    });
    assert!(ran.is_ok());
    assert_eq!(*seen.lock().unwrap(), ["Sync a@1 true", "Added b@2 false"]);
    assert_eq!(controller.last_sync_resource_version(), "2");
    assert_eq!(named(&store.snapshot()), ["b@2"]);
    timeout(Duration::from_secs(1), controller.run(&stop)).await.expect("it runs once");
}

// SI-2, RF-4: client-go's TestReplaceEvents, and resyncs for the single handler.
#[tokio::test(start_paused = true)]
async fn an_unshared_informer_calls_one_handler() {
    let server = Live::streaming();
    ["a", "b", "c"].iter().for_each(|name| server.put(name));
    let log = Log::default();
    let options = InformerOptions::default().resync_every(Duration::from_secs(30));
    let informer = Informer::new(server.clone(), logging(&log), options).unwrap();
    let stop = CancellationToken::new();
    let (ran, ()) = tokio::join!(timeout(Duration::from_secs(600), informer.controller().run(&stop)), async {
        sleep(Duration::from_secs(1)).await;
        assert_eq!(taken(&log), ["+a@1*", "+b@2*", "+c@3*"]);
        server.cut();
        server.delete("a");
        server.put("c");
        server.put("d");
        server.forget();
        sleep(Duration::from_secs(10)).await;
        assert_eq!(taken(&log), ["xa@1", "~c@3>5", "+d@6", "~b@2>2"]);
        assert_eq!(named(&informer.store().snapshot()), ["b@2", "c@5", "d@6"]);
        sleep(Duration::from_secs(31)).await;
        let mut reminders = taken(&log);
        reminders.sort();
        assert_eq!(reminders, ["~b@2>2", "~c@5>5", "~d@6>6"]);
        stop.cancel();
    });
    assert!(ran.is_ok());
    assert_eq!(server.watches(), 0);
}

// SI-12: a full channel blocks the informer, which has synced when the whole initial list was
// received.
#[tokio::test(start_paused = true)]
async fn an_unshared_informer_waits_for_its_handler() {
    let server = Live::new();
    ["a", "b", "c"].iter().for_each(|name| server.put(name));
    let (sender, mut events) = mpsc::channel(1);
    let informer = Informer::new(server.clone(), sender, InformerOptions::default()).unwrap();
    let stop = CancellationToken::new();
    let (ran, ()) = tokio::join!(timeout(Duration::from_secs(600), informer.controller().run(&stop)), async {
        sleep(Duration::from_secs(1)).await;
        assert_eq!(named(&informer.store().snapshot()), ["a@1", "b@2", "c@3"]);
        server.put("d");
        server.delete("a");
        let mut told = Vec::new();
        for count in 0..5 {
            // One is in the channel.
            assert_eq!(informer.controller().has_synced(), count > 1, "{count}");
            told.push(shown(&events.recv().await.unwrap()));
            sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(told, ["+a@1*", "+b@2*", "+c@3*", "+d@4", "-a@5"]);
        // It stops also while it waits.
        ["e", "f"].iter().for_each(|name| server.put(name));
        sleep(Duration::from_secs(1)).await;
        stop.cancel();
    });
    assert!(ran.is_ok());
}

// SI-10: only the event at which the handler panicked is skipped.
#[tokio::test(start_paused = true)]
async fn a_panic_skips_one_event_of_an_unshared_informer() {
    let server = Live::new();
    ["a", "b", "c"].iter().for_each(|name| server.put(name));
    let log = Log::default();
    let mut told = logging(&log);
    let handler = move |event: &Event<DynamicObject>| match event.key().name().as_str() {
        "b" => panic!("no b"),
        _ => told(event),
    };
    let informer = Arc::new(Informer::new(server.clone(), handler, InformerOptions::default()).unwrap());
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let (informer, stop) = (informer.clone(), stop.clone());
        async move { informer.controller().run(&stop).await }
    });
    sleep(Duration::from_secs(1)).await;
    assert_eq!(taken(&log), ["+a@1*", "+c@3*"]);
    assert!(informer.controller().has_synced());
    stop.cancel();
    timeout(Duration::from_secs(1), running).await.expect("it stops").unwrap();
}

// SI-17, ST-6: objects of the initial list that a panicking index function lost are listed again,
// and only then has the informer synced.
#[tokio::test(start_paused = true)]
async fn an_unshared_informer_that_lost_part_of_its_list_has_not_synced() {
    let server = Live::new();
    ["a", "bad"].iter().for_each(|name| server.put(name));
    let is_bad = Arc::new(AtomicBool::new(true));
    let fails = is_bad.clone();
    let indexers = Indexers::new().with("x", move |object: &DynamicObject| {
        assert!(object.name() != "bad" || !fails.load(Ordering::Relaxed), "bad object");
        [Str::from(object.name())]
    });
    let log = Log::default();
    let options = InformerOptions::default().indexers(indexers);
    let informer = Arc::new(Informer::new(server.clone(), logging(&log), options).unwrap());
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let (informer, stop) = (informer.clone(), stop.clone());
        async move { informer.controller().run(&stop).await }
    });
    for _ in 0..5 {
        sleep(Duration::from_secs(3)).await;
        assert!(!informer.controller().has_synced());
    }
    // Lost objects do not cause a list every second.
    let lists = informer.controller().health().lists;
    assert!((3..=6).contains(&lists), "{lists}");
    is_bad.store(false, Ordering::Relaxed);
    sleep(Duration::from_secs(60)).await;
    assert!(informer.controller().has_synced());
    assert_eq!(named(&informer.store().snapshot()), ["a@1", "bad@2"]);
    assert_eq!(taken(&log).len(), 2);
    // Later losses are restored too, and do not revert `has_synced`.
    is_bad.store(true, Ordering::Relaxed);
    server.put("bad");
    sleep(Duration::from_secs(3)).await;
    assert!(informer.controller().has_synced());
    is_bad.store(false, Ordering::Relaxed);
    sleep(Duration::from_secs(120)).await;
    assert_eq!(named(&informer.store().snapshot()), ["a@1", "bad@3"]);
    stop.cancel();
    timeout(Duration::from_secs(1), running).await.expect("it stops").unwrap();
}

// The queue kind also applies to an unshared informer.
#[tokio::test(start_paused = true)]
async fn an_informer_uses_the_queue_of_its_options() {
    for (queue, expected) in [
        (QueueKind::InOrder, "+a@1* +b@2* ~a@1>11 xb@2 +c@13"),
        // All changes of one object are popped together.
        (QueueKind::DeltaFifo, "+a@1* ~a@1>11 +b@2* xb@2 +c@13"),
    ] {
        let script = Script::new([listed("10", "a@1 b@2"), watched("~a@11 ?-b@12 +c@13 =20")]);
        let log = Log::default();
        let informer = Informer::new(script, logging(&log), InformerOptions::default().queue(queue)).unwrap();
        let stop = CancellationToken::new();
        let _ = timeout(Duration::from_secs(1), informer.controller().run(&stop)).await;
        assert_eq!(taken(&log).join(" "), expected, "{queue:?}");
        assert_eq!(informer.store().resource_version(), "20", "{queue:?}");
    }
}

/// Runs a controller whose process function fails or panics a few times for `b`, and returns the
/// processed deltas.
async fn retried(queue: Arc<dyn Queue<DynamicObject>>) -> Vec<String> {
    let script = Script::new([listed("10", "a@1 b@2"), watched("~b@11 +c@12")]);
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = seen.clone();
    let mut failures = 0;
    let controller = Controller::new(Config {
        queue,
        lister_watcher: Box::new(script),
        process: Box::new(move |deltas, is_in_initial_list| {
            if all_shown(&deltas).contains("b@") && failures < 4 {
                failures += 1;
                assert!(failures % 2 == 0, "every other time it panics");
                return Err("not yet".into());
            }
            log.lock().unwrap().push(format!("{} {is_in_initial_list}", all_shown(&deltas)));
            Ok(())
        }),
        reflector: ReflectorOptions::default(),
        retry_on_error: true,
    });
    let stop = CancellationToken::new();
    let looks = async {
        sleep(Duration::from_millis(3500)).await;
        assert!(!controller.has_synced(), "b is part of the first list");
        sleep(Duration::from_secs(10)).await;
        assert!(controller.has_synced());
        stop.cancel();
    };
    tokio::join!(controller.run(&stop), looks);
    std::mem::take(&mut seen.lock().unwrap())
}

// client-go's RetryOnError: deltas that cannot be processed are put back and never lost.
#[tokio::test(start_paused = true)]
async fn deltas_that_cannot_be_processed_are_retried() {
    let in_order = retried(Arc::new(RealFifo::new(RealFifoOptions::default().item_by_item()))).await;
    assert_eq!(in_order, ["Replaced a@1, Replaced b@2 true", "Updated b@11, Added c@12 false"]);
    let by_key = retried(Arc::new(DeltaFifo::new(DeltaFifoOptions::default().emit_replaced()))).await;
    // The newer delta of `b` stays behind the older one.
    assert_eq!(by_key, ["Replaced a@1 true", "Added c@12 true", "Replaced b@2, Updated b@11 true"]);
    let newest = retried(Arc::new(Fifo::new())).await;
    assert_eq!(newest, ["Updated a@1 true", "Updated c@12 true", "Updated b@11 true"]);
}
