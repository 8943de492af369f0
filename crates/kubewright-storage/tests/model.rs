//! Random histories on a store with a small event window, compared with a model that keeps
//! everything.

use std::collections::BTreeMap;

use kubewright_storage::{
    Draft, EventKind, Key, KeyRange, ReadError, Store, StoreListOptions, StoreOptions, Watcher, WriteError,
};
use proptest::prelude::*;

const WINDOW: usize = 12;
const ARCHIVED: usize = 4;
const START: u64 = 100;

/// The stored value: a number of the test, and the revision of its write.
type Value = (u8, u64);

/// A value that waits for its revision.
struct Numbered(u8);

impl Draft<Value> for Numbered {
    fn stamp(self, revision: u64) -> Value {
        (self.0, revision)
    }
}

/// The revision that a writer expects: the right one or another.
fn expectation(before: Option<Value>, is_current: bool) -> u64 {
    before.map_or(1, |before| before.1) + u64::from(!is_current)
}

/// A write fails only for the reason that the model predicts.
fn assert_refused(error: WriteError<Value>, before: Option<Value>, expected: u64) {
    match error {
        WriteError::NotFound => assert_eq!(before, None),
        WriteError::Conflict { expected: named, found } => {
            assert_eq!((named, Some(*found.object)), (expected, before));
            assert_ne!(named, found.revision);
        }
        error => panic!("{error}"),
    }
}

/// The complete history, read by replaying it.
#[derive(Default)]
struct Model {
    /// The write at index `i` has revision `START + 1 + i`.
    writes: Vec<(Key, EventKind, Value, Option<Value>)>,
}

impl Model {
    fn revision(&self) -> u64 {
        START + self.writes.len() as u64
    }

    /// The oldest revision that must be readable.
    fn promised(&self) -> u64 {
        START + self.writes.len().saturating_sub(WINDOW) as u64
    }

    fn state_at(&self, revision: u64, scope: &KeyRange) -> BTreeMap<Key, Value> {
        let mut state = BTreeMap::new();
        for (key, kind, value, _) in &self.writes[..(revision - START) as usize] {
            match kind {
                EventKind::Deleted => state.remove(key),
                _ => state.insert(key.clone(), *value),
            };
        }
        state.retain(|key, _| scope.contains(key));
        state
    }

    fn current(&self, key: &Key) -> Option<Value> {
        self.state_at(self.revision(), &KeyRange::object(key)).remove(key)
    }

    fn next_event_after(&self, position: u64, scope: &KeyRange) -> Option<u64> {
        let later = self.writes.iter().enumerate().skip((position.max(START) - START) as usize);
        later.filter(|(_, write)| scope.contains(&write.0)).map(|(index, _)| START + 1 + index as u64).next()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Create(Key, u8),
    Update { key: Key, value: u8, is_current: bool },
    Delete { key: Key, is_current: bool },
    List { scope: KeyRange, back: i64, limit: usize },
    Watch { scope: KeyRange, back: i64 },
    Drain { watcher: usize, count: usize },
    DropWatcher(usize),
}

fn keys() -> impl Strategy<Value = Key> {
    (0..3usize, 0..3usize, 0..3usize).prop_map(|(resource, namespace, name)| {
        let name = ["x", "x-y", "z"][name];
        match resource {
            0 => Key::cluster("nodes", name),
            resource => Key::namespaced(["pods", "services"][resource - 1], ["a", "a-b", "b"][namespace], name),
        }
    })
}

fn scopes() -> impl Strategy<Value = KeyRange> {
    (keys(), 0..4u8).prop_map(|(key, width)| match (width, key.namespace()) {
        (0, _) => KeyRange::everything(),
        (1, Some(namespace)) => KeyRange::namespace(key.resource(), namespace),
        (2, _) => KeyRange::object(&key),
        _ => KeyRange::resource(key.resource()),
    })
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (keys(), any::<u8>()).prop_map(|(key, value)| Step::Create(key, value)),
        4 => (keys(), any::<u8>(), prop::bool::weighted(0.8))
            .prop_map(|(key, value, is_current)| Step::Update { key, value, is_current }),
        2 => (keys(), prop::bool::weighted(0.8)).prop_map(|(key, is_current)| Step::Delete { key, is_current }),
        4 => (scopes(), -2..25i64, 0..5usize).prop_map(|(scope, back, limit)| Step::List { scope, back, limit }),
        1 => (scopes(), -2..25i64).prop_map(|(scope, back)| Step::Watch { scope, back }),
        2 => (0..8usize, 0..20usize).prop_map(|(watcher, count)| Step::Drain { watcher, count }),
        1 => (0..8usize).prop_map(Step::DropWatcher),
    ]
}

/// A watcher, and the revision up to which it has been compared with the model.
struct Watching {
    watcher: Watcher<Value>,
    scope: KeyRange,
    position: u64,
}

struct Play {
    store: Store<Value>,
    model: Model,
    watching: Vec<Watching>,
}

