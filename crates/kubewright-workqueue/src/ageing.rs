//! Ranks queued keys by priority and waiting time.
//!
//! Every key ages at the same rate, so the relative order of two keys never changes. A rank
//! computed once, when the key is queued, therefore stays valid, and nothing is re-sorted as time
//! passes.

use std::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use crate::table::KeyDetails;

/// How much waiting time makes up for one point of priority.
///
/// A key of priority `p` overtakes a key of lower priority `q` only if that key was added at most
/// `(p - q) × step` earlier. The number of keys that can overtake a queued key is therefore
/// bounded: no key starves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ageing {
    step: Duration,
    limit: Duration,
}

impl Default for Ageing {
    /// A step of 100 ms and a limit of 30 s. Keys of an initial list, at priority -100, therefore
    /// yield to changes for ten seconds.
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

    /// Sets the maximum head start or handicap that any priority gives. 30 s by default.
    ///
    /// A key is never overtaken by a key that was added more than twice this duration later.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// The head start of `priority` in nanoseconds; negative for a handicap.
    fn head_start(&self, priority: i32) -> i128 {
        let limit = self.limit.as_nanos() as i128;
        (i128::from(priority) * self.step.as_nanos() as i128).clamp(-limit, limit)
    }

    /// The arrival time at which a key of priority zero would have the same position in the queue.
    pub(crate) fn rank(&self, since: u64, priority: i32) -> i64 {
        (i128::from(since) - self.head_start(priority)).clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }
}

/// Sort order: rank, higher priority first, arrival, number of the key.
type RankKey = (i64, Reverse<i32>, u32, u32);

/// Queued keys ordered by rank.
///
/// Keys of equal priority arrive in rank order, and most queues have one priority. Such keys are
/// appended to a deque. Only a key that ranks before the end of the deque goes into the tree.
#[derive(Debug)]
pub(crate) struct RankedKeys {
    ageing: Ageing,
    /// Invariant: sorted in ascending order.
    line: VecDeque<RankKey>,
    others: BTreeSet<RankKey>,
}

impl RankedKeys {
    pub(crate) fn new(ageing: Ageing) -> Self {
        Self { ageing, line: VecDeque::new(), others: BTreeSet::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.line.len() + self.others.len()
    }

    pub(crate) fn push(&mut self, number: u32, details: &KeyDetails) {
        let place = self.place(number, details);
        if self.line.back().is_none_or(|last| *last < place) {
            self.line.push_back(place);
        } else {
            self.others.insert(place);
        }
    }

    pub(crate) fn pop(&mut self) -> Option<u32> {
        let place = match (self.line.front(), self.others.first()) {
            (Some(first), Some(other)) if other < first => self.others.pop_first(),
            (None, _) => self.others.pop_first(),
            _ => self.line.pop_front(),
        };
        place.map(|(.., number)| number)
    }

    /// Removes a key; `details` must be those it was pushed with.
    pub(crate) fn remove(&mut self, number: u32, details: &KeyDetails) {
        let place = self.place(number, details);
        if !self.others.remove(&place)
            && let Ok(at) = self.line.binary_search(&place)
        {
            self.line.remove(at);
        }
    }

    fn place(&self, number: u32, details: &KeyDetails) -> RankKey {
        let rank = self.ageing.rank(details.since, details.priority);
        (rank, Reverse(details.priority), details.arrival, number)
    }
}
