//! The newest events of all resources, one for each revision.

use std::{collections::VecDeque, sync::Arc};

use tokio::time::Instant;

use super::{
    Event, EventKind, Key,
    options::{Archive, Recent, WeightLimit},
};

/// So many events are forgotten at once at most because of their age: nobody waits for the end of a long rest.
const AGED_AT_ONCE: usize = 16;

/// A bounded queue of events without gaps.
pub(super) struct Log<V> {
    /// Invariant: the event at index `i` has revision `forgotten + 1 + i`.
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
    /// What the clock said last.
    now: u32,
    /// How many have been forgotten because of their age since then.
    aged: usize,
}

struct Logged<V> {
    event: Arc<Event<V>>,
    weight: usize,
    /// When it came.
    second: u32,
}

/// What has become of an event.
pub(super) struct Archived<V> {
    pub(super) key: Key,
    pub(super) revision: u64,
    /// What was written, in its shorter form.
    pub(super) object: Arc<V>,
    /// What it was, and what it superseded.
    _long: (Arc<V>, Option<Arc<V>>),
}

impl<V> Log<V> {
    pub(super) fn new(
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

    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    pub(super) fn len(&self) -> usize {
        self.events.len()
    }

    pub(super) fn weight(&self) -> usize {
        self.weight
    }

    /// The event of a retained revision.
    pub(super) fn get(&self, revision: u64) -> Option<&Arc<Event<V>>> {
        self.events.get(self.index(revision)?).map(|logged| &logged.event)
    }

    fn index(&self, revision: u64) -> Option<usize> {
        usize::try_from(revision.checked_sub(self.forgotten + 1)?).ok()
    }

    /// An event that may be changed, without a change for those who hold it already.
    fn get_mut(&mut self, revision: u64) -> Option<&mut Event<V>> {
        let index = self.index(revision)?;
        self.events.get_mut(index).map(|logged| Arc::make_mut(&mut logged.event))
    }

    /// All retained revisions, ascending.
    pub(super) fn revisions(&self) -> impl Iterator<Item = u64> {
        self.events.iter().map(|logged| logged.event.revision)
    }

    /// What an event keeps alive that the current state does not: the value it replaced, and for
    /// a deletion also its own. So the sum over the log is what the history costs.
    pub(super) fn weigh(&self, event: &Event<V>) -> usize {
        let Some(WeightLimit { weigh, .. }) = &self.weight_limit else { return 0 };
        let previous = event.previous.as_ref().map_or(0, |previous| weigh(&previous.object));
        let own = if event.kind == EventKind::Deleted { weigh(&event.object) } else { 0 };
        previous.saturating_add(own)
    }

    /// Adds the event of the next revision, of the weight that [`Log::weigh`] gave it.
    pub(super) fn push(&mut self, event: Arc<Event<V>>, weight: usize) {
        debug_assert_eq!(event.revision, self.forgotten + 1 + self.events.len() as u64);
        self.weight = self.weight.saturating_add(weight);
        self.look_at_the_clock();
        self.events.push_back(Logged { event, weight, second: self.now });
    }

    /// Shortens the values of the one event that has just become old enough for it. To be called after each [`push`](Self::push).
    pub(super) fn archive(&mut self) -> Option<Archived<V>> {
        let Archive { after, shorten } = *self.archive.as_ref()?;
        let newest = self.forgotten + self.events.len() as u64;
        let revision = newest.checked_sub(after as u64)?;
        let event = self.get_mut(revision)?;
        let (key, object) = (event.key.clone(), Arc::new(shorten(&event.object)));
        let long = std::mem::replace(&mut event.object, Arc::clone(&object));
        // Who wrote it has looked at what it superseded, which may have become long again.
        let superseded = event.previous.as_mut().map(|previous| {
            let short = Arc::new(shorten(&previous.object));
            (previous.revision, std::mem::replace(&mut previous.object, Arc::clone(&short)), short)
        });
        // The event that brought it has it as well.
        if let Some((maker, _, short)) = &superseded
            && let Some(event) = self.get_mut(*maker)
        {
            event.object = Arc::clone(short);
        }
        Some(Archived { key, revision, object, _long: (long, superseded.map(|(_, long, _)| long)) })
    }

    /// The value of an event that was forgotten, in its shorter form if it was not old enough for it yet.
    pub(super) fn late_archive(&self, event: &Event<V>) -> Option<Arc<V>> {
        let Archive { after, shorten } = *self.archive.as_ref()?;
        let newest = self.forgotten + self.events.len() as u64;
        (event.revision + after as u64 > newest).then(|| Arc::new(shorten(&event.object)))
    }

    /// Lets events grow older.
    pub(super) fn look_at_the_clock(&mut self) {
        if self.recent.is_some() {
            self.now = u32::try_from(self.begun.elapsed().as_secs()).unwrap_or(u32::MAX);
            self.aged = 0;
        }
    }

    /// Removes the oldest event if the log is over its bounds.
    pub(super) fn pop_surplus(&mut self) -> Option<Arc<Event<V>>> {
        let too_heavy = self.weight_limit.as_ref().is_some_and(|weight| self.weight > weight.limit);
        if self.events.len() <= 1 || !(too_heavy || self.is_too_long()) {
            return None;
        }
        self.pop()
    }

    /// Whether the oldest event is outside of the window, and not recent enough to be kept nevertheless.
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

    /// Removes the oldest event.
    pub(super) fn pop(&mut self) -> Option<Arc<Event<V>>> {
        let logged = self.events.pop_front()?;
        self.weight = self.weight.saturating_sub(logged.weight);
        self.forgotten = logged.event.revision;
        if self.events.capacity() > self.window.saturating_mul(4) && self.events.len() < self.events.capacity() / 4 {
            self.events.shrink_to(self.events.len() * 2);
        }
        Some(logged.event)
    }
}
