//! What lies under the lock: the current objects, the log, and the topics that index it.
//!
//! Everything here is called with the lock held and must be quick; what can wait until the lock
//! is free is handed out as an [`Aftermath`].

use std::collections::{BTreeMap, HashMap};
use std::{io, sync::Arc};

use kubewright_core::Str;

use super::changes::{Changes, Listener};
use super::key::namespace_of;
use super::log::{Archived, Log};
use super::options::Journal;
use super::{Compacted, Entry, Event, EventKind, Key, Scope, StoreOptions, topic::Topic};

/// The state of a store at its current revision, and the way back from it.
pub(super) struct State<V> {
    /// The revision of the last write.
    pub(super) revision: u64,
    pub(super) log: Log<V>,
    /// Invariant: none is idle (see [`Shard::is_idle`]).
    pub(super) shards: BTreeMap<Str, Shard<V>>,
    /// The topic of all events, while it has watchers.
    everything: Option<Topic>,
    journal: Option<Journal<V>>,
}

/// One resource: its current objects and the topics of its events.
pub(super) struct Shard<V> {
    pub(super) objects: BTreeMap<Str, Entry<V>>,
    /// The retained events of the whole resource, watched or not: lists of the past undo them.
    pub(super) topic: Topic,
    /// The topics of namespaces and single objects, by the path of their scope, while watched.
    narrow: HashMap<Str, Topic>,
}

impl<V> Shard<V> {
    fn new(forgotten: u64) -> Self {
        Shard { objects: BTreeMap::new(), topic: Topic::new(forgotten, [].into()), narrow: HashMap::new() }
    }

    /// Whether nothing is known of the resource that the log does not say as well.
    fn is_idle(&self) -> bool {
        self.objects.is_empty() && self.topic.is_idle() && self.narrow.is_empty()
    }

    /// Puts a shorter form in the place of the current object, if it is of this revision.
    fn shorten(&mut self, path: &str, revision: u64, short: impl FnOnce() -> Option<Arc<V>>) {
        let entry = self.objects.get_mut(path).filter(|entry| entry.revision == revision);
        if let Some((entry, short)) = entry.and_then(|entry| Some((entry, short()?))) {
            entry.object = short;
        }
    }

    /// Calls `act` for each topic that covers `path`.
    fn for_each_topic(&mut self, path: &str, mut act: impl FnMut(&mut Topic)) {
        act(&mut self.topic);
        if !self.narrow.is_empty() {
            namespace_of(path).and_then(|namespace| self.narrow.get_mut(namespace)).map(&mut act);
            self.narrow.get_mut(path).map(&mut act);
        }
    }
}

impl<V> State<V> {
    pub(super) fn new(options: StoreOptions<V>, objects: impl IntoIterator<Item = (Key, Entry<V>)>) -> Self {
        let revision = options.start_revision;
        let log = Log::new(revision, options.window, options.recent, options.weight, options.archive);
        let mut state = State { revision, log, shards: BTreeMap::new(), everything: None, journal: options.journal };
        for (key, entry) in objects {
            state.shard_mut(key.resource_str()).objects.insert(key.path().clone(), entry);
        }
        state
    }

    pub(super) fn get(&self, key: &Key) -> Option<&Entry<V>> {
        self.shards.get(key.resource())?.objects.get(key.path())
    }

    /// Makes `event`, of the next revision, part of the state and of the log, or of neither.
    pub(super) fn commit(&mut self, event: Event<V>) -> io::Result<Aftermath<V>> {
        // The caller's code comes first: if it fails or panics, nothing has changed.
        let weight = self.log.weigh(&event);
        if let Some(journal) = &mut self.journal {
            journal(&event)?;
        }
        let revision = event.revision;
        let mut wake = Vec::new();
        if let Some(everything) = &mut self.everything {
            everything.push(revision, &mut wake);
        }
        let (path, shard) = (event.key.path(), self.shard_mut(event.key.resource_str()));
        shard.for_each_topic(path, |topic| topic.push(revision, &mut wake));
        match event.kind {
            EventKind::Deleted => drop(shard.objects.remove(path)),
            EventKind::Created | EventKind::Modified => {
                shard.objects.insert(path.clone(), Entry { object: Arc::clone(&event.object), revision });
            }
        }
        self.revision = revision;
        self.log.push(Arc::new(event), weight);
        Ok(Aftermath { wake, _archived: self.archive(), _dropped: self.trim() })
    }

