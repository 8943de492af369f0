//! A store that follows a database which it shares with others.

mod common;

use std::sync::{Arc, Mutex};

use common::Fixed;
use kubewright_storage::{
    EventKind, FollowedChange, Key, KeyRange, Primary, PrimaryError, PrimaryWrite, Store, StoreListOptions,
    StoreOptions, VersionedValue, WriteError,
};

type Value = (u64, &'static str);

/// Calls a function for each transaction.
struct Database<F>(F);

impl<F> Primary<Value> for Database<F>
where
    F: Fn(Vec<PrimaryWrite<Value>>) -> Result<u64, PrimaryError> + Send + Sync,
{
    fn write(&self, writes: Vec<PrimaryWrite<Value>>) -> Result<u64, PrimaryError> {
        (self.0)(writes)
    }

    fn stamp(&self, value: &Value, revision: u64) -> Value {
        (revision, value.1)
    }
}

fn key(name: &str) -> Key {
    Key::namespaced("pods", "default", name)
}

fn put(revision: u64, name: &str, value: &'static str) -> FollowedChange<Value> {
    FollowedChange { key: key(name), value: Some(Arc::new((revision, value))) }
}

fn gone(name: &str) -> FollowedChange<Value> {
    FollowedChange { key: key(name), value: None }
}

/// A store whose own writes fail.
fn follower(options: StoreOptions<Value>) -> Store<Value> {
    let refuse = |_| Err(PrimaryError::Unavailable(std::io::Error::other("not expected")));
    Store::restore(options.primary(Database(refuse)), 10, [], [])
}

fn names(store: &Store<Value>, options: StoreListOptions) -> Vec<(String, u64)> {
    let page = store.list(&KeyRange::resource("pods"), options).expect("it is in the window");
    page.entries.iter().map(|(key, entry)| (key.name().to_owned(), entry.revision)).collect()
}

#[test]
fn changes_of_one_transaction_share_a_revision() {
    let store = follower(StoreOptions::default());
    let mut all = store.watch(&KeyRange::everything(), 10).expect("it is the start");
    let mut one = store.watch(&KeyRange::object(&key("b")), 10).expect("it is the start");
    store.follow(20, vec![put(20, "a", "1"), put(20, "b", "1"), put(20, "c", "1")]);
    store.follow(25, Vec::new());
    store.follow(30, vec![gone("a"), gone("b"), gone("unknown")]);
    let mut seen = Vec::new();
    while let Some(event) = all.try_next().expect("nothing was lost") {
        seen.push((event.revision, event.kind, event.key.name().to_owned(), *event.object));
    }
    let created = |name: &str| (20, EventKind::Created, name.to_owned(), (20, "1"));
    let deleted = |name: &str| (30, EventKind::Deleted, name.to_owned(), (30, "1"));
    assert_eq!(seen, [created("a"), created("b"), created("c"), deleted("a"), deleted("b")]);
    let kinds: Vec<_> =
        std::iter::from_fn(|| one.try_next().expect("nothing was lost")).map(|event| event.kind).collect();
    assert_eq!(kinds, [EventKind::Created, EventKind::Deleted]);
    assert_eq!(one.progress(), Some(30));
    assert_eq!(names(&store, StoreListOptions::default()), [("c".to_owned(), 20)]);
    let past = names(&store, StoreListOptions::default().at(27));
    assert_eq!(past, ["a", "b", "c"].map(|name| (name.to_owned(), 20)));
    assert_eq!(names(&store, StoreListOptions::default().at(15)), []);
    // A watch of the past of one object finds its event among those of the revision.
    let mut late = store.watch(&KeyRange::object(&key("b")), 25).expect("it is in the window");
    assert_eq!(late.try_next().expect("nothing was lost").expect("it was deleted").key, key("b"));
    // A revision is followed once.
    store.follow(30, vec![put(30, "d", "1")]);
    assert_eq!(store.get(&key("d")).map(|entry| entry.revision), None);
}

#[test]
fn a_revision_of_which_the_log_forgot_a_part_is_compacted() {
    let store = follower(StoreOptions::default().window(2));
    store.follow(20, vec![put(20, "a", "1"), put(20, "b", "1"), put(20, "c", "1")]);
    let compacted = store.watch(&KeyRange::resource("pods"), 19).expect_err("an event is missing");
    assert_eq!((compacted.requested, compacted.oldest), (19, 20));
    assert!(store.list(&KeyRange::resource("pods"), StoreListOptions::default().at(19)).is_err());
    assert_eq!(names(&store, StoreListOptions::default().at(20)).len(), 3);
}

#[test]
fn a_list_replaces_all_objects_and_ends_all_watches() {
    let store = follower(StoreOptions::default());
    store.follow(20, vec![put(20, "a", "1"), put(20, "b", "1")]);
    let mut watches = [KeyRange::everything(), KeyRange::resource("nodes"), KeyRange::object(&key("a"))]
        .map(|scope| store.watch(&scope, 20).expect("it is in the window"));
    let listed = |revision, value| VersionedValue { object: Arc::new((revision, value)), revision };
    store.follow_list(50, vec![(key("b"), listed(20, "1")), (key("c"), listed(40, "1"))]);
    assert_eq!(names(&store, StoreListOptions::default()), [("b".to_owned(), 20), ("c".to_owned(), 40)]);
    assert_eq!(store.current_revision(), 50);
    for watch in &mut watches {
        assert_eq!(watch.try_next().expect_err("events are unknown").oldest, 50);
    }
    store.follow(51, vec![put(51, "a", "2")]);
    let mut watch = store.watch(&KeyRange::everything(), 50).expect("it is in the window");
    assert_eq!(watch.try_next().expect("nothing was lost").expect("it was written").kind, EventKind::Created);
}

#[test]
fn writes_go_to_the_primary_and_show_what_the_store_followed() {
    let shared: Arc<Mutex<Option<Store<Value>>>> = Arc::default();
    let database = Arc::clone(&shared);
    let execute = move |writes: Vec<PrimaryWrite<Value>>| {
        let store = database.lock().expect("no panic").clone().expect("it is set");
        let revision = store.current_revision() + 5;
        match writes[0].key.name() {
            // Another server was faster, once.
            "contended" if store.get(&writes[0].key).is_none() => {
                store.follow(revision, vec![put(revision, "contended", "theirs")]);
                return Err(PrimaryError::Conflict);
            }
            // The companion was changed by another server meanwhile.
            "overtaken" => {
                store.follow(revision, vec![put(revision, "companion", "theirs")]);
                return Err(PrimaryError::Conflict);
            }
            "unreadable" => return Err(PrimaryError::Conflict),
            "down" => return Err(PrimaryError::Unavailable(std::io::Error::other("no leader"))),
            _ => {}
        }
        let change = |write: PrimaryWrite<Value>| {
            let value = (write.kind != EventKind::Deleted).then(|| Arc::new((revision, write.value.1)));
            FollowedChange { key: write.key, value }
        };
        store.follow(revision, writes.into_iter().map(change).collect());
        Ok(revision)
    };
    let store = Store::restore(StoreOptions::default().primary(Database(execute)), 10, [], []);
    *shared.lock().expect("no panic") = Some(store.clone());

    let made = store.create(&key("a"), Fixed((0, "mine"))).expect("it is new");
    assert_eq!((made.revision, *made.object), (15, (15, "mine")));
    assert!(matches!(store.create(&key("a"), Fixed((0, "again"))), Err(WriteError::AlreadyExists(_))));
    assert!(matches!(store.update(&key("a"), 14, Fixed((0, "x"))), Err(WriteError::Conflict { expected: 14, .. })));
    let changed = store.update(&key("a"), 15, Fixed((0, "new"))).expect("the revision is right");
    let removed = store.delete(&key("a"), changed.revision, Fixed((0, "new"))).expect("the revision is right");
    assert_eq!((removed.revision, *removed.object), (25, (25, "new")));
    assert!(matches!(store.delete(&key("a"), 25, Fixed((0, "new"))), Err(WriteError::NotFound)));
    let found = store.create(&key("contended"), Fixed((0, "mine")));
    assert!(matches!(found, Err(WriteError::AlreadyExists(found)) if found.object.1 == "theirs"));
    let down = store.create(&key("down"), Fixed((0, "mine"))).expect_err("there is no leader");
    assert!(matches!(down, WriteError::Backend(error) if error.to_string() == "no leader"));
    // A key that the store never shows must not be waited for.
    let unreadable = store.create(&key("unreadable"), Fixed((0, "mine"))).expect_err("it exists");
    assert!(matches!(unreadable, WriteError::Backend(_)));

    let companion = |expected, value| PrimaryWrite {
        key: key("companion"),
        kind: if expected == 0 { EventKind::Created } else { EventKind::Modified },
        expected,
        value: Arc::new((0, value)),
    };
    let together = |name, companion| {
        store.write_together(EventKind::Created, &key(name), None, Fixed((0, "mine")), vec![companion])
    };
    let made = together("main", companion(0, "1")).expect("both are new");
    assert_eq!(store.get(&key("companion")).map(|entry| entry.revision), Some(made.revision));
    assert!(matches!(together("late", companion(0, "2")), Err(WriteError::Contended)));
    assert!(matches!(together("overtaken", companion(made.revision, "2")), Err(WriteError::Contended)));
    assert!(store.get(&key("late")).is_none() && store.get(&key("overtaken")).is_none());
    let alone = Store::<Value>::new(StoreOptions::default());
    let refused = alone.write_together(EventKind::Created, &key("a"), None, Fixed((0, "x")), vec![companion(0, "1")]);
    assert!(matches!(refused, Err(WriteError::Backend(_))));
}
