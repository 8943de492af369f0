//! The events of one scope, by revision, and the watchers to wake.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::changes::{ChangeListener, Changes};

/// A topic with fewer revisions does not release memory.
const SMALL: usize = 64;

/// The retained events of one scope, by revision, and its watchers.
pub(crate) struct Topic {
    /// Invariant: ascending. They are the revisions after `since` of the events in the log that
    /// belong to the scope.
    revisions: VecDeque<u64>,
    since: u64,
    /// No event of this scope after this revision has been dropped from the log.
    forgotten: u64,
    watchers: usize,
    changes: Arc<Changes>,
}

impl Topic {
    /// A topic with these revisions. No event after `forgotten` was dropped.
    pub(crate) fn new(forgotten: u64, revisions: VecDeque<u64>) -> Self {
        Topic { revisions, since: forgotten, forgotten, watchers: 0, changes: Arc::default() }
    }

    /// A topic of future events after `since`. The log has dropped no event of its scope after
    /// `forgotten`.
    pub(crate) fn since(since: u64, forgotten: u64) -> Self {
        Topic { since, ..Topic::new(forgotten, VecDeque::new()) }
    }

    /// Adds earlier revisions, for a watcher that starts at `from`: the revisions of the `wider`
    /// topic that `is_in_scope` accepts.
    pub(crate) fn extend_back(&mut self, from: u64, wider: &Topic, is_in_scope: impl Fn(u64) -> bool) {
        if from < self.since {
            let until = wider.revisions.partition_point(|revision| *revision <= self.since);
            let start = wider.revisions.partition_point(|revision| *revision <= from);
            let earlier = wider.revisions.range(start..until).rev().copied();
            earlier.filter(|revision| is_in_scope(*revision)).for_each(|revision| self.revisions.push_front(revision));
            self.since = from;
        }
    }

    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// The retained revisions after `position`, ascending.
    pub(crate) fn after(&self, position: u64) -> impl ExactSizeIterator<Item = u64> {
        self.range(position, u64::MAX)
    }

    /// The retained revisions after `position` up to and including `last`, ascending.
    pub(crate) fn range(&self, position: u64, last: u64) -> impl ExactSizeIterator<Item = u64> {
        let start = self.revisions.partition_point(|revision| *revision <= position);
        let end = self.revisions.partition_point(|revision| *revision <= last);
        self.revisions.range(start..end.max(start)).copied()
    }

    /// Whether dropping this topic would lose anything.
    pub(crate) fn is_idle(&self) -> bool {
        self.watchers == 0 && self.revisions.is_empty()
    }

    pub(crate) fn has_watchers(&self) -> bool {
        self.watchers > 0
    }

    pub(crate) fn watchers(&self) -> usize {
        self.watchers
    }

    pub(crate) fn subscribe(&mut self) -> ChangeListener {
        self.watchers += 1;
        ChangeListener::new(&self.changes)
    }

    pub(crate) fn unsubscribe(&mut self) {
        self.watchers -= 1;
    }

    /// Adds a new event. Its revision may be that of the previous one.
    pub(crate) fn push(&mut self, revision: u64) {
        if self.revisions.back() != Some(&revision) {
            self.revisions.push_back(revision);
        }
    }

    /// Removes an event that was rolled back.
    pub(crate) fn pop(&mut self, revision: u64) {
        if self.revisions.back() == Some(&revision) {
            self.revisions.pop_back();
        }
    }

    /// Adds the topic's watchers, if any, to `wake`.
    pub(crate) fn wake(&self, wake: &mut Vec<Arc<Changes>>) {
        if self.has_watchers() {
            wake.push(Arc::clone(&self.changes));
        }
    }

    /// Notes that the log has dropped an event of this scope.
    pub(crate) fn forget(&mut self, revision: u64) {
        if self.revisions.front() == Some(&revision) {
            self.revisions.pop_front();
        }
        self.forgotten = revision;
        let (length, capacity) = (self.revisions.len(), self.revisions.capacity());
        if capacity > SMALL && length < capacity / 4 {
            self.revisions.shrink_to(length * 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_returns_what_comes_after_a_position() {
        let topic = Topic::new(3, VecDeque::from([4, 7, 9]));
        assert_eq!(topic.after(3).collect::<Vec<_>>(), [4, 7, 9]);
        assert_eq!(topic.after(7).collect::<Vec<_>>(), [9]);
        assert_eq!(topic.after(100).len(), 0);
    }

    #[test]
    fn a_topic_reaches_back_to_the_oldest_requested_revision() {
        let wider = Topic::new(0, (1..=20).collect());
        let mut topic = Topic::since(20, 0);
        for (from, known) in [(20, vec![]), (12, vec![15]), (14, vec![15]), (4, vec![5, 10, 15]), (3, vec![5, 10, 15])]
        {
            topic.extend_back(from, &wider, |revision| revision < 20 && revision % 5 == 0);
            assert_eq!(topic.after(0).collect::<Vec<_>>(), known);
        }
    }

    #[test]
    fn a_topic_gives_memory_back_when_its_events_are_forgotten() {
        let mut topic = Topic::new(0, (1..=10_000).collect());
        (1..=10_000).for_each(|revision| topic.forget(revision));
        assert!(topic.is_idle() && topic.revisions.capacity() <= SMALL);
        assert_eq!(topic.forgotten(), 10_000);
    }
}
