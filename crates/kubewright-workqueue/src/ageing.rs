//! Ranks waiting keys by priority and by how long they have waited.
//!
//! Every key gains priority at the same rate while it waits, so the order of any two never changes: a rank computed once
//! from the time of arrival and the priority says it all, and nothing has to be sorted again as time passes.

use std::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use crate::table::Details;

/// How waiting makes up for a low priority.
///
/// A key of priority `p` goes before one of priority `q` that came up to `(p - q) × step` earlier, and never before one
/// that came earlier than that. So a key waits for those that came before it and for those that came within that time
/// after it, and for no others, whatever keeps being added: no key starves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ageing {
    step: Duration,
    limit: Duration,
}

impl Default for Ageing {
    /// A step of 100 ms, with at most 30 s for or against a key: what comes from a first list, at -100, gives way for
    /// ten seconds.
    fn default() -> Self {
        Self { step: Duration::from_millis(100), limit: Duration::from_secs(30) }
    }
}

impl Ageing {
    /// Sets the waiting time that makes up for one point of priority. 100 ms by default.
    #[must_use]
    pub fn step(mut self, step: Duration) -> Self {
        self.step = step;
        self
    }

    /// Sets the most that priority can count for or against a key, however high or low it is. 30 s by default.
    ///
    /// No key is overtaken by another that came more than twice this time later.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// The head start that `priority` gives, in nanoseconds; negative for a handicap.
    fn head_start(&self, priority: i32) -> i128 {
        let limit = self.limit.as_nanos() as i128;
        (i128::from(priority) * self.step.as_nanos() as i128).clamp(-limit, limit)
    }

    /// When a key of this priority would have had to come at priority zero to stand where it stands.
    pub(crate) fn rank(&self, since: u64, priority: i32) -> i64 {
        (i128::from(since) - self.head_start(priority)).clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }
}

/// Rank, then the higher priority, then arrival; last the number of the key.
type Place = (i64, Reverse<i32>, u32, u32);

/// Waiting keys by rank.
///
/// Keys of one priority come in the order of their ranks, and most queues have hardly others: such keys stand in a line that
/// they join at its end. Only those that go before some of the line are in a tree.
#[derive(Debug)]
pub(crate) struct Aged {
    ageing: Ageing,
    /// Invariant: ascending.
    line: VecDeque<Place>,
    others: BTreeSet<Place>,
}

impl Aged {
    pub(crate) fn new(ageing: Ageing) -> Self {
        Self { ageing, line: VecDeque::new(), others: BTreeSet::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.line.len() + self.others.len()
    }

    pub(crate) fn push(&mut self, number: u32, details: &Details) {
        let place = self.place(number, details);
        if self.line.back().is_none_or(|last| *last < place) {
            self.line.push_back(place);
        } else {
            self.others.insert(place);
        }
    }

    pub(crate) fn pop(&mut self) -> Option<u32> {
        let (first, other) = (self.line.front(), self.others.first());
        let place = match (first, other) {
            (Some(first), Some(other)) if other < first => self.others.pop_first(),
            (None, _) => self.others.pop_first(),
            _ => self.line.pop_front(),
        };
        place.map(|(.., number)| number)
    }

    /// Takes a key out of the line, given what it was pushed with.
    pub(crate) fn remove(&mut self, number: u32, details: &Details) {
        let place = self.place(number, details);
        if !self.others.remove(&place)
            && let Ok(at) = self.line.binary_search(&place)
        {
            self.line.remove(at);
        }
    }

    fn place(&self, number: u32, details: &Details) -> Place {
        let rank = self.ageing.rank(details.since, details.priority);
        (rank, Reverse(details.priority), details.arrival, number)
    }
}
