//! The state under the store's lock: the newest objects, the log, and the topics that index it.
//!
//! A write is *proposed* first and *committed* when it is durable. Readers see committed writes
//! only. Writers compare with the newest state, which includes proposed writes.
//!
//! Everything here runs with the lock held and must be quick. Work that can wait until the lock
//! is free is returned as an [`Aftermath`].

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;

use kubewright_core::Str;

use crate::backend::{Backend, Observer};
use crate::changes::{ChangeListener, Changes};
use crate::error::Compacted;
use crate::event::{EventKind, StoreEvent, VersionedValue};
use crate::key::{Key, KeyRange, indexed_path, namespace_of};
use crate::log::{Archived, Log};
use crate::options::{IndexFn, StoreOptions};
use crate::topic::Topic;

/// Removes the oldest event of a log if it should go, given the committed revision.
type Pop<V> = fn(&mut Log<V>, u64) -> Option<Arc<StoreEvent<V>>>;

/// The newest objects of a store, and the events that restore older ones.
pub(crate) struct State<V> {
    /// The revision of the newest write, committed or not.
    pub(crate) revision: u64,
    /// The highest revision ever used, including writes that were rolled back.
    used: u64,
    /// All writes up to this revision are committed.
    pub(crate) committed: u64,
    /// The keys that have uncommitted writes.
    uncommitted: HashMap<Key, UncommittedKey<V>>,
    pub(crate) log: Log<V>,
    /// Invariant: none is idle (see [`Shard::is_idle`]).
    pub(crate) shards: BTreeMap<Str, Shard<V>>,
    /// The topic of all events, while it has watchers.
    everything: Option<Topic>,
    index: Option<IndexFn<V>>,
    backend: Option<Box<dyn Backend<V>>>,
    observer: Option<Box<dyn Observer<V>>>,
    /// Whether writes are committed as soon as they are proposed.
    commits_at_once: bool,
}

/// A key that has uncommitted writes.
struct UncommittedKey<V> {
    /// The committed value of the key.
    committed: Option<VersionedValue<V>>,
    /// The number of uncommitted writes, at least one.
    writes: usize,
}

/// One resource: its current objects and the topics of its events.
pub(crate) struct Shard<V> {
    /// Changed by [`fill`](Self::fill), [`insert`](Self::insert) and [`remove`](Self::remove) only.
    pub(crate) objects: BTreeMap<Str, VersionedValue<V>>,
    /// The number of objects of each namespace that has some, by the path of its scope.
    namespaces: HashMap<Str, usize>,
    /// The retained events of the whole resource, watched or not. Past lists undo them.
    pub(crate) topic: Topic,
    /// The topics of namespaces, objects, names and indexed values, by the path of their scope,
    /// while watched.
    narrow: HashMap<Str, Topic>,
}

impl<V> Shard<V> {
    fn new(forgotten: u64) -> Self {
        let topic = Topic::new(forgotten, [].into());
        Shard { objects: BTreeMap::new(), namespaces: HashMap::new(), topic, narrow: HashMap::new() }
    }

    /// Sets all objects at once. A map that is built at once has full nodes; one that grows in
    /// ascending order has half-full nodes.
    fn fill(&mut self, objects: Vec<(Str, VersionedValue<V>)>) {
        self.objects = objects.into_iter().collect();
        for path in self.objects.keys() {
            add_to_namespace(&mut self.namespaces, path);
        }
    }

    fn insert(&mut self, path: &Str, entry: VersionedValue<V>) {
        if self.objects.insert(path.clone(), entry).is_none() {
            add_to_namespace(&mut self.namespaces, path);
        }
    }

    fn remove(&mut self, path: &Str) {
        if self.objects.remove(path).is_some()
            && let Some(namespace) = namespace_of(path)
            && let Some(count) = self.namespaces.get_mut(namespace)
        {
            *count -= 1;
            if *count == 0 {
                self.namespaces.remove(namespace);
            }
        }
    }

    /// The number of objects in a scope of this resource. Does not walk over them.
    pub(crate) fn count(&self, scope: &KeyRange) -> usize {
        match scope.path().as_str() {
            "" => self.objects.len(),
            path if path.ends_with('/') => self.namespaces.get(path).copied().unwrap_or_default(),
            path => usize::from(self.objects.contains_key(path)),
        }
    }

    /// Whether the shard has no object, watcher or event, so that it can be dropped.
    fn is_idle(&self) -> bool {
        self.objects.is_empty() && self.topic.is_idle() && self.narrow.is_empty()
    }