    /// Keeps what was written some time ago in its shorter form.
    fn archive(&mut self) -> Option<Archived<V>> {
        let archived = self.log.archive()?;
        if let Some(shard) = self.shards.get_mut(archived.key.resource()) {
            shard.shorten(archived.key.path(), archived.revision, || Some(Arc::clone(&archived.object)));
        }
        Some(archived)
    }

    /// Forgets some of what has become too old since the last write.
    pub(super) fn age(&mut self) -> Vec<Arc<Event<V>>> {
        self.log.look_at_the_clock();
        self.trim()
    }

    /// Forgets what is outside of the window.
    fn trim(&mut self) -> Vec<Arc<Event<V>>> {
        self.forget(Log::pop_surplus)
    }

    /// Forgets all events.
    pub(super) fn compact(&mut self) -> Vec<Arc<Event<V>>> {
        self.forget(Log::pop)
    }

    fn forget(&mut self, pop: fn(&mut Log<V>) -> Option<Arc<Event<V>>>) -> Vec<Arc<Event<V>>> {
        let mut dropped = Vec::new();
        while let Some(event) = pop(&mut self.log) {
            if let Some(everything) = &mut self.everything {
                everything.forget(event.revision);
            }
            if let Some(shard) = self.shards.get_mut(event.key.resource()) {
                shard.for_each_topic(event.key.path(), |topic| topic.forget(event.revision));
                shard.shorten(event.key.path(), event.revision, || self.log.late_archive(&event));
            }
            self.prune(event.key.resource());
            dropped.push(event);
        }
        dropped
    }

    /// The oldest revision whose successors are all known for `scope`.
    ///
    /// Known for each resource; the topics of narrower scopes know it from their first watcher on.
    pub(super) fn oldest(&self, scope: &Scope) -> u64 {
        let shard = scope.resource_str().and_then(|resource| self.shards.get(resource));
        shard.map_or(self.log.forgotten(), |shard| shard.topic.forgotten())
    }

    /// The topic of a scope that has watchers.
    pub(super) fn topic(&self, scope: &Scope) -> Option<&Topic> {
        let Some(resource) = scope.resource_str() else { return self.everything.as_ref() };
        let shard = self.shards.get(resource)?;
        if scope.path().is_empty() { Some(&shard.topic) } else { shard.narrow.get(scope.path()) }
    }

    /// Adds a watcher that wants all events after `from`.
    pub(super) fn subscribe(&mut self, scope: &Scope, from: u64) -> Result<Listener, Compacted> {
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
        // Few watchers want more than what is new, and everybody waits while the past is searched.
        let narrow = shard.narrow.entry(scope.path().clone()).or_insert_with(|| Topic::since(self.revision, oldest));
        let concerns = |revision| self.log.get(revision).is_some_and(|event| scope.contains(&event.key));
        narrow.reach_back(from, &shard.topic, concerns);
        Ok(narrow.subscribe())
    }

    /// Removes a watcher, and with the last one all that was kept for its scope.
    pub(super) fn unsubscribe(&mut self, scope: &Scope) {
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

    pub(super) fn watchers(&self) -> usize {
        let all = |shard: &Shard<V>| shard.topic.watchers() + shard.narrow.values().map(Topic::watchers).sum::<usize>();
        self.everything.as_ref().map_or(0, Topic::watchers) + self.shards.values().map(all).sum::<usize>()
    }

    /// How many topics exist, those of resources included.
    pub(super) fn topics(&self) -> usize {
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

/// What is left to do after a write when the lock is free again.
#[must_use]
pub(super) struct Aftermath<V> {
    wake: Vec<Arc<Changes>>,
    /// Held until the end, because freeing objects takes time.
    _archived: Option<Archived<V>>,
    _dropped: Vec<Arc<Event<V>>>,
}

impl<V> Aftermath<V> {
    /// Wakes the watchers concerned. To be called without the lock, which they will want.
    pub(super) fn settle(self) {
        self.wake.iter().for_each(|changes| changes.tell());
    }
}
