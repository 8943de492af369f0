//! Objects that cannot be decoded or transformed still exist: handlers see no deletion.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kubewright_cache::{
    DeltaFifo, DeltaFifoOptions, Fifo, InformerMetrics, InformerOptions, ObjectSet, QueueKind, RealFifo,
    RealFifoOptions, Reflector, ReflectorError, ReflectorOptions, ReflectorStore, SharedIndexInformer, Store,
    Transform, UndecodableObjects,
};
use kubewright_core::meta::v1::Status;
use kubewright_core::stream::ObjectIdentity;
use kubewright_core::{DynamicObject, Object};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::informer::{Log, Running, logging, taken};
use crate::reflector::play_with;
use crate::script::{Script, errs, listed, page, watched};
use crate::support::{all_shown, key, named, now, object, objects};

fn expired() -> Status {
    Status::expired("too old resource version")
}

/// The result of playing a script.
struct Outcome {
    /// Events that a handler received.
    heard: Vec<String>,
    /// Errors that the error handler received.
    errors: Vec<String>,
    informer: SharedIndexInformer<DynamicObject>,
    running: Running,
}

impl Outcome {
    fn objects(&self) -> String {
        named(&self.informer.store().snapshot()).join(" ")
    }

    /// The events, sorted: their order differs between the queues.
    fn sorted(&self) -> String {
        let mut heard = self.heard.clone();
        heard.sort();
        heard.join(" ")
    }

    fn is_undecodable(&self, name: &str) -> bool {
        self.informer.store().is_undecodable(&key(name))
    }

    fn undecodable(&self) -> UndecodableObjects {
        self.informer.health().expect("it runs").undecodable
    }
}

async fn play(script: Script, queue: QueueKind, transform: Option<Transform<DynamicObject>>) -> Outcome {
    let errors = Log::default();
    let log = errors.clone();
    let mut reflector = ReflectorOptions::default().on_error(move |error: &ReflectorError| {
        log.lock().unwrap().push(error.to_string());
    });
    if let Some(transform) = transform {
        reflector = reflector.transform(transform);
    }
    let options = InformerOptions::default().queue(queue).reflector(reflector);
    let informer = SharedIndexInformer::new(script, options);
    let heard = Log::default();
    informer.add_handler(logging(&heard)).unwrap();
    let running = Running::start(informer.clone());
    sleep(Duration::from_secs(60)).await;
    let mut heard = taken(&heard);
    heard.retain(|event| !is_repeated(event));
    Outcome { heard, errors: taken(&errors), informer, running }
}

/// Whether an event repeats a state, as lists do.
fn is_repeated(event: &str) -> bool {
    let versions = event.strip_prefix('~').and_then(|event| event.split_once('@')?.1.split_once('>'));
    versions.is_some_and(|(old, new)| old == new)
}

const QUEUES: [QueueKind; 2] = [QueueKind::InOrder, QueueKind::DeltaFifo];

// RE-15: the deletion of an object is not lost because its last state cannot be decoded.
#[tokio::test(start_paused = true)]
async fn a_deletion_that_cannot_be_decoded_deletes() {
    for queue in QUEUES {
        let script = Script::new([listed("10", "a@1 b@2"), watched("?-a@11 ?-never@12 +c@13")]);
        let played = play(script, queue, None).await;
        assert_eq!(played.sorted(), "+a@1* +b@2* +c@13 xa@1", "{queue:?}");
        assert_eq!(played.objects(), "b@2 c@13");
        assert_eq!(played.errors, ["cannot decode object default/a", "cannot decode object default/never"]);
        assert_eq!(played.undecodable().count, 0);
        played.running.stop().await;
    }
}

