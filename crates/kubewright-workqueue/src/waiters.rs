//! The workers that wait for a key, and the one among them that keeps time.
//!
//! The queue has no task: one waiting worker, the timekeeper, sleeps until the earliest deadline.
//! When it leaves, another worker takes over. Wakers are collected under the lock and woken after
//! unlocking.

use std::task::Waker;

/// Workers waiting for a key.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    /// Used as a stack: the last worker is woken first. Its memory is warm, and the timekeeper
    /// tends to stay asleep.
    waiting: Vec<(u64, Waker)>,
    /// Workers to wake after unlocking.
    picked: Vec<Waker>,
    ids: u64,
    timekeeper: Option<u64>,
}

impl Waiters {
    /// Whether no worker waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Registers a worker, under its previous id if it had one.
    pub(crate) fn register(&mut self, id: Option<u64>, waker: &Waker) -> u64 {
        let id = id.unwrap_or_else(|| {
            self.ids += 1;
            self.ids
        });
        self.waiting.push((id, waker.clone()));
        id
    }

    /// Removes a worker. Returns false if it was already picked or never registered.
    pub(crate) fn unregister(&mut self, id: u64) -> bool {
        let position = self.waiting.iter().rposition(|&(other, _)| other == id);
        position.map(|position| self.waiting.remove(position)).is_some()
    }

    /// Makes a worker the timekeeper unless there is another one. Returns whether it is the
    /// timekeeper.
    pub(crate) fn keep_time(&mut self, id: u64) -> bool {
        *self.timekeeper.get_or_insert(id) == id
    }

    /// Ends a worker's role as timekeeper.
    pub(crate) fn stop_keeping_time(&mut self, id: u64) {
        if self.timekeeper == Some(id) {
            self.timekeeper = None;
        }
    }

    /// Whether there is a timekeeper.
    pub(crate) fn has_timekeeper(&self) -> bool {
        self.timekeeper.is_some()
    }

    /// Picks up to `count` workers to wake.
    pub(crate) fn pick(&mut self, count: usize) {
        if count > 0 && !self.waiting.is_empty() {
            self.pick_some(count);
        }
    }

    #[cold]
    fn pick_some(&mut self, count: usize) {
        let kept = self.waiting.len().saturating_sub(count);
        self.picked.extend(self.waiting.drain(kept..).map(|(_, waker)| waker));
    }

    /// Picks all workers.
    pub(crate) fn pick_all(&mut self) {
        self.pick(usize::MAX);
    }

    /// Has the deadline re-read: by the timekeeper, which stays registered, or else by any worker.
    pub(crate) fn pick_timekeeper(&mut self) {
        match self.timekeeper {
            Some(id) => {
                let timekeeper = self.waiting.iter().find(|&&(other, _)| other == id);
                self.picked.extend(timekeeper.map(|(_, waker)| waker.clone()));
            }
            None => self.pick(1),
        }
    }

    /// Whether workers are to be woken.
    pub(crate) fn has_picked(&self) -> bool {
        !self.picked.is_empty()
    }

    /// Removes one picked worker.
    pub(crate) fn next_picked(&mut self) -> Option<Waker> {
        self.picked.pop()
    }

    /// Removes all picked workers.
    pub(crate) fn take_picked(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.picked)
    }
}