    /// Replaces the current object by its short form if it has this revision.
    fn shorten(&mut self, path: &str, revision: u64, short: impl FnOnce() -> Option<Arc<V>>) {
        let entry = self.objects.get_mut(path).filter(|entry| entry.revision == revision);
        if let Some((entry, short)) = entry.and_then(|entry| Some((entry, short()?))) {
            entry.object = short;
        }
    }

    /// Calls `act` for each topic of an event.
    fn for_each_topic(&mut self, event: &StoreEvent<V>, mut act: impl FnMut(&mut Topic)) {
        act(&mut self.topic);
        if !self.narrow.is_empty() {
            for path in event.topic_paths() {
                self.narrow.get_mut(path).map(&mut act);
            }
        }
    }
}

/// Counts one more object at `path` in its namespace, if it has one.
fn add_to_namespace(namespaces: &mut HashMap<Str, usize>, path: &Str) {
    let Some(namespace) = namespace_of(path) else { return };
    match namespaces.get_mut(namespace) {
        Some(count) => *count += 1,
        None => drop(namespaces.insert(namespace.into(), 1)),
    }
}

impl<V> State<V> {
    /// The given objects, and the events that lead to them, ascending and without a gap.
    pub(crate) fn new(
        options: StoreOptions<V>,
        objects: impl IntoIterator<Item = (Key, VersionedValue<V>)>,
        events: impl IntoIterator<Item = StoreEvent<V>>,
    ) -> Self {
        let revision = options.start_revision;
        let mut events = events.into_iter().peekable();
        let forgotten = events.peek().map_or(revision, |oldest| oldest.revision - 1);
        let log = Log::new(forgotten, options.window, options.recent, options.weight, options.archive);
        let mut state = State {
            revision,
            used: revision,
            committed: revision,
            uncommitted: HashMap::new(),
            log,
            shards: BTreeMap::new(),
            everything: None,
            index: options.index,
            backend: options.backend,
            observer: options.observer,
            commits_at_once: options.commits_at_once,
        };
        let mut objects_of = BTreeMap::<Str, Vec<_>>::new();
        for (key, entry) in objects {
            let (resource, path) = key.into_parts();
            objects_of.entry(resource).or_default().push((path, entry));
        }
        for (resource, objects) in objects_of {
            state.shard_mut(&resource).fill(objects);
        }
        for mut event in events {
            event.indexed = state.indexed(&event.key, &event.object, event.previous.as_ref());
            let shard = state.shard_mut(event.key.resource_str());
            shard.topic.push(event.revision);
            let weight = state.log.weigh(&event);
            state.log.push(Arc::new(event), weight);
        }
        drop(state.trim());
        state
    }

    /// The revision of the next write.
    pub(crate) fn next_revision(&self) -> u64 {
        self.used + 1
    }

    /// The newest value of a key, committed or not.
    pub(crate) fn newest(&self, key: &Key) -> Option<&VersionedValue<V>> {
        self.shards.get(key.resource())?.objects.get(key.path())
    }

    /// The committed value of a key.
    pub(crate) fn get(&self, key: &Key) -> Option<&VersionedValue<V>> {
        match self.uncommitted.get(key) {
            Some(key) => key.committed.as_ref(),
            None => self.newest(key),
        }
    }

    /// The topics of an object's indexed value, and of its previous one if it differs.
    pub(crate) fn indexed(&self, key: &Key, object: &V, previous: Option<&VersionedValue<V>>) -> [Option<Str>; 2] {
        let Some(index) = self.index else { return [None, None] };
        let value = |object: &V| index(key, object).map(|value| indexed_path(&value));
        let now = value(object);
        let before =
            previous.and_then(|previous| value(&previous.object)).filter(|before| now.as_ref() != Some(before));
        [now, before]
    }

    /// Makes `event`, of the next revision, part of the state and of the log, or of neither.
    pub(crate) fn propose(&mut self, event: StoreEvent<V>) -> io::Result<Aftermath<V>> {
        // The caller's code runs first. If it fails or panics, nothing has changed.
        let weight = self.log.weigh(&event);
        if let Some(backend) = &mut self.backend {
            backend.propose(&event, self.log.forgotten())?;
        }
        let revision = event.revision;
        let archived = self.record(event, weight);
        let aftermath = if self.commits_at_once { self.commit(revision) } else { Aftermath::default() };
        Ok(Aftermath { archived: archived.into_iter().collect(), ..aftermath })
    }

    /// Makes the changes of one revision part of the state and of the log, and commits them.
    pub(crate) fn follow(&mut self, revision: u64, changes: Vec<StoreEvent<V>>) -> Aftermath<V> {
        let mut archived = Vec::new();
        for event in changes {
            let weight = self.log.weigh(&event);
            archived.extend(self.record(event, weight));
        }
        self.revision = revision.max(self.revision);
        self.used = self.revision;
        Aftermath { archived, ..self.commit(revision) }
    }

