//! The part of a queue that its handles share: the lock, the clock and the wake-ups.

use std::hash::{BuildHasher, Hash};
use std::task::Waker;

use foldhash::fast::RandomState;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::clock;
use crate::metrics::{ObservedQueue, QueueLabels, QueueSample, seconds};
use crate::state::{QueueState, ShutdownPhase};
use crate::sync::{Guard, Lock};
use crate::waiters::Waiters;

/// State shared by all handles of a queue.
pub(crate) struct SharedQueue<T> {
    pub(crate) locked: Lock<Locked<T>>,
    pub(crate) drained: Notify,
    pub(crate) hasher: RandomState,
    pub(crate) epoch: Instant,
    /// Whether the queue records when a key was added or handed out. Reading the clock costs as
    /// much as taking the lock twice, so plain queues skip it.
    pub(crate) is_timed: bool,
    pub(crate) labels: QueueLabels,
}

/// State behind the lock.
pub(crate) struct Locked<T> {
    pub(crate) state: QueueState<T>,
    pub(crate) waiters: Waiters,
}

impl<T> Locked<T> {
    /// Whether a worker can take a key without notifying anyone: no key is delayed, and the queue
    /// is not shutting down.
    pub(crate) fn is_uncontended(&self) -> bool {
        self.state.deadlines.is_empty() && self.state.phase == ShutdownPhase::Open
    }

    /// Queues keys that are due. Reads the clock only if keys are delayed.
    pub(crate) fn advance(&mut self, now: impl FnOnce() -> u64) -> usize {
        if self.state.deadlines.is_empty() { 0 } else { self.state.advance(now()) }
    }
}

impl<T> SharedQueue<T> {
    /// Nanoseconds since the queue was created.
    pub(crate) fn now(&self) -> u64 {
        clock::now().saturating_duration_since(self.epoch).as_nanos() as u64
    }

    /// Runs `work` under the lock, then wakes the picked workers.
    pub(crate) fn change<R>(&self, work: impl FnOnce(&mut Locked<T>) -> R) -> R {
        change(self.lock(), work)
    }

    pub(crate) fn lock(&self) -> Guard<'_, Locked<T>> {
        self.locked.lock()
    }

    /// Runs `read` on the state as of `now`.
    pub(crate) fn inspect<R>(&self, now: u64, read: impl FnOnce(&QueueState<T>) -> R) -> R {
        self.change(|locked| {
            let added = locked.state.advance(now);
            locked.waiters.pick(added);
            read(&locked.state)
        })
    }

    /// Marks a key as done if `ticket` is still valid.
    pub(crate) fn finish(&self, number: u32, ticket: u64) {
        let now = if self.is_timed { self.now() } else { 0 };
        let _forgotten = self.change(|locked| {
            let finished = locked.state.finish(number, ticket, now)?;
            locked.waiters.pick(usize::from(finished.requeued));
            if locked.state.phase == ShutdownPhase::Draining && locked.state.is_drained() {
                self.drained.notify_waiters();
            }
            finished.forgotten
        });
    }

    pub(crate) fn shut_down(&self, phase: ShutdownPhase) {
        let now = self.now();
        let _forgotten = self.change(|locked| {
            if locked.state.phase == ShutdownPhase::Open {
                locked.state.advance(now);
            }
            locked.waiters.pick_all();
            locked.state.shut_down(phase)
        });
        self.drained.notify_waiters();
    }
}

/// Runs `work` on the locked state, unlocks, and wakes the picked workers.
pub(crate) fn change<T, R>(mut locked: Guard<'_, Locked<T>>, work: impl FnOnce(&mut Locked<T>) -> R) -> R {
    let result = work(&mut locked);
    if locked.waiters.has_picked() {
        wake_picked(locked);
    }
    result
}

/// Unlocks, then wakes the picked workers.
#[cold]
fn wake_picked<T>(mut locked: Guard<'_, Locked<T>>) {
    let first = locked.waiters.next_picked();
    // Usually there is exactly one, which needs no allocation.
    let others = if locked.waiters.has_picked() { locked.waiters.take_picked() } else { Vec::new() };
    drop(locked);
    first.into_iter().chain(others).for_each(Waker::wake);
}

impl<T: Hash> SharedQueue<T> {
    pub(crate) fn hash(&self, key: &T) -> u32 {
        self.hasher.hash_one(key) as u32
    }
}

impl<T: Send> ObservedQueue for SharedQueue<T> {
    fn observe(&self) -> (QueueLabels, QueueSample) {
        let now = self.now();
        let sample = self.inspect(now, |state| {
            let ages = state.running.iter().map(|running| seconds(now.saturating_sub(running.started)));
            QueueSample {
                depth: state.depth() as u64,
                unfinished: ages.clone().sum(),
                longest: ages.fold(0.0, f64::max),
                stats: state.stats.as_deref().cloned().unwrap_or_default(),
            }
        });
        (self.labels.clone(), sample)
    }
}
