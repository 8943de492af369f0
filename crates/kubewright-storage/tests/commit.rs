//! Writes that are not durable yet: readers and watchers must not see them, and a failure undoes
//! them.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{io, time::Duration};

use common::{Journal, Revision};
use kubewright_storage::{
    EventKind, Key, KeyRange, Store, StoreEvent, StoreListOptions, StoreOptions, Watcher, WriteError,
};
use tokio::time::timeout;

fn key(name: usize) -> Key {
    Key::namespaced("pods", "default", &format!("pod-{name}"))
}

fn store() -> Store<u64> {
    Store::new(StoreOptions::default().start_revision(0).commit_when_durable())
}

fn pods() -> KeyRange {
    KeyRange::resource("pods")
}

fn create(store: &Store<u64>, name: usize) -> u64 {
    store.create(&key(name), Revision).expect("the key is free").revision
}

fn touch(store: &Store<u64>, name: usize) -> u64 {
    common::replace(store, &key(name), Revision)
}

fn remove(store: &Store<u64>, name: usize) -> u64 {
    common::remove(store, &key(name), Revision)
}

/// The committed objects, by name, with the revisions that wrote them.
fn listed(store: &Store<u64>) -> BTreeMap<String, u64> {
    let page = store.list(&pods(), StoreListOptions::default()).expect("the present can be listed");
    page.entries.into_iter().map(|(key, entry)| (key.name().to_owned(), *entry.object)).collect()
}

fn drain(watcher: &mut Watcher<u64>) -> Vec<(EventKind, u64)> {
    std::iter::from_fn(|| watcher.try_next().expect("the window holds all"))
        .map(|event| (event.kind, event.revision))
        .collect()
}

#[tokio::test]
async fn readers_and_watchers_see_a_write_when_it_is_committed() {
    let store = store();
    let first = create(&store, 1);
    store.commit(first);
    let mut watcher = store.watch(&pods(), first).expect("nothing is lost");
    let mut narrow = store.watch(&KeyRange::object(&key(1)), first).expect("nothing is lost");

    let second = touch(&store, 1);
    let third = create(&store, 2);
    let fourth = remove(&store, 1);
    assert_eq!(store.current_revision(), first);
    assert_eq!(store.newest_revision(), fourth);
    assert_eq!(store.get(&key(1)).map(|entry| entry.revision), Some(first));
    assert!(store.get(&key(2)).is_none() && store.newest(&key(1)).is_none());
    assert_eq!(listed(&store), BTreeMap::from([("pod-1".to_owned(), first)]));
    let newest = store.list(&pods(), StoreListOptions::default().newest()).expect("the present can be listed");
    assert_eq!(newest.entries.len(), 1);
    assert_eq!(newest.entries[0].1.revision, third);
    assert!(drain(&mut watcher).is_empty() && drain(&mut narrow).is_empty());
    assert_eq!(watcher.progress(), Some(first));
    let waiting = timeout(Duration::from_millis(20), watcher.next()).await;
    assert!(waiting.is_err(), "an uncommitted write wakes no watcher");

    store.commit(third);
    let seen = timeout(Duration::from_secs(10), watcher.next()).await.expect("a commit wakes watchers");
    assert_eq!(seen.expect("the window holds all").revision, second);
    assert_eq!(drain(&mut watcher), [(EventKind::Created, third)]);
    assert_eq!(drain(&mut narrow), [(EventKind::Modified, second)]);
    assert_eq!(store.get(&key(1)).map(|entry| entry.revision), Some(second));
    store.commit(fourth);
    assert_eq!(drain(&mut narrow), [(EventKind::Deleted, fourth)]);
    assert!(store.get(&key(1)).is_none());
}

#[tokio::test]
async fn waiting_for_a_revision_ends_when_it_is_committed() {
    let store = store();
    let revision = create(&store, 1);
    assert!(timeout(Duration::from_millis(20), store.wait_until(revision)).await.is_err());
    store.commit(revision);
    timeout(Duration::from_secs(10), store.wait_until(revision)).await.expect("it is committed");
}

#[test]
fn a_write_is_compared_with_the_newest_state() {
    let store = store();
    let first = create(&store, 1);
    store.commit(first);
    let second = touch(&store, 1);
    let stale = store.update(&key(1), first, Revision);
    assert!(matches!(stale, Err(WriteError::Conflict { found, .. }) if found.revision == second));
    assert!(matches!(store.create(&key(1), Revision), Err(WriteError::AlreadyExists(_))));
}