    /// Forgets all events, because some up to `revision` are unknown.
    pub(crate) fn skip_to(&mut self, revision: u64) -> Aftermath<V> {
        let dropped = self.compact();
        self.log.skip_to(revision);
        let mut wake = Vec::new();
        let of_shards = self.shards.values_mut();
        let of_shards = of_shards.flat_map(|shard| shard.narrow.values_mut().chain([&mut shard.topic]));
        for topic in of_shards.chain(&mut self.everything) {
            topic.forget(revision);
            topic.wake(&mut wake);
        }
        Aftermath { wake, archived: Vec::new(), _dropped: dropped }
    }

    /// Makes an event part of the state and of the log.
    fn record(&mut self, event: StoreEvent<V>, weight: usize) -> Option<Archived<V>> {
        if let Some(observer) = &self.observer {
            observer.apply(&event);
        }
        let revision = event.revision;
        if !self.commits_at_once {
            let first = || UncommittedKey { committed: event.previous.clone(), writes: 0 };
            self.uncommitted.entry(event.key.clone()).or_insert_with(first).writes += 1;
        }
        if let Some(everything) = &mut self.everything {
            everything.push(revision);
        }
        let path = event.key.path();
        let shard = self.shard_mut(event.key.resource_str());
        shard.for_each_topic(&event, |topic| topic.push(revision));
        match event.kind {
            EventKind::Deleted => shard.remove(path),
            EventKind::Created | EventKind::Modified => {
                shard.insert(path, VersionedValue { object: Arc::clone(&event.object), revision });
            }
        }
        self.revision = revision;
        self.used = revision;
        self.log.push(Arc::new(event), weight);
        self.archive()
    }

    /// Commits all writes up to `revision`, which makes them visible to readers.
    pub(crate) fn commit(&mut self, revision: u64) -> Aftermath<V> {
        let mut wake = Vec::new();
        for event in self.log.range(self.committed, revision) {
            if let Some(key) = self.uncommitted.get_mut(&event.key) {
                key.writes -= 1;
                key.committed = event.result();
                if key.writes == 0 {
                    self.uncommitted.remove(&event.key);
                }
            }
            if let Some(everything) = &self.everything {
                everything.wake(&mut wake);
            }
            if let Some(shard) = self.shards.get_mut(event.key.resource()) {
                shard.for_each_topic(event, |topic| topic.wake(&mut wake));
            }
        }
        self.committed = revision.max(self.committed);
        Aftermath { wake, archived: Vec::new(), _dropped: self.trim() }
    }

    /// Undoes all uncommitted writes and returns them, newest first. Their revisions are not
    /// reused.
    pub(crate) fn roll_back(&mut self) -> Vec<Arc<StoreEvent<V>>> {
        let mut undone = Vec::new();
        while let Some(event) = self.log.pop_uncommitted(self.committed) {
            if let Some(everything) = &mut self.everything {
                everything.pop(event.revision);
            }
            let path = event.key.path();
            let shard = self.shard_mut(event.key.resource_str());
            shard.for_each_topic(&event, |topic| topic.pop(event.revision));
            match &event.previous {
                Some(previous) => shard.insert(path, previous.clone()),
                None => shard.remove(path),
            }
            self.prune(event.key.resource());
            if let Some(observer) = &self.observer {
                observer.revert(&event);
            }
            undone.push(event);
        }
        self.uncommitted.clear();
        self.revision = self.committed;
        undone
    }

    /// Shortens the values of the event that has become old enough.
    fn archive(&mut self) -> Option<Archived<V>> {
        let archived = self.log.archive()?;
        if let Some(shard) = self.shards.get_mut(archived.key.resource()) {
            shard.shorten(archived.key.path(), archived.revision, || Some(Arc::clone(&archived.object)));
        }
        Some(archived)
    }

    /// Drops some of the events that expired since the last write.
    pub(crate) fn age(&mut self) -> Vec<Arc<StoreEvent<V>>> {
        self.log.read_clock();
        self.trim()
    }

    /// Drops events outside of the window.
    fn trim(&mut self) -> Vec<Arc<StoreEvent<V>>> {
        self.forget(Log::pop_surplus)
    }

    /// Drops all committed events.
    pub(crate) fn compact(&mut self) -> Vec<Arc<StoreEvent<V>>> {
        self.forget(Log::pop)
    }

