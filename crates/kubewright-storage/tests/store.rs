//! Concurrent writers, readers and watchers.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::{io, panic, time::Duration};

use common::{Fixed, Journal, Revision};
use kubewright_storage::{
    Draft, EventKind, Key, KeyRange, ReadError, Store, StoreEvent, StoreListOptions, StoreOptions, VersionedValue,
    WriteError,
};
use kubewright_testing::processor_time;
use tokio::time::{sleep, timeout};

fn pod(namespace: usize, name: usize) -> Key {
    Key::namespaced("pods", &format!("ns-{namespace}"), &format!("pod-{name:06}"))
}

fn store(window: usize) -> Store<u64> {
    Store::new(StoreOptions::default().window(window).start_revision(0))
}

/// Writes the revision into the object.
fn touch(store: &Store<u64>, key: &Key) {
    common::replace(store, key, Revision);
}

fn remove(store: &Store<u64>, key: &Key) {
    common::remove(store, key, Revision);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_watcher_sees_every_event_once_and_in_order() {
    const WRITERS: usize = 4;
    const WRITES: usize = 500;
    let store = store(WRITERS * WRITES * 3);
    let mut watchers = Vec::new();
    for watched in 0..40 {
        let scope = match watched % 4 {
            0 => KeyRange::everything(),
            1 => KeyRange::resource("pods"),
            _ => KeyRange::namespace("pods", &format!("ns-{}", watched % WRITERS)),
        };
        let each = WRITES * 3 * if watched % 4 < 2 { WRITERS } else { 1 };
        let mut watcher = store.watch(&scope, 0).expect("nothing is lost");
        watchers.push(tokio::spawn(async move {
            let mut last = 0;
            for _ in 0..each {
                let event = watcher.next().await.expect("the window holds all");
                assert!(event.revision > last && scope.contains(&event.key));
                assert_eq!(*event.object, event.revision);
                if each == WRITERS * WRITES * 3 {
                    assert_eq!(event.revision, last + 1);
                }
                last = event.revision;
            }
            // No event is repeated.
            assert!(watcher.try_next().expect("the window holds all").is_none());
        }));
    }
    let writers = (0..WRITERS).map(|namespace| {
        let store = store.clone();
        tokio::task::spawn_blocking(move || {
            for name in 0..WRITES {
                let key = pod(namespace, name);
                store.create(&key, Revision).expect("a new name");
                touch(&store, &key);
                remove(&store, &key);
            }
        })
    });
    for task in writers.collect::<Vec<_>>().into_iter().chain(watchers) {
        timeout(Duration::from_secs(60), task).await.expect("in time").expect("without a panic");
    }
    assert_eq!(store.current_revision(), (WRITERS * WRITES * 3) as u64);
}

#[tokio::test]
async fn a_slow_watcher_is_terminated_and_does_not_block_writers() {
    let store = store(100);
    let mut slow = store.watch(&KeyRange::resource("pods"), 0).expect("nothing is lost");
    (0..10).for_each(|name| drop(store.create(&pod(0, name), Revision)));
    assert_eq!(slow.next().await.expect("in the window").revision, 1);
    (10..1_000).for_each(|name| drop(store.create(&pod(0, name), Revision)));
    assert_eq!(store.current_revision(), 1_000);

    // It returns the events that it had fetched, and from then on the error.
    for revision in 2..=10 {
        assert_eq!(slow.next().await.expect("taken before").revision, revision);
    }
    let lost = slow.next().await.expect_err("event 11 is gone");
    assert_eq!((lost.requested, lost.oldest), (10, 900));
    assert_eq!(slow.next().await.expect_err("still gone"), lost);
    assert_eq!(slow.progress(), None);
}

#[tokio::test]
async fn an_idle_watcher_is_not_terminated_by_writes_of_other_resources() {
    let store = store(10);
    let mut by_namespace = store.watch(&KeyRange::namespace("pods", "ns-0"), 0).expect("nothing is lost");
    let mut by_resource = store.watch(&KeyRange::resource("nodes"), 0).expect("nothing is lost");
    for name in 0..100 {
        store.create(&pod(1, name), Revision).expect("a new name");
    }
    assert_eq!((by_namespace.progress(), by_resource.progress()), (Some(100), Some(100)));
    for name in 100..200 {
        store.create(&pod(1, name), Revision).expect("a new name");
    }
    store.create(&pod(0, 0), Revision).expect("a new name");
    assert_eq!(by_namespace.next().await.expect("nothing of it is lost").revision, 201);
    assert!(store.watch(&KeyRange::resource("pods"), 100).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_wait_loses_no_event() {
    let store = store(100);
    let mut watcher = store.watch(&KeyRange::everything(), 0).expect("nothing is lost");
    for revision in 1..=20 {
        assert!(timeout(Duration::from_millis(1), watcher.next()).await.is_err());
        store.create(&pod(0, revision), Revision).expect("a new name");
        assert_eq!(watcher.next().await.expect("in the window").revision, revision as u64);
    }
}

#[tokio::test]
async fn a_watch_from_the_future_is_silent_until_then() {
    let store = store(100);
    let mut watcher = store.watch(&KeyRange::resource("pods"), 3).expect("the future is not lost");
    (0..3).for_each(|name| drop(store.create(&pod(0, name), Revision)));
    assert!(watcher.try_next().expect("in the window").is_none());
    store.create(&pod(0, 3), Revision).expect("a new name");
    assert_eq!(watcher.next().await.expect("in the window").revision, 4);
}

#[test]
fn a_conflict_consumes_no_revision() {
    let store = store(100);
    store.create(&pod(0, 0), Revision).expect("a new name");
    let mut watcher = store.watch(&KeyRange::everything(), 1).expect("in the window");
    let update = store.update(&pod(0, 0), 7, Revision);
    assert_eq!(update.expect_err("not at 7").to_string(), "object is at revision 1, not at 7");
    assert!(matches!(store.delete(&pod(0, 0), 7, Revision), Err(WriteError::Conflict { expected: 7, .. })));
    assert!(matches!(store.create(&pod(0, 0), Revision), Err(WriteError::AlreadyExists(_))));
    assert!(matches!(store.update(&pod(0, 1), 1, Revision), Err(WriteError::NotFound)));
    assert_eq!(store.current_revision(), 1);
    assert!(watcher.try_next().expect("in the window").is_none());
}

#[test]
fn a_deletion_takes_a_revision_and_shows_the_stamped_object() {
    let store = store(100);
    store.create(&pod(0, 0), Revision).expect("a new name");
    let mut watcher = store.watch(&KeyRange::object(&pod(0, 0)), 1).expect("in the window");
    remove(&store, &pod(0, 0));
    let event = watcher.try_next().expect("in the window").expect("one event");
    assert_eq!((event.kind, event.revision, *event.object), (EventKind::Deleted, 2, 2));
    assert_eq!(event.previous.as_ref().map(|previous| previous.revision), Some(1));
    assert!(store.get(&pod(0, 0)).is_none());
}

#[test]
fn pages_of_one_revision_are_untouched_by_writes_between_them() {
    let store = store(10_000);
    (0..3_000).for_each(|name| drop(store.create(&pod(name % 3, name), Revision)));
    let scope = KeyRange::resource("pods");
    let whole = store.list(&scope, StoreListOptions::default()).expect("the present");
    let mut paged = Vec::new();
    let mut options = StoreListOptions::default().limit(700);
    let mut round = 0;
    loop {
        let page = store.list(&scope, options).expect("in the window");
        assert_eq!((page.revision, page.remaining), (3_000, 3_000 - paged.len() - page.entries.len()));
        paged.extend(page.entries);
        let Some(resume) = page.resume else { break };
        options = StoreListOptions::default().limit(700).at(page.revision).after(resume).remaining(page.remaining);
        for name in (round..3_000).step_by(7) {
            touch(&store, &pod(name % 3, name));
            remove(&store, &pod(name % 3, name));
            store.create(&pod(name % 3, 10_000 + name), Revision).expect("a new name");
        }
        round += 1;
    }
    let plain = |entries: &[(Key, VersionedValue<u64>)]| {
        entries.iter().map(|(key, entry)| (key.clone(), *entry.object)).collect::<Vec<_>>()
    };
    assert_eq!(plain(&paged), plain(&whole.entries));
}

#[test]
fn the_remaining_count_has_the_revision_of_its_page() {
    const COUNT: usize = 20_000;
    let store = store(100_000);
    (0..COUNT).for_each(|name| drop(store.create(&pod(name % 3, name), Revision)));
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for name in 0..COUNT {
                remove(&store, &pod(name % 3, name));
                store.create(&pod(name % 3, COUNT + name), Revision).expect("a new name");
            }
        });
        let options = || StoreListOptions::default().limit(1).at(COUNT as u64);
        for _ in 0..30 {
            let page = store.list(&KeyRange::resource("pods"), options()).expect("in the window");
            assert_eq!(page.remaining, COUNT - 1);
        }
    });
}

