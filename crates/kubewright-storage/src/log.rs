//! The newest events of all resources, in the order of their revisions.

use std::{collections::VecDeque, sync::Arc};

use tokio::time::Instant;

use crate::event::{EventKind, StoreEvent};
use crate::key::Key;
use crate::options::{Archive, Recent, WeightLimit};

/// Maximum number of aged events that one write drops. It bounds the time of a write after a long
/// pause.
const AGED_AT_ONCE: usize = 16;

/// A bounded queue of events.
pub(crate) struct Log<V> {
    /// Invariant: revisions never descend. A write that was rolled back leaves a gap. The changes
    /// of one [followed](crate::Store::follow) transaction share a revision, and have different
    /// keys.
    events: VecDeque<Logged<V>>,
    /// The revision of the newest dropped event, or the one the store began with.
    forgotten: u64,
    window: usize,
    recent: Option<Recent>,
    weight: usize,
    weight_limit: Option<WeightLimit<V>>,
    archive: Option<Archive<V>>,
    /// Ages are counted in seconds from here.
    begun: Instant,
    /// The last reading of the clock.
    now: u32,
    /// Number of events dropped for their age since that reading.
    aged: usize,
}

struct Logged<V> {
    event: Arc<StoreEvent<V>>,
    weight: usize,
    /// The time of the write.
    second: u32,
}

/// An event whose values were shortened.
pub(crate) struct Archived<V> {
    pub(crate) key: Key,
    pub(crate) revision: u64,
    /// The written value, in its shorter form.
    pub(crate) object: Arc<V>,
    /// The long forms of the value and of the previous one. The caller frees them without the lock.
    _long: (Arc<V>, Option<Arc<V>>),
}

impl<V> Log<V> {
    pub(crate) fn new(
        start_revision: u64,
        window: usize,
        recent: Option<Recent>,
        weight_limit: Option<WeightLimit<V>>,
        archive: Option<Archive<V>>,
    ) -> Self {
        Log {
            events: VecDeque::new(),
            forgotten: start_revision,
            window,
            recent,
            weight: 0,
            weight_limit,
            archive,
            begun: Instant::now(),
            now: 0,
            aged: 0,
        }
    }

    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    pub(crate) fn weight(&self) -> usize {
        self.weight
    }

    /// The retained events of a revision.
    pub(crate) fn at(&self, revision: u64) -> impl Iterator<Item = &Arc<StoreEvent<V>>> {
        let events = self.events.range(self.first(revision)..).map(|logged| &logged.event);
        events.take_while(move |event| event.revision == revision)
    }

    /// The index of the first event of this revision or a later one.
    fn first(&self, revision: u64) -> usize {
        self.events.partition_point(|logged| logged.event.revision < revision)
    }

    /// The retained events after `position`, up to and including `last`.
    pub(crate) fn range(&self, position: u64, last: u64) -> impl Iterator<Item = &Arc<StoreEvent<V>>> {
        let start = self.events.partition_point(|logged| logged.event.revision <= position);
        let events = self.events.range(start..).map(|logged| &logged.event);
        events.take_while(move |event| event.revision <= last)
    }

    /// The event that wrote a key at a revision. It is copied if readers share it.
    fn get_mut(&mut self, revision: u64, key: &Key) -> Option<&mut StoreEvent<V>> {
        let first = self.first(revision);
        let mut events = self.events.range_mut(first..).take_while(|logged| logged.event.revision == revision);
        events.find(|logged| logged.event.key == *key).map(|logged| Arc::make_mut(&mut logged.event))
    }

    /// All retained revisions, ascending.
    pub(crate) fn revisions(&self) -> impl Iterator<Item = u64> {
        let mut previous = None;
        let revisions = self.events.iter().map(|logged| logged.event.revision);
        revisions.filter(move |revision| previous.replace(*revision) != Some(*revision))
    }

    /// The weight of values that only this event holds: the replaced value, and the deleted one.
    /// Their sum is the memory of the history.
    pub(crate) fn weigh(&self, event: &StoreEvent<V>) -> usize {
        let Some(WeightLimit { weigh, .. }) = &self.weight_limit else { return 0 };
        let previous = event.previous.as_ref().map_or(0, |previous| weigh(&previous.object));
        let own = if event.kind == EventKind::Deleted { weigh(&event.object) } else { 0 };
        previous.saturating_add(own)
    }