impl Play {
    fn new() -> Self {
        let options = StoreOptions::default().window(WINDOW).archive(ARCHIVED, |value| *value).start_revision(START);
        Play { store: Store::new(options), model: Model::default(), watching: Vec::new() }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Create(key, value) => self.create(key, value),
            Step::Update { key, value, is_current } => self.update(key, value, is_current),
            Step::Delete { key, is_current } => self.delete(key, is_current),
            Step::List { scope, back, limit } => self.list(&scope, self.back(back), limit),
            Step::Watch { scope, back } => self.watch(scope, self.back(back)),
            Step::Drain { watcher, count } => self.drain(watcher, count),
            Step::DropWatcher(watcher) => {
                if watcher < self.watching.len() {
                    self.watching.remove(watcher);
                }
            }
        }
        let usage = self.store.usage();
        assert_eq!(self.store.current_revision(), self.model.revision());
        assert_eq!(usage.events, self.model.writes.len().min(WINDOW));
        assert_eq!(usage.watchers, self.watching.len());
    }

    fn back(&self, back: i64) -> u64 {
        self.model.revision().saturating_add_signed(-back)
    }

    fn create(&mut self, key: Key, value: u8) {
        let before = self.model.current(&key);
        match self.store.create(&key, Numbered(value)) {
            Ok(entry) => {
                assert_eq!((before, entry.revision), (None, self.model.revision() + 1));
                self.model.writes.push((key, EventKind::Created, *entry.object, None));
            }
            Err(WriteError::AlreadyExists(found)) => assert_eq!(Some(*found.object), before),
            Err(error) => panic!("{error}"),
        }
    }

    fn update(&mut self, key: Key, value: u8, is_current: bool) {
        let before = self.model.current(&key);
        let expected = expectation(before, is_current);
        match self.store.update(&key, expected, Numbered(value)) {
            Ok(entry) => {
                assert!(before.is_some() && is_current);
                assert_eq!(*entry.object, (value, self.model.revision() + 1));
                self.model.writes.push((key, EventKind::Modified, *entry.object, before));
            }
            Err(error) => assert_refused(error, before, expected),
        }
    }

    fn delete(&mut self, key: Key, is_current: bool) {
        let before = self.model.current(&key);
        let expected = expectation(before, is_current);
        let value = before.map_or(0, |before| before.0);
        match self.store.delete(&key, expected, Numbered(value)) {
            Ok(entry) => {
                assert!(before.is_some() && is_current);
                assert_eq!(*entry.object, (value, self.model.revision() + 1));
                self.model.writes.push((key, EventKind::Deleted, *entry.object, before));
            }
            Err(error) => assert_refused(error, before, expected),
        }
    }

    /// Compares all pages with the state of the model.
    fn list(&self, scope: &KeyRange, at: u64, limit: usize) {
        let mut options = StoreListOptions::default().limit(limit).at(at);
        let mut listed = Vec::new();
        let expected = loop {
            let page = match self.store.list(scope, options) {
                Ok(page) => page,
                Err(ReadError::Future { requested, current }) => {
                    assert_eq!((requested, current), (at, self.model.revision()));
                    return assert!(at > current);
                }
                Err(ReadError::Compacted(compacted)) => {
                    assert!(compacted.requested == at && at < compacted.oldest);
                    return assert!(at < self.model.promised());
                }
                Err(error) => panic!("{error}"),
            };
            let expected = self.model.state_at(at, scope);
            listed.extend(page.entries.into_iter().map(|(key, entry)| {
                assert_eq!(entry.revision, entry.object.1);
                (key, *entry.object)
            }));
            assert_eq!((page.revision, page.remaining), (at, expected.len() - listed.len()));
            match page.resume {
                // With the remaining count of the previous page, as in a continue token, or
                // without.
                Some(key) => {
                    options = StoreListOptions::default().limit(limit).at(at).after(key);
                    if listed.len().is_multiple_of(2) {
                        options = options.remaining(page.remaining);
                    }
                }
                None => break expected,
            }
        };
        assert_eq!(listed, expected.into_iter().collect::<Vec<_>>());
    }

    fn watch(&mut self, scope: KeyRange, from: u64) {
        match self.store.watch(&scope, from) {
            Ok(watcher) => self.watching.push(Watching { watcher, scope, position: from }),
            Err(compacted) => assert!(compacted.requested == from && from < self.model.promised()),
        }
    }

    fn drain(&mut self, watcher: usize, count: usize) {
        let Some(Watching { watcher, scope, position }) = self.watching.get_mut(watcher) else { return };
        for _ in 0..count {
            let expected = self.model.next_event_after(*position, scope);
            match watcher.try_next() {
                Ok(Some(event)) => {
                    assert_eq!(Some(event.revision), expected);
                    let previous = event.previous.as_ref().map(|previous| *previous.object);
                    let seen = (event.key.clone(), event.kind, *event.object, previous);
                    assert_eq!(seen, self.model.writes[(event.revision - START - 1) as usize]);
                    *position = event.revision;
                }
                Ok(None) => {
                    assert_eq!(expected, None);
                    let progress = (*position <= self.model.revision()).then_some(self.model.revision());
                    assert_eq!(watcher.progress(), progress);
                    break;
                }
                Err(_) => {
                    assert!(expected.expect("an event is lost") <= self.model.promised());
                    assert!(watcher.try_next().is_err() && watcher.progress().is_none());
                    break;
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn lists_and_watches_agree_with_the_full_history(steps in prop::collection::vec(steps(), 0..150)) {
        let mut play = Play::new();
        steps.into_iter().for_each(|step| play.step(step));
        (0..play.watching.len()).for_each(|watcher| play.drain(watcher, usize::MAX));
        for at in START..=play.model.revision() {
            play.list(&KeyRange::everything(), at, 0);
        }
    }
}