#[test]
fn a_list_never_shows_two_moments_while_writers_run() {
    let store = store(100_000);
    // Each round touches the first and the last object in turn, so at any moment the first is at
    // the revision before the last, or one write ahead.
    let (first, last) = (pod(0, 0), pod(9, 0));
    (0..5_000).for_each(|name| drop(store.create(&pod(1 + name % 8, name), Revision)));
    store.create(&first, Revision).expect("a new name");
    store.create(&last, Revision).expect("a new name");
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for _ in 0..10_000 {
                touch(&store, &first);
                touch(&store, &last);
            }
        });
        for _ in 0..30 {
            let page = store.list(&KeyRange::resource("pods"), StoreListOptions::default()).expect("the present");
            let (first, last) = (page.entries[0].1.revision, page.entries[5_001].1.revision);
            assert!(first.max(last) == page.revision && first.abs_diff(last) == 1, "{first} {last} {}", page.revision);
        }
    });
}

#[test]
fn a_list_of_the_present_succeeds_even_if_the_window_passes_meanwhile() {
    let store = store(20);
    (0..5_000).for_each(|name| drop(store.create(&pod(0, name), Revision)));
    std::thread::scope(|threads| {
        let writer = threads.spawn(|| (0..1_000).for_each(|name| touch(&store, &pod(0, name))));
        while !writer.is_finished() {
            let page = store.list(&KeyRange::resource("pods"), StoreListOptions::default()).expect("the present");
            let newest = page.entries.iter().map(|(_, entry)| entry.revision).max();
            assert_eq!((page.entries.len(), newest), (5_000, Some(page.revision)));
        }
    });
}

