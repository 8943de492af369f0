//! Shared informers: adding and removing handlers, resyncs, relists and shutdown.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kubewright_cache::{
    Deleted, Event, HandlerOptions, Indexers, InformerOptions, QueueKind, Recreated, ReflectorOptions,
    SharedIndexInformer,
};
use kubewright_core::{DynamicObject, Object};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::mutable_server::Live;
use crate::script::{Script, errs, listed, watched};
use crate::support::named;

pub type Log = Arc<Mutex<Vec<String>>>;

/// An event as `+a@1`, `~a@1>2`, `-a@3`, `x a@2` for a tombstone; `*` marks the initial list.
pub fn shown(event: &Event<DynamicObject>) -> String {
    match event {
        Event::Added { object, is_in_initial_list } => {
            let mark = if *is_in_initial_list { "*" } else { "" };
            format!("+{}@{}{mark}", object.name(), object.resource_version())
        }
        Event::Updated { old, new } => {
            format!("~{}@{}>{}", new.name(), old.resource_version(), new.resource_version())
        }
        Event::Deleted(Deleted::Final(object)) => format!("-{}@{}", object.name(), object.resource_version()),
        Event::Deleted(Deleted::LastKnown { key, object }) => {
            format!("x{}@{}", key.name(), object.as_ref().map_or("?", |object| object.resource_version()))
        }
    }
}

/// A handler that logs its events.
pub fn logging(log: &Log) -> impl FnMut(&Event<DynamicObject>) + Send + 'static {
    let log = log.clone();
    move |event| log.lock().unwrap().push(shown(event))
}

pub fn taken(log: &Log) -> Vec<String> {
    std::mem::take(&mut *log.lock().unwrap())
}

pub struct Running {
    pub informer: SharedIndexInformer<DynamicObject>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    pub fn start(informer: SharedIndexInformer<DynamicObject>) -> Self {
        let stop = CancellationToken::new();
        let task = tokio::spawn({
            let (informer, stop) = (informer.clone(), stop.clone());
            async move { informer.run(&stop).await }
        });
        Running { informer, stop, task }
    }

    pub async fn stop(self) {
        self.stop.cancel();
        timeout(Duration::from_secs(1), self.task).await.expect("it stops at once").unwrap();
        assert!(self.informer.is_stopped());
    }
}

pub fn informer(server: &Live) -> SharedIndexInformer<DynamicObject> {
    SharedIndexInformer::new(server.clone(), InformerOptions::default().indexers(Indexers::by_namespace()))
}

pub async fn settle() {
    sleep(Duration::from_millis(10)).await;
}

// SI-1, SI-2, SI-4, SI-5, SI-6
#[tokio::test(start_paused = true)]
async fn handlers_receive_events_in_order() {
    for (streams, queue) in [(false, QueueKind::InOrder), (true, QueueKind::InOrder), (true, QueueKind::DeltaFifo)] {
        let server = if streams { Live::streaming() } else { Live::new() };
        server.put("a");
        server.put("b");
        let informer = SharedIndexInformer::new(server.clone(), InformerOptions::default().queue(queue));
        let log = Log::default();
        let (store, behind) = (informer.store().clone(), Arc::new(Mutex::new(0)));
        let counted = behind.clone();
        let mut told = logging(&log);
        let handler = informer
            .add_handler(move |event: &Event<DynamicObject>| {
                told(event);
                // SI-5: the cache is never older than a delivered event.
                if let Event::Added { object, .. } = event
                    && store.get(object).is_none()
                {
                    *counted.lock().unwrap() += 1;
                }
            })
            .unwrap();
        assert!(!handler.has_synced() && !informer.has_synced());
        let running = Running::start(informer.clone());
        assert!(handler.synced().await && informer.synced().await);
        assert_eq!(taken(&log), ["+a@1*", "+b@2*"], "{queue:?}");
        server.put("c");
        server.put("a");
        settle().await;
        server.delete("b");
        settle().await;
        assert_eq!(taken(&log), ["+c@3", "~a@1>4", "-b@5"]);
        assert_eq!(named(&informer.store().snapshot()), ["a@4", "c@3"]);
        assert_eq!(informer.last_sync_resource_version(), "5");
        assert_eq!(*behind.lock().unwrap(), 0);
        running.stop().await;
        assert_eq!(server.watches(), 0);
    }
}

