//! The newest events of all resources, one for each revision.

use std::{collections::VecDeque, sync::Arc};

use super::{Event, EventKind, options::WeightLimit};

/// A bounded queue of events without gaps.
pub(super) struct Log<V> {
    /// Invariant: the event at index `i` has revision `forgotten + 1 + i`.
    events: VecDeque<Logged<V>>,
    /// The revision of the newest dropped event, or the one the store began with.
    forgotten: u64,
    window: usize,
    weight: usize,
    weight_limit: Option<WeightLimit<V>>,
}

struct Logged<V> {
    event: Arc<Event<V>>,
    weight: usize,
}

impl<V> Log<V> {
    pub(super) fn new(start_revision: u64, window: usize, weight_limit: Option<WeightLimit<V>>) -> Self {
        Log { events: VecDeque::new(), forgotten: start_revision, window, weight: 0, weight_limit }
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
        let index = revision.checked_sub(self.forgotten + 1)?;
        self.events.get(usize::try_from(index).ok()?).map(|logged| &logged.event)
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
        self.events.push_back(Logged { event, weight });
    }

    /// Removes the oldest event if the log is over its bounds.
    pub(super) fn pop_surplus(&mut self) -> Option<Arc<Event<V>>> {
        let too_heavy = self.weight_limit.as_ref().is_some_and(|weight| self.weight > weight.limit);
        if self.events.len() <= 1 || (self.events.len() <= self.window && !too_heavy) {
            return None;
        }
        self.pop()
    }

    /// Removes the oldest event.
    pub(super) fn pop(&mut self) -> Option<Arc<Event<V>>> {
        let logged = self.events.pop_front()?;
        self.weight = self.weight.saturating_sub(logged.weight);
        self.forgotten = logged.event.revision;
        Some(logged.event)
    }
}