#[test]
fn a_filtered_page_continues_until_the_limit_is_reached() {
    let store = store(10);
    (0..1_000).for_each(|name| drop(store.create(&pod(0, name), Revision)));
    let even = |_: &Key, entry: &VersionedValue<u64>| entry.revision.is_multiple_of(100);
    let page =
        store.list_where(&KeyRange::resource("pods"), StoreListOptions::default().limit(4), even).expect("the present");
    assert_eq!(page.entries.iter().map(|(_, entry)| entry.revision).collect::<Vec<_>>(), [100, 200, 300, 400]);
    assert_eq!((page.resume, page.remaining), (Some(pod(0, 399)), 600));
}

#[test]
fn a_page_can_start_anywhere() {
    let store = store(10);
    (0..9).for_each(|name| drop(store.create(&pod(name % 3, name), Revision)));
    let count = |scope: &KeyRange, after: Key| {
        let page = store.list(scope, StoreListOptions::default().limit(1).after(after)).expect("the present");
        page.entries.len() + page.remaining
    };
    let middle = KeyRange::namespace("pods", "ns-1");
    assert_eq!(count(&middle, pod(0, 8)), 3);
    assert_eq!(count(&middle, pod(1, 4)), 1);
    assert_eq!(count(&middle, pod(2, 0)), 0);
    assert_eq!(count(&middle, Key::cluster("pods", "ns-1")), 3);
    assert_eq!(count(&middle, Key::cluster("pods", "ns-10")), 0);
    assert_eq!(count(&KeyRange::object(&pod(1, 4)), pod(1, 4)), 0);
    assert_eq!(count(&KeyRange::everything(), Key::cluster("pods", "")), 9);
    assert_eq!(count(&KeyRange::everything(), Key::cluster("queues", "")), 0);
}

#[test]
fn revisions_outside_of_the_window_are_named() {
    let store = store(10);
    (0..30).for_each(|name| drop(store.create(&pod(0, name), Revision)));
    let at = |revision| store.list(&KeyRange::resource("pods"), StoreListOptions::default().at(revision)).map(|_| ());
    assert_eq!(at(31), Err(ReadError::Future { requested: 31, current: 30 }));
    assert_eq!(at(20), Ok(()));
    let Err(ReadError::Compacted(compacted)) = at(19) else { panic!("19 is forgotten") };
    assert_eq!((compacted.requested, compacted.oldest), (19, 20));
    assert_eq!(store.watch(&KeyRange::everything(), 19).expect_err("19 is forgotten"), compacted);
}