// A reader that waits for the version of the deletion does not wait for the next event.
#[tokio::test(start_paused = true)]
async fn events_that_cannot_be_decoded_move_the_version() {
    for queue in QUEUES {
        for (event, version) in [("?-a@11", "11"), ("?~a@12", "12"), ("?+b@13", "13")] {
            let script = Script::new([listed("10", "a@1"), watched(event)]);
            let played = play(script, queue, None).await;
            assert_eq!(played.informer.store().resource_version(), version, "{queue:?} {event}");
            assert_eq!(played.informer.last_sync_resource_version(), version);
            played.running.stop().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_state_that_cannot_be_decoded_leaves_the_last_good_one_and_a_mark() {
    for queue in QUEUES {
        let script = Script::new([listed("10", "a@1"), watched("?~a@11 ?~a@12 ?+b@13")]);
        let played = play(script, queue, None).await;
        assert_eq!((played.heard.join(" ").as_str(), played.objects().as_str()), ("+a@1*", "a@1"), "{queue:?}");
        // Reported once per object, not per state.
        assert_eq!(played.errors, ["cannot decode object default/a", "cannot decode object default/b"]);
        assert!(played.is_undecodable("a") && played.is_undecodable("b") && !played.is_undecodable("c"));
        let undecodable = played.undecodable();
        assert_eq!((undecodable.count, &undecodable.keys[..]), (2, &[key("a"), key("b")][..]));
        played.running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_mark_is_cleared_when_the_object_decodes_or_is_deleted() {
    for queue in QUEUES {
        let script = Script::new([listed("10", "a@1 b@2 c@3"), watched("?~a@11 ?~b@12 ?~c@13 ~a@14 -b@15 ?-c@16")]);
        let played = play(script, queue, None).await;
        assert_eq!(played.objects(), "a@14", "{queue:?}");
        assert!(["a", "b", "c"].iter().all(|name| !played.is_undecodable(name)));
        assert_eq!(played.undecodable(), UndecodableObjects::default());
        assert_eq!(played.errors.len(), 3);
        // The same with a list, and for an object without known state.
        let script =
            Script::new([listed("10", "?a@1 ?b@2"), errs("=11", expired()), listed("20", "a@12"), watched("")]);
        let played = play(script, queue, None).await;
        assert_eq!((played.heard.len(), played.objects().as_str()), (1, "a@12"), "{queue:?}");
        assert!(!played.is_undecodable("a") && !played.is_undecodable("b"), "{queue:?}");
        played.running.stop().await;
    }
}

// An object that a list, paginated or streaming, contains in an undecodable state is not reported
// as deleted.
#[tokio::test(start_paused = true)]
async fn an_object_that_a_list_cannot_decode_is_present() {
    for queue in QUEUES {
        let relist = [
            vec![listed("10", "a@1 b@2"), errs("=11", expired()), listed("20", "?a@15 b@2"), watched("")],
            vec![
                listed("10", "a@1 b@2"),
                errs("=11", expired()),
                page("20", "b@2", "next"),
                listed("20", "?a@15"),
                watched(""),
            ],
        ];
        let streamed = vec![errs("+a@1 +b@2 !10", expired()), watched("?+a@15 +b@2 !20")];
        let scripts = relist.into_iter().map(Script::new).chain([Script::new(streamed).streaming()]);
        for script in scripts {
            let played = play(script, queue, None).await;
            assert!(!played.heard.iter().any(|event| event.starts_with(['x', '-'])), "{:?}", played.heard);
            assert_eq!(played.objects(), "a@1 b@2", "{queue:?}");
            assert!(played.is_undecodable("a") && !played.is_undecodable("b"));
            assert!(played.errors.contains(&"cannot decode object default/a".to_owned()), "{:?}", played.errors);
            played.running.stop().await;
        }
    }
}

// An object that was replaced by an undecodable one with another uid is deleted.
#[tokio::test(start_paused = true)]
async fn a_replaced_object_is_deleted() {
    for queue in QUEUES {
        let relist = [listed("10", "a@1"), errs("=11", expired()), listed("20", "?a#other@15"), watched("")];
        let streamed = [errs("+a@1 !10", expired()), watched("?+a#other@15 !20")];
        let watched = [listed("10", "a@1"), watched("?+a#other@15")];
        let scripts = [Script::new(relist), Script::new(streamed).streaming(), Script::new(watched)];
        for script in scripts {
            let played = play(script, queue, None).await;
            assert_eq!((played.heard.join(" ").as_str(), played.objects().as_str()), ("+a@1* xa@1", ""), "{queue:?}");
            assert!(played.is_undecodable("a"));
            played.running.stop().await;
        }
    }
}

// The newest state in a streaming list is undecodable; an older one was decodable.
#[tokio::test(start_paused = true)]
async fn a_streaming_list_keeps_the_last_good_state() {
    for queue in QUEUES {
        let script = Script::new([watched("+a@1 +b@2 ?~a@5 ?~b@6 ~b@7 ?+c@8 ?-c@9 !10")]).streaming();
        let played = play(script, queue, None).await;
        assert_eq!(played.objects(), "a@1 b@7", "{queue:?}");
        assert!(played.is_undecodable("a") && !played.is_undecodable("b") && !played.is_undecodable("c"));
        played.running.stop().await;
    }
}

// A list with an object without a readable name does not state which objects exist.
#[tokio::test(start_paused = true)]
async fn an_undecodable_list_changes_nothing() {
    for queue in QUEUES {
        let mut answers = vec![listed("10", "a@1 b@2"), errs("=11", expired())];
        answers.extend((0..3).map(|_| listed("20", "a@15 ?")));
        answers.extend([listed("30", "a@15"), watched("")]);
        let played = play(Script::new(answers), queue, None).await;
        assert_eq!(played.sorted(), "+a@1* +b@2* xb@2 ~a@1>15", "{queue:?}");
        assert_eq!(played.errors.iter().filter(|error| *error == "cannot list").count(), 3);
        played.running.stop().await;
        // An event without a name may be about any object, so only a list helps.
        let answers = [listed("10", "a@1 b@2"), watched("~a@11 ? ~a@12"), listed("30", "a@12"), watched("")];
        let played = play(Script::new(answers), queue, None).await;
        assert_eq!(played.objects(), "a@12");
        assert!(played.errors.contains(&"cannot watch".to_owned()), "{:?}", played.errors);
        played.running.stop().await;
    }
}

fn failing() -> Transform<DynamicObject> {
    Arc::new(|object: DynamicObject| match object.resource_version().parse::<u32>().expect("a number") % 10 {
        5 => Err("no fives".into()),
        6 => panic!("no sixes"),
        _ => Ok(object),
    })
}

// Transforms that fail or panic have the same effect as objects that cannot be decoded.
#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_transformed_is_present() {
    for queue in QUEUES {
        let script = Script::new([
            listed("10", "a@1 b@2 c@3"),
            errs("~a@15 ~b@16 -c@25 +d@26", expired()),
            listed("30", "a@15 b@16 d@26 e@27"),
            watched("~b@28 -a@35 -d@36"),
        ]);
        let played = play(script, queue, Some(failing())).await;
        assert_eq!(played.sorted(), "+a@1* +b@2* +c@3* +e@27 xa@1 xc@3 ~b@2>28", "{queue:?}");
        assert_eq!(played.objects(), "b@28 e@27");
        assert_eq!(played.undecodable().count, 0);
        let transforms = played.errors.iter().filter(|error| error.starts_with("cannot transform"));
        assert_eq!(transforms.count(), 4, "{:?}", played.errors);
        played.running.stop().await;
        let script = Script::new([errs("+a@1 !10", expired()), watched("+a@15 +b@16 !20")]).streaming();
        let played = play(script, queue, Some(failing())).await;
        assert_eq!((played.heard.join(" ").as_str(), played.objects().as_str()), ("+a@1*", "a@1"), "{queue:?}");
        assert!(played.is_undecodable("a") && played.is_undecodable("b"));
        played.running.stop().await;
    }
}

// Transforms of the queues.
#[test]
fn a_failed_transform_marks_the_object_undecodable() {
    let queue = RealFifo::new(RealFifoOptions::default().transform(failing()));
    assert!(queue.add(object("a", 5)).is_err() && queue.update(object("b", 6)).is_err());
    assert!(queue.delete(object("c", 15)).is_err());
    assert_eq!(queue.replace(objects("a@15 b@2"), "20").len(), 1);
    let drained: Vec<String> = (0..2).map(|_| now(queue.pop(|deltas, _| all_shown(&deltas))).unwrap()).collect();
    assert_eq!(drained, ["Undecodable a@5, Undecodable b@6, Gone c@?", "ReplacedAll b@2 ?a@15 at 20"]);
    let store = Store::default();
    store.replace(objects("a@1 c@3 x@4"), "1");
    let one_by_one = RealFifoOptions::default().known_objects(store.clone()).item_by_item().transform(failing());
    let queue = RealFifo::new(one_by_one);
    queue.replace(objects("a@15 b@2"), "20");
    let mut drained = now(queue.pop(|deltas, _| deltas)).unwrap();
    drained.sort_by_key(|delta| delta.key());
    assert_eq!(all_shown(&drained), "Undecodable a@15, Replaced b@2, Gone c@3, Gone x@4");
    let queue = DeltaFifo::new(DeltaFifoOptions::default().known_objects(store).emit_replaced().transform(failing()));
    assert!(queue.add(object("a", 5)).is_err() && queue.delete(object("c", 15)).is_err());
    assert_eq!(queue.replace(objects("a@15 b@2 c@3")).len(), 1);
    let pop = || now(queue.pop(|deltas, _| all_shown(&deltas))).unwrap();
    let mut drained: Vec<String> = (0..4).map(|_| pop()).collect();
    drained.sort();
    let expected = ["Gone c@?, Replaced c@3", "Gone x@4", "Replaced b@2", "Undecodable a@5, Undecodable a@15"];
    assert_eq!(drained, expected);
}

// A `Fifo` keeps the last good state queued.
#[test]
fn an_undecodable_object_keeps_its_queued_item() {
    let identity = |name: &str, uid: &str| ObjectIdentity { uid: uid.into(), ..ObjectIdentity::of(&*object(name, 9)) };
    let queue = Fifo::new();
    let set = |undecodable: Vec<ObjectIdentity>| ObjectSet { undecodable, ..ObjectSet::new(objects("d@4"), "20") };
    queue.replace(objects("a@1 b@2 c@3"));
    queue.mark_undecodable(identity("a", "uid-a"));
    queue.mark_undecodable(identity("b", "other"));
    assert_eq!(named(&queue.list()), ["a@1", "c@3"]);
    ReflectorStore::replace(&queue, set(vec![identity("a", "uid-a"), identity("c", "other")]));
    assert_eq!(named(&queue.list()), ["a@1", "d@4"]);
    queue.delete_key(key("a"));
    assert_eq!(now(queue.pop(|object, _| object.name().to_owned())).unwrap(), "d");
    assert!(queue.list().is_empty());
}

// A reflector may feed a store without a queue between.
#[tokio::test(start_paused = true)]
async fn a_store_keeps_the_last_good_state() {
    let script = Script::new([
        listed("10", "a@1 b@2 c@3"),
        errs("?~a@11 ?-b@12", expired()),
        listed("20", "?a@15 ?c#other@16 d@17"),
        watched(""),
    ]);
    let played = play_with(script, ReflectorOptions::default(), Duration::from_secs(60)).await;
    assert_eq!(played.objects(), "a@1 d@17");
    let marked: Vec<_> = played.store.snapshot().undecodable_keys().cloned().collect();
    assert_eq!(marked, [key("a"), key("c")]);
    assert_eq!(played.store.resource_version(), "20");
}

// An object without known state exists nevertheless.
#[tokio::test(start_paused = true)]
async fn a_lister_reports_an_undecodable_object_instead_of_not_found() {
    let script = Script::new([listed("10", "a@1 ?b@2"), watched("?~a@11")]);
    let played = play(script, QueueKind::InOrder, None).await;
    let lister = played.informer.lister();
    let resource = kubewright_core::GroupResource::new("example.com", "foos");
    let require = |name: &str| lister.namespace("default").require(&resource, name);
    assert!(require("a").is_ok() && lister.is_undecodable(&key("a")));
    let error = require("b").unwrap_err();
    assert!(error.is_internal_error() && !error.is_not_found(), "{error}");
    assert!(require("c").unwrap_err().is_not_found());
    played.running.stop().await;
}

// A resync of the last good state does not clear the mark of the newest state.
#[tokio::test(start_paused = true)]
async fn a_resync_leaves_the_mark() {
    for queue in QUEUES {
        let script = Script::new([listed("10", "a@1"), watched("?~a@11")]);
        let options = InformerOptions::default().queue(queue).resync_every(Duration::from_secs(10));
        let informer = SharedIndexInformer::new(script, options);
        let heard = Log::default();
        informer.add_handler(logging(&heard)).unwrap();
        let running = Running::start(informer.clone());
        sleep(Duration::from_secs(35)).await;
        assert_eq!(taken(&heard).join(" "), "+a@1* ~a@1>1 ~a@1>1 ~a@1>1", "{queue:?}");
        assert!(informer.store().is_undecodable(&key("a")));
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn metrics_and_health_count_undecodable_objects() {
    let mut registry = Registry::default();
    let names: Vec<String> = (0..40).map(|at| format!("?o{at:02}@{}", at + 1)).collect();
    let script = Script::new([listed("100", &names.join(" ")), watched("")]);
    let options = InformerOptions::default().metrics(&InformerMetrics::register(&mut registry), "foos");
    let informer = SharedIndexInformer::new(script, options);
    let running = Running::start(informer.clone());
    assert!(informer.synced().await);
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    assert!(text.contains(r#"informer_undecodable_objects{name="foos"} 40"#), "{text}");
    let undecodable = informer.health().unwrap().undecodable;
    assert_eq!((undecodable.count, undecodable.keys.len(), &undecodable.keys[0]), (40, 16, &key("o00")));
    running.stop().await;
}

// The error handler is not called again for each list.
#[tokio::test(start_paused = true)]
async fn an_object_is_reported_once_however_often_it_is_listed() {
    let answers = (0..5).flat_map(|at| [listed("10", "?a@1"), errs(&format!("={at}1"), expired())]);
    let count = Arc::new(Mutex::new(0));
    let counted = count.clone();
    let options = ReflectorOptions::default().on_error(move |error| {
        *counted.lock().unwrap() += i32::from(matches!(error, ReflectorError::Undecodable(_)));
    });
    let reflector = Reflector::new(Script::new(answers), Store::<DynamicObject>::default(), options);
    let _ = timeout(Duration::from_secs(600), reflector.run(&CancellationToken::new())).await;
    assert_eq!((*count.lock().unwrap(), reflector.health().lists), (1, 5));
}