// DF-7: also without any objects.
#[tokio::test(start_paused = true)]
async fn an_empty_resource_syncs() {
    for queue in [QueueKind::InOrder, QueueKind::DeltaFifo] {
        let server = Live::new();
        let informer = SharedIndexInformer::new(server.clone(), InformerOptions::default().queue(queue));
        let log = Log::default();
        let handler = informer.add_handler(logging(&log)).unwrap();
        let running = Running::start(informer.clone());
        let both = async { informer.synced().await && handler.synced().await };
        assert!(timeout(Duration::from_secs(10), both).await.expect("it syncs"), "{queue:?}");
        server.put("a");
        settle().await;
        assert_eq!(taken(&log), ["+a@1"]);
        running.stop().await;
    }
}

// SI-11, SI-12: Go's TestAddWhileActive.
#[tokio::test(start_paused = true)]
async fn a_late_handler_gets_all_objects_and_then_changes() {
    let server = Live::new();
    (0..50).for_each(|at| server.put(&format!("o{at}")));
    let running = Running::start(informer(&server));
    assert!(running.informer.synced().await);
    let log = Log::default();
    let handler = running.informer.add_handler(logging(&log)).unwrap();
    server.put("late");
    assert!(handler.synced().await);
    settle().await;
    let told = taken(&log);
    assert_eq!(told.len(), 51);
    assert!(told[..50].iter().all(|event| event.starts_with("+o") && event.ends_with('*')));
    assert_eq!(told[50], "+late@51");
    running.stop().await;
}

// SI-13, SI-14: Go's …RemoveHandler, …MultipleRegistration, TestRemovingRemovedSharedInformer,
// TestShutDownEventHandler_Lifecycles.
#[tokio::test(start_paused = true)]
async fn removing_a_handler_does_not_affect_others() {
    let server = Live::new();
    server.put("a");
    let informer = informer(&server);
    let (one, two) = (Log::default(), Log::default());
    let first = informer.add_handler(logging(&one)).unwrap();
    let second = informer.add_handler(logging(&two)).unwrap();
    let before_start = informer.add_handler(logging(&one)).unwrap();
    timeout(Duration::from_secs(1), before_start.shut_down()).await.expect("also before the start");
    let running = Running::start(informer);
    assert!(first.synced().await && second.synced().await);
    first.remove();
    first.remove();
    first.shut_down().await;
    server.put("b");
    settle().await;
    assert_eq!((taken(&one), taken(&two)), (vec!["+a@1*".to_owned()], vec!["+a@1*".to_owned(), "+b@2".to_owned()]));
    running.stop().await;
    // Removing a handler after the end has no effect.
    second.shut_down().await;
}

// SI-15: Go's TestStateSharedInformer, TestAddOnStopped…, …StartRace.
#[tokio::test(start_paused = true)]
async fn an_informer_runs_once() {
    let server = Live::new();
    let running = Running::start(informer(&server));
    running.informer.synced().await;
    let informer = running.informer.clone();
    timeout(Duration::from_secs(1), informer.run(&CancellationToken::new())).await.expect("the second returns");
    running.stop().await;
    assert!(informer.add_handler(|_: &Event<DynamicObject>| {}).is_err());
    assert!(informer.add_indexers(Indexers::new().with("x", |_: &DynamicObject| None::<&str>)).is_err());
    timeout(Duration::from_secs(1), informer.run(&CancellationToken::new())).await.expect("it cannot be restarted");
}

