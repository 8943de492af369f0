//! Remembers which workers wait for a key, and which one of them watches the clock.
//!
//! The queue has no task of its own: one of the waiting workers sleeps until the soonest deadline, and when it leaves,
//! another takes over. Wakers are collected under the lock and woken after it.

use std::task::Waker;

/// Workers waiting for a key.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    /// The last to come is woken first: its memory is warm, and the one that watches the clock stays asleep.
    waiting: Vec<(u64, Waker)>,
    /// Workers to wake as soon as the lock is free.
    picked: Vec<Waker>,
    ids: u64,
    timekeeper: Option<u64>,
}

impl Waiters {
    /// Whether nobody waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Registers a worker, under the identity it had before if it had one.
    pub(crate) fn register(&mut self, id: Option<u64>, waker: &Waker) -> u64 {
        let id = id.unwrap_or_else(|| {
            self.ids += 1;
            self.ids
        });
        self.waiting.push((id, waker.clone()));
        id
    }

    /// Forgets a worker's registration. False if it had been woken, or was never registered.
    pub(crate) fn unregister(&mut self, id: u64) -> bool {
        let position = self.waiting.iter().rposition(|&(other, _)| other == id);
        position.map(|position| self.waiting.remove(position)).is_some()
    }

    /// Makes a worker the one that watches the clock, unless another one does.
    pub(crate) fn keep_time(&mut self, id: u64) -> bool {
        *self.timekeeper.get_or_insert(id) == id
    }

    /// Notes that a worker watches the clock no longer.
    pub(crate) fn stop_keeping_time(&mut self, id: u64) {
        if self.timekeeper == Some(id) {
            self.timekeeper = None;
        }
    }

    /// Whether some worker watches the clock.
    pub(crate) fn has_timekeeper(&self) -> bool {
        self.timekeeper.is_some()
    }

    /// Picks up to `count` workers to wake.
    #[inline]
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

    /// Picks all workers to wake.
    pub(crate) fn pick_all(&mut self) {
        self.pick(usize::MAX);
    }

    /// Has somebody look at the clock anew: the one that watches it, who stays registered, or else any one.
    pub(crate) fn pick_timekeeper(&mut self) {
        match self.timekeeper {
            Some(id) => {
                let timekeeper = self.waiting.iter().find(|&&(other, _)| other == id);
                self.picked.extend(timekeeper.map(|(_, waker)| waker.clone()));
            }
            None => self.pick(1),
        }
    }

    /// Whether somebody is to be woken.
    #[inline]
    pub(crate) fn has_picked(&self) -> bool {
        !self.picked.is_empty()
    }

    /// One of those to be woken.
    pub(crate) fn next_picked(&mut self) -> Option<Waker> {
        self.picked.pop()
    }

    /// All who are to be woken.
    pub(crate) fn take_picked(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.picked)
    }
}