/// A value that counts its live instances.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(alive: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, Ordering::Relaxed);
        Counted(Arc::clone(alive))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn the_event_window_bounds_the_retained_values() {
    let alive = Arc::new(AtomicUsize::new(0));
    let store = Store::new(StoreOptions::default().window(100));
    for round in 0..50 {
        for name in 0..100 {
            let key = Key::cluster(format!("resource-{round}"), format!("{name}"));
            store.create(&key, Fixed(Counted::new(&alive))).expect("a new name");
            common::replace(&store, &key, Fixed(Counted::new(&alive)));
            common::remove(&store, &key, Fixed(Counted::new(&alive)));
        }
    }
    let usage = store.usage();
    assert_eq!((usage.objects, usage.events, usage.watchers), (0, 100, 0));
    // One index for the only resource that is still in the window.
    assert_eq!(usage.topics, 1);
    // Each event holds its object, and the oldest one a previous value besides.
    assert!(alive.load(Ordering::Relaxed) <= 101);
    drop(store);
    assert_eq!(alive.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn recent_events_are_kept_beyond_the_window() {
    let age = Duration::from_secs(75);
    let store = Store::new(StoreOptions::default().window(100).keep_recent(age, 1_000).start_revision(0));
    let write = |name: u32| store.create(&Key::cluster("configs", name.to_string()), Revision).map(drop);
    let configs = KeyRange::resource("configs");
    (0..500).for_each(|name| write(name).expect("a new name"));
    assert_eq!(store.usage().events, 500);
    store.watch(&configs, 1).expect("one who is a moment late misses nothing");
    (500..2_000).for_each(|name| write(name).expect("a new name"));
    assert_eq!(store.usage().events, 1_000, "a burst is bounded as well");

    // After an idle period, old events are evicted gradually, so that no single write pays for all.
    sleep(age).await;
    assert_eq!(store.usage().events, 1_000);
    write(2_000).expect("a new name");
    let left = store.usage().events;
    assert!((900..1_000).contains(&left), "{left}");
    (2_001..2_100).for_each(|name| write(name).expect("a new name"));
    assert_eq!(store.usage().events, 100);
    store.watch(&configs, 1_900).expect_err("it is long ago, and there were others");
}

#[test]
fn heavy_values_shorten_the_window() {
    let store = Store::new(StoreOptions::default().window_weight(1_000, |value: &Vec<u8>| value.len()));
    let key = Key::cluster("configs", "large");
    store.create(&key, Fixed(vec![0; 300])).expect("a new name");
    for _ in 0..20 {
        common::replace(&store, &key, Fixed(vec![0; 300]));
    }
    assert_eq!((store.usage().events, store.usage().weight), (3, 900));
    common::replace(&store, &key, Fixed(vec![0; 5_000]));
    common::replace(&store, &key, Fixed(vec![0; 5_000]));
    assert_eq!((store.usage().events, store.usage().weight), (1, 5_000));
}

#[tokio::test]
async fn aged_events_are_shortened() {
    let options = StoreOptions::default().start_revision(0).archive(2, |value: &String| value.to_lowercase());
    let (store, all) = (Store::new(options), KeyRange::resource("configs"));
    let (one, other) = (Key::cluster("configs", "one"), Key::cluster("configs", "other"));
    store.create(&other, Fixed("B".to_owned())).expect("a new name");
    store.create(&one, Fixed("A2".to_owned())).expect("a new name");
    let mut early = store.watch(&all, 1).expect("all of it is there");
    let held = early.next().await.expect("it is there");
    for revision in 3..=6 {
        common::replace(&store, &one, Fixed(format!("A{revision}")));
    }
    let at = |revision| {
        let page = store.list(&all, StoreListOptions::default().at(revision)).expect("all of it is there");
        page.entries.iter().map(|(_, entry)| (*entry.object).clone()).collect::<Vec<_>>()
    };
    assert_eq!([at(2), at(3), at(4), at(5), at(6)], [["a2", "b"], ["a3", "b"], ["A4", "b"], ["A5", "b"], ["A6", "b"]]);
    let mut watch = store.watch(&all, 0).expect("all of it is there");
    for (object, before) in [("b", None), ("a2", None), ("a3", Some("a2")), ("a4", Some("a3")), ("A5", Some("A4"))] {
        let event = watch.next().await.expect("it is there");
        let previous = event.previous.as_ref().map(|previous| previous.object.as_str());
        assert_eq!((event.object.as_str(), previous), (object, before));
    }
    assert_eq!(held.object.as_str(), "A2", "who has an event already sees it as it was");
    common::remove(&store, &one, Fixed("GONE".to_owned()));
    store.create(&one, Fixed("A8".to_owned())).expect("it is gone");
    store.create(&Key::cluster("configs", "third"), Fixed("C".to_owned())).expect("a new name");
    let mut watch = store.watch(&all, 6).expect("all of it is there");
    assert_eq!(watch.next().await.expect("it is there").object.as_str(), "gone");
    assert_eq!(at(9), ["A8", "b", "C"]);
}

#[test]
fn evicted_recent_events_are_shortened_too() {
    let options = StoreOptions::default().window(2).archive(100, |value: &String| value.to_lowercase());
    let store = Store::new(options);
    for name in ["A", "B", "C", "D", "E"] {
        store.create(&Key::cluster("configs", name), Fixed(name.to_owned())).expect("a new name");
    }
    let page = store.list(&KeyRange::resource("configs"), StoreListOptions::default()).expect("the present");
    assert_eq!(page.entries.iter().map(|(_, entry)| entry.object.as_str()).collect::<String>(), "abcDE");
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_watchers_leave_no_state() {
    let store = store(10);
    store.create(&pod(0, 0), Revision).expect("a new name");
    let before = store.usage();
    let mut tasks = Vec::new();
    for watched in 0..200 {
        let scopes = [
            KeyRange::everything(),
            KeyRange::resource("pods"),
            KeyRange::resource(format!("unknown-{watched}")),
            KeyRange::namespace("pods", &format!("ns-{watched}")),
            KeyRange::object(&pod(0, watched)),
        ];
        for scope in scopes {
            let mut watcher = store.watch(&scope, 1).expect("in the window");
            tasks.push(tokio::spawn(async move { watcher.next().await.map(|event| event.revision) }));
        }
    }
    tokio::task::yield_now().await;
    assert_eq!(store.usage().watchers, 1_000);
    for task in &tasks {
        task.abort();
    }
    for task in tasks {
        assert!(task.await.expect_err("aborted").is_cancelled());
    }
    assert_eq!(store.usage(), before);
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_revision_ends_when_it_is_written() {
    let store = store(10);
    assert!(timeout(Duration::from_secs(3), store.wait_until(2)).await.is_err());
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { store.wait_until(2).await }
    });
    store.create(&pod(0, 0), Revision).expect("a new name");
    store.create(&pod(0, 1), Revision).expect("a new name");
    timeout(Duration::from_secs(3), waiting).await.expect("in time").expect("without a panic");
    store.wait_until(1).await;
}

/// A draft that panics in `stamp`.
struct Broken;

impl Draft<u64> for Broken {
    fn stamp(self, _: u64) -> u64 {
        panic!("in a draft")
    }
}

#[test]
fn a_draft_that_panics_leaves_the_store_as_it_was() {
    let store = store(10);
    store.create(&pod(0, 0), Revision).expect("a new name");
    let result = panic::catch_unwind(panic::AssertUnwindSafe(|| store.update(&pod(0, 0), 1, Broken)));
    assert!(result.is_err());
    assert_eq!((store.current_revision(), store.usage().events), (1, 1));
    touch(&store, &pod(0, 0));
    assert_eq!(store.get(&pod(0, 0)).map(|entry| entry.revision), Some(2));
}

#[test]
fn a_store_can_be_restored_from_its_backend() {
    let journal = Arc::new(Mutex::new(Vec::new()));
    let written = Arc::clone(&journal);
    let store = Store::new(StoreOptions::default().backend(Journal(move |event: &StoreEvent<u64>| {
        let mut written = written.lock().expect("not poisoned");
        if written.len() == 5 {
            return Err(io::Error::other("disk full"));
        }
        let entry = VersionedValue { object: Arc::clone(&event.object), revision: event.revision };
        written.push((event.key.clone(), event.kind, entry));
        Ok(())
    })));
    (0..4).for_each(|name| drop(store.create(&pod(0, name), Revision)));
    remove(&store, &pod(0, 1));
    let refused = store.create(&pod(0, 9), Revision);
    assert!(matches!(refused, Err(WriteError::Backend(_))));
    assert_eq!((store.current_revision(), store.get(&pod(0, 9)).is_none()), (105, true));

    let mut objects = std::collections::BTreeMap::new();
    for (key, kind, entry) in journal.lock().expect("not poisoned").drain(..) {
        match kind {
            EventKind::Deleted => objects.remove(&key),
            _ => objects.insert(key, entry),
        };
    }
    let restored = Store::restore(StoreOptions::default(), store.current_revision(), objects, []);
    let list = |store: &Store<u64>| {
        let page = store.list(&KeyRange::everything(), StoreListOptions::default()).expect("the present");
        page.entries.into_iter().map(|(key, entry)| (key, entry.revision)).collect::<Vec<_>>()
    };
    assert_eq!(list(&restored), list(&store));
    assert!(restored.watch(&KeyRange::resource("pods"), 104).is_err());
    let mut watcher = restored.watch(&KeyRange::resource("pods"), 105).expect("from the restored revision on");
    touch(&restored, &pod(0, 0));
    assert_eq!(watcher.try_next().expect("in the window").map(|event| event.revision), Some(106));
}

#[tokio::test]
async fn an_indexed_watch_sees_only_events_of_its_value() {
    // The value of a pod is the last digit of the stored number.
    let index = |key: &Key, object: &u64| (key.resource() == "pods").then(|| (object % 10).to_string().into());
    let store = Store::new(StoreOptions::default().window(100).start_revision(0).index(index));
    let key = pod(0, 0);
    let set = |object: u64| {
        common::replace(&store, &key, Fixed(object));
    };
    store.create(&key, Fixed(1)).expect("it is new");
    set(2);
    set(12);
    set(3);
    let seen = |value: &str, from: u64| {
        let mut watcher = store.watch_indexed("pods", value, from).expect("nothing is lost");
        std::iter::from_fn(|| watcher.try_next().expect("nothing is lost").map(|event| event.revision))
            .collect::<Vec<_>>()
    };
    // When an object leaves a value, the watch of that value gets an event.
    assert_eq!((seen("1", 0), seen("2", 0), seen("3", 0)), (vec![1, 2], vec![2, 3, 4], vec![4]));
    assert_eq!((seen("2", 2), seen("4", 0)), (vec![3, 4], vec![]));
    let mut named = store.watch_named("pods", key.name(), 0).expect("nothing is lost");
    assert_eq!(named.try_next().expect("nothing is lost").map(|event| event.revision), Some(1));

    // Many events of other values do not end a watch that has seen all of its own.
    let (mut quiet, mut slow) =
        (store.watch_indexed("pods", "9", 4).unwrap(), store.watch_indexed("pods", "3", 3).unwrap());
    (0..200).for_each(|_| set(5));
    assert_eq!(quiet.try_next().expect("nothing is lost").map(|event| event.revision), None);
    set(9);
    assert_eq!(quiet.try_next().expect("nothing is lost").map(|event| event.revision), Some(205));
    // The event that it has missed is evicted.
    assert!(slow.try_next().is_err());
    assert!(store.watch_indexed("pods", "9", 4).is_err(), "the log no longer has the events");
    drop((quiet, slow, named));
    assert_eq!((store.usage().watchers, store.usage().topics), (0, 1));
}

#[test]
fn a_page_of_a_long_list_costs_as_much_as_a_page_of_a_short_one() {
    let pages = |count: usize| {
        let store = store(10);
        (0..count).for_each(|name| drop(store.create(&pod(name % 2, name), Revision)));
        let before = processor_time();
        for (scope, total) in [(KeyRange::resource("pods"), count), (KeyRange::namespace("pods", "ns-1"), count / 2)] {
            let mut options = StoreListOptions::default();
            for number in 1..=100 {
                let page = store.list(&scope, options.limit(20)).expect("in the window");
                assert_eq!((page.entries.len(), page.remaining), (20, total - number * 20));
                options = StoreListOptions::default().at(page.revision).remaining(page.remaining);
                options = options.after(page.resume.expect("there are more"));
            }
        }
        processor_time() - before
    };
    // The CPU time of a thread advances in ticks of milliseconds.
    let (short, long) = (pages(10_000).max(Duration::from_millis(20)), pages(160_000));
    assert!(long < short * 4, "{short:?} for 200 pages of 10,000 objects, {long:?} of 160,000");
}