// SI-16: dropping a run stops it, and an informer that never ran leaves no task behind.
#[tokio::test(start_paused = true)]
async fn every_task_ends_with_its_owner() {
    let server = Live::new();
    let dropped = informer(&server);
    let handler = dropped.add_handler(|_: &Event<DynamicObject>| {}).unwrap();
    let stop = CancellationToken::new();
    assert!(timeout(Duration::from_secs(5), dropped.run(&stop)).await.is_err());
    timeout(Duration::from_secs(1), handler.shut_down()).await.expect("its task has ended");
    assert_eq!(server.watches(), 0);
    let never = informer(&server);
    let handler = never.add_handler(|_: &Event<DynamicObject>| {}).unwrap();
    drop(never);
    assert!(!timeout(Duration::from_secs(1), handler.synced()).await.expect("its task has ended"));
}

// SI-3
#[tokio::test(start_paused = true)]
async fn an_object_that_was_created_anew_unseen_is_deleted_then_added() {
    for (recreated, expected) in
        [(Recreated::DeletedThenAdded, vec!["xa@1", "+a@4"]), (Recreated::Updated, vec!["~a@1>4"])]
    {
        let server = Live::new();
        server.put("a");
        server.put("b");
        let informer = SharedIndexInformer::new(server.clone(), InformerOptions::default().recreated(recreated));
        let log = Log::default();
        let running = Running::start(informer.clone());
        let handler = informer.add_handler_with(logging(&log), HandlerOptions::default()).unwrap();
        handler.synced().await;
        taken(&log);
        server.cut();
        server.delete("a");
        server.put("a");
        server.forget();
        sleep(Duration::from_secs(10)).await;
        let told: Vec<String> = taken(&log).into_iter().filter(|event| !event.contains('b')).collect();
        assert_eq!(told, expected);
        running.stop().await;
    }
}