#[test]
fn a_failure_undoes_what_was_not_committed() {
    let accepts = Arc::new(AtomicBool::new(true));
    let backend = {
        let accepts = Arc::clone(&accepts);
        move |_: &StoreEvent<u64>| {
            if accepts.load(Ordering::SeqCst) { Ok(()) } else { Err(io::ErrorKind::StorageFull.into()) }
        }
    };
    let store = Store::new(StoreOptions::default().start_revision(0).commit_when_durable().backend(Journal(backend)));
    create(&store, 1);
    let second = create(&store, 2);
    store.commit(second);
    let mut watcher = store.watch(&pods(), 0).expect("nothing is lost");
    touch(&store, 1);
    remove(&store, 1);
    create(&store, 1);
    remove(&store, 2);
    let last = create(&store, 3);

    let undone = store.roll_back(|| accepts.store(false, Ordering::SeqCst));
    let revisions: Vec<u64> = undone.iter().map(|event| event.revision).collect();
    assert_eq!(revisions, (second + 1..=last).rev().collect::<Vec<_>>());
    assert_eq!(listed(&store), BTreeMap::from([("pod-1".to_owned(), 1), ("pod-2".to_owned(), 2)]));
    assert_eq!(store.newest(&key(1)).map(|entry| entry.revision), Some(1));
    assert!(store.newest(&key(3)).is_none());
    assert!(matches!(store.create(&key(3), Revision), Err(WriteError::Backend(_))));

    accepts.store(true, Ordering::SeqCst);
    let next = touch(&store, 2);
    assert!(next > last, "a revision is never used twice");
    store.commit(next);
    let expected = [(EventKind::Created, 1), (EventKind::Created, 2), (EventKind::Modified, next)];
    assert_eq!(drain(&mut watcher), expected);
}

#[test]
fn uncommitted_events_are_never_evicted() {
    let store = Store::new(StoreOptions::default().window(2).start_revision(0).commit_when_durable());
    let first = create(&store, 1);
    store.commit(first);
    for _ in 0..10 {
        touch(&store, 1);
    }
    store.compact();
    assert_eq!(store.get(&key(1)).map(|entry| entry.revision), Some(first));
    assert_eq!(listed(&store), BTreeMap::from([("pod-1".to_owned(), first)]));
    assert_eq!(store.roll_back(|| ()).len(), 10);
    assert_eq!(store.newest(&key(1)).map(|entry| entry.revision), Some(first));
}

/// Compares the store with a plain map over random histories.
#[test]
fn readers_see_the_state_of_a_plain_map() {
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let store = Store::new(StoreOptions::default().window(20).start_revision(0).commit_when_durable());
        let mut watcher = store.watch(&pods(), 0).expect("nothing is lost");
        let mut newest = BTreeMap::new();
        let mut committed = BTreeMap::new();
        let mut followed: BTreeMap<String, u64> = BTreeMap::new();
        for _ in 0..300 {
            let name = random.usize(0..4);
            match random.u8(0..10) {
                0..=5 => {
                    let text = key(name).name().to_owned();
                    if let std::collections::btree_map::Entry::Vacant(vacant) = newest.entry(text.clone()) {
                        vacant.insert(create(&store, name));
                    } else if random.bool() {
                        newest.insert(text, touch(&store, name));
                    } else {
                        remove(&store, name);
                        newest.remove(&text);
                    }
                }
                6 => {
                    store.roll_back(|| ());
                    newest.clone_from(&committed);
                }
                _ => {
                    store.commit(store.newest_revision());
                    committed.clone_from(&newest);
                }
            }
            assert_eq!(listed(&store), committed, "seed {seed}");
            for name in 0..4 {
                let found = store.get(&key(name)).map(|entry| *entry.object);
                assert_eq!(found, committed.get(key(name).name()).copied(), "seed {seed}");
                let found = store.newest(&key(name)).map(|entry| *entry.object);
                assert_eq!(found, newest.get(key(name).name()).copied(), "seed {seed}");
            }
            while let Some(event) = watcher.try_next().expect("the watcher is never far behind") {
                match event.kind {
                    EventKind::Deleted => followed.remove(event.key.name()),
                    _ => followed.insert(event.key.name().to_owned(), *event.object),
                };
            }
            assert_eq!(followed, committed, "seed {seed}");
        }
    }
}