    fn forget(&mut self, pop: Pop<V>) -> Vec<Arc<StoreEvent<V>>> {
        let mut dropped = Vec::new();
        while let Some(event) = pop(&mut self.log, self.committed) {
            if let Some(everything) = &mut self.everything {
                everything.forget(event.revision);
            }
            if let Some(shard) = self.shards.get_mut(event.key.resource()) {
                shard.for_each_topic(&event, |topic| topic.forget(event.revision));
                shard.shorten(event.key.path(), event.revision, || self.log.late_archive(&event));
            }
            self.prune(event.key.resource());
            dropped.push(event);
        }
        dropped
    }

    /// The oldest revision after which the log has all events of `scope`.
    ///
    /// It is recorded for each resource, and for a narrower scope once it has a watcher.
    pub(crate) fn oldest(&self, scope: &KeyRange) -> u64 {
        let shard = scope.resource_str().and_then(|resource| self.shards.get(resource));
        shard.map_or(self.log.forgotten(), |shard| shard.topic.forgotten())
    }

    /// The topic of a scope that has watchers.
    pub(crate) fn topic(&self, scope: &KeyRange) -> Option<&Topic> {
        let Some(resource) = scope.resource_str() else { return self.everything.as_ref() };
        let shard = self.shards.get(resource)?;
        if scope.path().is_empty() { Some(&shard.topic) } else { shard.narrow.get(scope.path()) }
    }

    /// Adds a watcher that wants all events after `from`.
    pub(crate) fn subscribe(&mut self, scope: &KeyRange, from: u64) -> Result<ChangeListener, Compacted> {
        let oldest = self.oldest(scope);
        if from < oldest {
            return Err(Compacted { requested: from, oldest });
        }
        let Some(resource) = scope.resource_str() else {
            let log = &self.log;
            let everything = self.everything.get_or_insert_with(|| Topic::new(oldest, log.revisions().collect()));
            return Ok(everything.subscribe());
        };
        let shard = self.shards.entry(resource.clone()).or_insert_with(|| Shard::new(oldest));
        if scope.path().is_empty() {
            return Ok(shard.topic.subscribe());
        }
        // Few watchers start in the past, and searching it blocks all writers.
        let narrow = shard.narrow.entry(scope.path().clone()).or_insert_with(|| Topic::since(self.revision, oldest));
        let concerns = |revision| self.log.at(revision).any(|event| scope.has_event(event));
        narrow.extend_back(from, &shard.topic, concerns);
        Ok(narrow.subscribe())
    }

    /// Removes a watcher, and the topic of its scope after the last one.
    pub(crate) fn unsubscribe(&mut self, scope: &KeyRange) {
        let Some(resource) = scope.resource_str() else {
            self.everything.as_mut().map(Topic::unsubscribe);
            self.everything.take_if(|everything| !everything.has_watchers());
            return;
        };
        let Some(shard) = self.shards.get_mut(resource) else { return };
        if scope.path().is_empty() {
            shard.topic.unsubscribe();
        } else if let Some(topic) = shard.narrow.get_mut(scope.path()) {
            topic.unsubscribe();
            if !topic.has_watchers() {
                shard.narrow.remove(scope.path());
            }
        }
        self.prune(resource);
    }

    pub(crate) fn watchers(&self) -> usize {
        let all = |shard: &Shard<V>| shard.topic.watchers() + shard.narrow.values().map(Topic::watchers).sum::<usize>();
        self.everything.as_ref().map_or(0, Topic::watchers) + self.shards.values().map(all).sum::<usize>()
    }

    /// Number of topics, including those of resources.
    pub(crate) fn topics(&self) -> usize {
        usize::from(self.everything.is_some()) + self.shards.values().map(|shard| 1 + shard.narrow.len()).sum::<usize>()
    }

    fn shard_mut(&mut self, resource: &Str) -> &mut Shard<V> {
        self.shards.entry(resource.clone()).or_insert_with(|| Shard::new(self.log.forgotten()))
    }

    fn prune(&mut self, resource: &str) {
        if self.shards.get(resource).is_some_and(Shard::is_idle) {
            self.shards.remove(resource);
        }
    }
}

/// Work of a write that follows after the lock is released.
#[must_use]
pub(crate) struct Aftermath<V> {
    wake: Vec<Arc<Changes>>,
    /// Held until the end, because freeing objects takes time.
    archived: Vec<Archived<V>>,
    _dropped: Vec<Arc<StoreEvent<V>>>,
}

impl<V> Default for Aftermath<V> {
    fn default() -> Self {
        Aftermath { wake: Vec::new(), archived: Vec::new(), _dropped: Vec::new() }
    }
}

impl<V> Aftermath<V> {
    /// Wakes the affected watchers. Call it without the lock, which they take.
    pub(crate) fn settle(self) {
        self.wake.iter().for_each(|changes| changes.notify());
        drop(self.archived);
    }
}