// SI-7: client-go's …WatchDisruption. Objects that a list repeats are delivered only to handlers
// that are due for a resync.
#[tokio::test(start_paused = true)]
async fn a_relist_delivers_changes_and_resyncs_only_due_handlers() {
    let server = Live::new();
    ["a", "b", "c"].iter().for_each(|name| server.put(name));
    let informer =
        SharedIndexInformer::new(server.clone(), InformerOptions::default().resync_every(Duration::from_secs(3600)));
    let (never, fresh) = (Log::default(), Log::default());
    let no_resync = HandlerOptions::default().resync_every(Duration::ZERO);
    informer.add_handler_with(logging(&never), no_resync.clone()).unwrap();
    let running = Running::start(informer.clone());
    // The resync check happens after an hour; from then on the handler without a period receives no
    // resyncs.
    sleep(Duration::from_secs(3601)).await;
    informer.add_handler_with(logging(&fresh), no_resync).unwrap();
    settle().await;
    taken(&never);
    taken(&fresh);
    server.cut();
    server.put("a");
    server.delete("b");
    server.forget();
    sleep(Duration::from_secs(10)).await;
    assert_eq!(taken(&never), ["xb@2", "~a@1>4"]);
    assert_eq!(taken(&fresh), ["xb@2", "~a@1>4", "~c@3>3"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_resync_period_that_overflows_is_ignored() {
    let server = Live::new();
    server.put("a");
    let informer = SharedIndexInformer::new(server.clone(), InformerOptions::default().resync_every(Duration::MAX));
    let log = Log::default();
    informer.add_handler_with(logging(&log), HandlerOptions::default().resync_every(Duration::MAX)).unwrap();
    let running = Running::start(informer.clone());
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(taken(&log).len(), 1);
    running.stop().await;
}

// SI-8: Go's TestListenerResyncPeriods.
#[tokio::test(start_paused = true)]
async fn each_handler_is_resynced_at_its_own_period() {
    let server = Live::new();
    server.put("a");
    let informer =
        SharedIndexInformer::new(server.clone(), InformerOptions::default().resync_every(Duration::from_secs(1)));
    let logs = [Log::default(), Log::default(), Log::default()];
    for (log, seconds) in logs.iter().zip([0, 2, 3]) {
        let options = HandlerOptions::default().resync_every(Duration::from_secs(seconds));
        informer.add_handler_with(logging(log), options).unwrap();
    }
    let running = Running::start(informer.clone());
    sleep(Duration::from_millis(12_500)).await;
    let counts = logs.each_ref().map(|log| taken(log).iter().filter(|event| *event == "~a@1>1").count());
    assert_eq!(counts, [0, 6, 4]);
    // After the start a shorter period than the informer's is too late.
    let late = Log::default();
    informer
        .add_handler_with(logging(&late), HandlerOptions::default().resync_every(Duration::from_millis(10)))
        .unwrap();
    sleep(Duration::from_secs(5)).await;
    let count = taken(&late).len();
    assert!((5..=6).contains(&count), "{count}");
    running.stop().await;
}

// SI-8: Go's TestResyncCheckPeriod: a shorter period lowers that of the informer, before the start.
#[tokio::test(start_paused = true)]
async fn before_the_start_the_shortest_period_counts() {
    let server = Live::new();
    server.put("a");
    let informer =
        SharedIndexInformer::new(server.clone(), InformerOptions::default().resync_every(Duration::from_secs(43_200)));
    let (slow, fast) = (Log::default(), Log::default());
    let every = |seconds| HandlerOptions::default().resync_every(Duration::from_secs(seconds));
    informer.add_handler_with(logging(&slow), every(60)).unwrap();
    informer.add_handler_with(logging(&fast), every(5)).unwrap();
    let running = Running::start(informer);
    sleep(Duration::from_secs(121)).await;
    assert_eq!((taken(&slow).len(), taken(&fast).len()), (1 + 2, 1 + 24));
    running.stop().await;
    // An informer without a period sends no resyncs.
    let running = Running::start(self::informer(&server));
    running.informer.add_handler_with(logging(&slow), every(1)).unwrap();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(taken(&slow).len(), 1);
    running.stop().await;
}

// SI-17, ST-6: an index function that panics does not end the informer, and lost objects are listed
// again.
#[tokio::test(start_paused = true)]
async fn an_index_function_that_panics_is_survived() {
    let server = Live::new();
    server.put("a");
    let failing = Arc::new(Mutex::new(true));
    let fails = failing.clone();
    let indexers = Indexers::new().with("x", move |object: &DynamicObject| {
        if object.name() == "bad" && *fails.lock().unwrap() {
            panic!("bad object");
        }
        [kubewright_core::Str::from(object.name())]
    });
    let informer = SharedIndexInformer::new(server.clone(), InformerOptions::default().indexers(indexers));
    let running = Running::start(informer);
    running.informer.synced().await;
    server.put("bad");
    server.put("c");
    sleep(Duration::from_secs(5)).await;
    *failing.lock().unwrap() = false;
    sleep(Duration::from_secs(120)).await;
    assert_eq!(named(&running.informer.store().snapshot()), ["a@1", "bad@2", "c@3"]);
    running.stop().await;
}

// RF-7, SI-12: after the initial list was lost, the rest of the queue is not the initial list.
#[tokio::test(start_paused = true)]
async fn the_rest_of_a_lost_initial_list_does_not_sync() {
    for queue in [QueueKind::InOrder, QueueKind::DeltaFifo] {
        let failing = Arc::new(AtomicBool::new(true));
        let fails = failing.clone();
        let indexers = Indexers::new().with("x", move |object: &DynamicObject| {
            assert!(object.name() != "bad" || !fails.load(Ordering::Relaxed), "bad object");
            [kubewright_core::Str::from(object.name())]
        });
        let script = Script::new([
            listed("10", "bad@1 a@2"),
            watched("+c@11"),
            crate::script::list_fails(kubewright_core::meta::v1::Status::bad_request("no")),
            listed("20", "bad@1 a@2 c@11"),
            watched(""),
        ]);
        let options = InformerOptions::default().queue(queue).indexers(indexers);
        let informer = SharedIndexInformer::new(script, options);
        let log = Log::default();
        let handler = informer.add_handler(logging(&log)).unwrap();
        let running = Running::start(informer.clone());
        // The informer has continued and applied the rest of the queue.
        sleep(Duration::from_millis(1700)).await;
        assert!(informer.store().get_by_key(&crate::support::key("c")).is_some(), "{queue:?}");
        assert!(!informer.has_synced() && !handler.has_synced(), "{queue:?}");
        failing.store(false, Ordering::Relaxed);
        assert!(timeout(Duration::from_secs(60), handler.synced()).await.expect("the next list is whole"));
        assert!(informer.has_synced());
        assert_eq!(named(&informer.store().snapshot()), ["a@2", "bad@1", "c@11"]);
        let mut added = taken(&log);
        added.retain(|event| event.starts_with('+'));
        added.sort();
        assert_eq!(added, ["+a@2*", "+bad@1*", "+c@11*"], "{queue:?}");
        running.stop().await;
    }
}

// ST-12: Go's TestStoreResourceVersion; bookmarks move it.
#[tokio::test(start_paused = true)]
async fn bookmarks_move_the_version_of_the_cache() {
    let script = Script::new([listed("10", "a@1"), watched("=15")]);
    let running = Running::start(SharedIndexInformer::new(script, InformerOptions::default()));
    running.informer.synced().await;
    settle().await;
    assert_eq!(running.informer.store().resource_version(), "15");
    running.stop().await;
}

// SI-7, RE-18: Go's …Transformer and …ErrorHandling.
#[tokio::test(start_paused = true)]
async fn transforms_and_error_handlers_reach_the_reflector() {
    let errors = Log::default();
    let log = errors.clone();
    let reflector = ReflectorOptions::default()
        .transform(Arc::new(|mut object: DynamicObject| {
            object.metadata.labels.insert("seen", "yes".into());
            Ok(object)
        }))
        .on_error(move |error| log.lock().unwrap().push(error.to_string()));
    let script = Script::new([
        crate::script::list_fails(kubewright_core::meta::v1::Status::gone("x")),
        crate::script::list_fails(kubewright_core::meta::v1::Status::bad_request("no")),
        listed("10", "a@1"),
        errs("+b@11", kubewright_core::meta::v1::Status::bad_request("no")),
    ]);
    let running = Running::start(SharedIndexInformer::new(script, InformerOptions::default().reflector(reflector)));
    running.informer.synced().await;
    sleep(Duration::from_millis(500)).await;
    let snapshot = running.informer.store().snapshot();
    assert_eq!(snapshot.len(), 2);
    assert!(snapshot.iter().all(|object| object.labels().get("seen").is_some()));
    assert_eq!(taken(&errors), ["cannot list", "cannot list", "cannot watch"]);
    assert_eq!(running.informer.health().unwrap().lists, 1);
    running.stop().await;
}

/// A lister that panics.
struct Panics;

impl kubewright_cache::ListerWatcher<DynamicObject> for Panics {
    fn list(
        &self,
        _: kubewright_core::options::ListOptions,
    ) -> kubewright_cache::BoxFuture<'_, kubewright_client::Result<kubewright_cache::ItemStream<DynamicObject>>> {
        panic!("no list")
    }

    fn watch(
        &self,
        _: kubewright_core::options::WatchOptions,
    ) -> kubewright_cache::BoxFuture<'_, kubewright_client::Result<kubewright_cache::EventStream<DynamicObject>>> {
        panic!("no watch")
    }
}

// RE-22: client-go's TestPanicPropagated: a panic of the lister reaches the caller of `run`, and
// the handlers stop.
#[tokio::test(start_paused = true)]
async fn a_panic_of_the_lister_reaches_the_caller_of_run() {
    let informer = SharedIndexInformer::new(Panics, InformerOptions::default());
    let handler = informer.add_handler(|_: &Event<DynamicObject>| {}).unwrap();
    let running = informer.clone();
    let task = tokio::spawn(async move { running.run(&CancellationToken::new()).await });
    assert!(task.await.unwrap_err().is_panic());
    assert!(informer.is_stopped() && !handler.synced().await);
}