    /// Adds the event of the next revision with its weight from [`Log::weigh`].
    pub(crate) fn push(&mut self, event: Arc<StoreEvent<V>>, weight: usize) {
        debug_assert!(self.events.back().is_none_or(|newest| newest.event.revision <= event.revision));
        self.weight = self.weight.saturating_add(weight);
        self.read_clock();
        self.events.push_back(Logged { event, weight, second: self.now });
    }

    /// Shortens the values of the event that has just become old enough. Call it after each
    /// [`push`](Self::push).
    pub(crate) fn archive(&mut self) -> Option<Archived<V>> {
        let Archive { after, shorten } = *self.archive.as_ref()?;
        let index = self.events.len().checked_sub(after.saturating_add(1))?;
        let event = Arc::make_mut(&mut self.events.get_mut(index)?.event);
        let revision = event.revision;
        let (key, object) = (event.key.clone(), Arc::new(shorten(&event.object)));
        let long = std::mem::replace(&mut event.object, Arc::clone(&object));
        // The previous value may still be in its long form: its writer read it before it was
        // shortened.
        let superseded = event.previous.as_mut().map(|previous| {
            let short = Arc::new(shorten(&previous.object));
            (previous.revision, std::mem::replace(&mut previous.object, Arc::clone(&short)), short)
        });
        // Shorten it in the event that wrote it, too.
        if let Some((maker, _, short)) = &superseded
            && let Some(event) = self.get_mut(*maker, &key)
        {
            event.object = Arc::clone(short);
        }
        Some(Archived { key, revision, object, _long: (long, superseded.map(|(_, long, _)| long)) })
    }

    /// The short form of the value of a dropped event that was never archived.
    pub(crate) fn late_archive(&self, event: &StoreEvent<V>) -> Option<Arc<V>> {
        let Archive { after, shorten } = *self.archive.as_ref()?;
        (self.events.len() < after).then(|| Arc::new(shorten(&event.object)))
    }

    /// Reads the clock, by which events expire.
    pub(crate) fn read_clock(&mut self) {
        if self.recent.is_some() {
            self.now = u32::try_from(self.begun.elapsed().as_secs()).unwrap_or(u32::MAX);
            self.aged = 0;
        }
    }

    /// Removes the oldest event if the log is over its limits and the event is committed.
    pub(crate) fn pop_surplus(&mut self, committed: u64) -> Option<Arc<StoreEvent<V>>> {
        let too_heavy = self.weight_limit.as_ref().is_some_and(|weight| self.weight > weight.limit);
        if self.events.len() <= 1 || !(too_heavy || self.is_too_long()) {
            return None;
        }
        self.pop(committed)
    }

    /// Removes the newest event if it is not committed.
    pub(crate) fn pop_uncommitted(&mut self, committed: u64) -> Option<Arc<StoreEvent<V>>> {
        self.events.back().filter(|newest| newest.event.revision > committed)?;
        let logged = self.events.pop_back()?;
        self.weight = self.weight.saturating_sub(logged.weight);
        Some(logged.event)
    }

    /// Whether the oldest event is outside of the window and not recent.
    fn is_too_long(&mut self) -> bool {
        let length = self.events.len();
        let Some(recent) = self.recent.filter(|recent| length > self.window && length <= recent.most) else {
            return length > self.window;
        };
        let age = self.events.front().map_or(0, |oldest| self.now.saturating_sub(oldest.second));
        let is_aged = age >= recent.seconds && self.aged < AGED_AT_ONCE;
        self.aged += usize::from(is_aged);
        is_aged
    }

    /// Notes that all events up to `revision` are unknown. The log is empty.
    pub(crate) fn skip_to(&mut self, revision: u64) {
        debug_assert!(self.events.is_empty());
        self.forgotten = revision.max(self.forgotten);
    }

    /// Removes the oldest event if it is committed.
    pub(crate) fn pop(&mut self, committed: u64) -> Option<Arc<StoreEvent<V>>> {
        self.events.front().filter(|oldest| oldest.event.revision <= committed)?;
        let logged = self.events.pop_front()?;
        self.weight = self.weight.saturating_sub(logged.weight);
        self.forgotten = logged.event.revision;
        if self.events.capacity() > self.window.saturating_mul(4) && self.events.len() < self.events.capacity() / 4 {
            self.events.shrink_to(self.events.len() * 2);
        }
        Some(logged.event)
    }
}
