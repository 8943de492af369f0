//! The queue as a pure state machine: no locks, no clock, no tasks.
//!
//! Every transition of a key is a method that takes the time as an argument. `queue` adds the lock
//! and wakes workers according to the results. Times are nanoseconds since the queue was created.

use crate::deadlines::Deadlines;
use crate::fairness::Order;
use crate::metrics::Stats;
use crate::table::{KeyEntry, KeyTable, NEVER, Status};

/// After this many keys without a pause, more are likely to follow soon.
pub(crate) const BURST: u64 = if cfg!(shuttle) { 2 } else { 64 };

/// Progress of the shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShutdownPhase {
    /// Keys are accepted.
    Open,
    /// Keys are rejected, and a caller may be waiting for the queue to drain.
    Draining,
    /// Keys are rejected, and no caller waits.
    Closed,
}

/// A key taken by a worker.
#[derive(Debug)]
pub(crate) struct TakenKey<T> {
    pub(crate) key: T,
    pub(crate) number: u32,
    pub(crate) ticket: u64,
    pub(crate) priority: i32,
}

/// The result of marking a key as done.
#[derive(Debug)]
pub(crate) struct Finished<T> {
    /// The key was queued again, because it was added while being processed.
    pub(crate) requeued: bool,
    /// The key, if it was removed from the table; the caller drops it after unlocking.
    pub(crate) forgotten: Option<T>,
}

/// A key being processed.
#[derive(Debug)]
pub(crate) struct ProcessingKey {
    pub(crate) number: u32,
    /// Identifies this claim of the key; tickets increase with each claim.
    pub(crate) ticket: u64,
    pub(crate) started: u64,
}

/// The complete state of a queue.
///
/// Invariants: the numbers in `order` are those of the entries with status `Queued`; those in
/// `running` belong to the entries with status `Processing` and `ProcessingDirty`, of which there
/// are `redirtied`; an entry that is `Idle` has a deadline.
#[derive(Debug)]
pub(crate) struct QueueState<T> {
    pub(crate) table: KeyTable<T>,
    pub(crate) order: Order<T>,
    pub(crate) deadlines: Deadlines,
    pub(crate) running: Vec<ProcessingKey>,
    redirtied: usize,
    tickets: u64,
    /// The number of tickets issued when a worker last found the queue empty.
    dry_at: u64,
    pub(crate) phase: ShutdownPhase,
    pub(crate) stats: Option<Box<Stats>>,
}

impl<T: Clone + Eq> QueueState<T> {
    /// Marks `key` as needing processing. Returns whether it was queued, and the key itself if it
    /// was present already or is rejected.
    pub(crate) fn add(&mut self, hash: u32, key: T, priority: i32, now: impl FnOnce() -> u64) -> (bool, Option<T>) {
        if self.phase != ShutdownPhase::Open {
            return (false, Some(key));
        }
        match self.table.find(hash, &key) {
            Some(number) => (self.make_dirty(number, priority, now), Some(key)),
            None => {
                let number = self.table.insert(hash, key);
                (self.make_dirty(number, priority, now), None)
            }
        }
    }

    /// Like [`add`](Self::add), but clones the key only if it is not present yet.
    pub(crate) fn add_ref(&mut self, hash: u32, key: &T, now: impl FnOnce() -> u64) -> bool {
        if self.phase != ShutdownPhase::Open {
            return false;
        }
        let number = self.table.find(hash, key).unwrap_or_else(|| self.table.insert(hash, key.clone()));
        self.make_dirty(number, 0, now)
    }

    /// Schedules `key` for `deadline`, unless an earlier deadline is set. Returns true if this is
    /// now the earliest deadline of the queue.
    pub(crate) fn add_at(&mut self, hash: u32, key: T, priority: i32, deadline: u64) -> bool {
        if self.phase != ShutdownPhase::Open {
            return false;
        }
        // The largest value is reserved for `NEVER`.
        let deadline = deadline.min(NEVER - 1);
        let number = self.table.find(hash, &key).unwrap_or_else(|| self.table.insert(hash, key));
        self.raise_priority(number, priority);
        let planned = std::mem::replace(&mut self.table[number].deadline, deadline);
        if planned == NEVER {
            self.deadlines.push(deadline, number);
        } else if deadline < planned {
            let table = &self.table;
            self.deadlines.change(deadline, number, |deadline, number| is_planned(table, deadline, number));
        } else {
            self.table[number].deadline = planned;
            return false;
        }
        self.soonest() == Some(deadline)
    }

    /// Takes the next key.
    ///
    /// Always inlined: returning the result through memory would stall on store forwarding.
    #[inline(always)]
    pub(crate) fn take(&mut self, now: u64) -> Option<TakenKey<T>> {
        let number = self.order.pop()?;
        self.tickets += 1;
        let ticket = self.tickets;
        let place = self.running.len();
        self.running.push(ProcessingKey { number, ticket, started: now });
        let entry = &mut self.table[number];
        entry.set_status(Status::Processing);
        entry.set_place(place);
        let is_delayed = entry.deadline != NEVER;
        let mut priority = 0;
        if let Some(details) = self.table.details_mut(number) {
            priority = details.priority;
            if !is_delayed {
                details.priority = i32::MIN;
            }
            if let Some(stats) = &mut self.stats {
                stats.queue_duration.observe(now.saturating_sub(details.since));
                stats.key_removed(priority);
            }
        }
        // Cloned last: if `clone` panics, the state is consistent and the key counts as being
        // processed.
        Some(TakenKey { key: self.table[number].key().clone(), number, ticket, priority })
    }

    /// Number and ticket of `key`, if it is being processed.
    pub(crate) fn ticket(&self, hash: u32, key: &T) -> Option<(u32, u64)> {
        let number = self.table.find(hash, key)?;
        let entry = &self.table[number];
        matches!(entry.status(), Status::Processing | Status::ProcessingDirty)
            .then(|| (number, self.running[entry.place()].ticket))
    }

    /// Changes the priority of a key that is queued, delayed or dirty. Returns false for any other
    /// key.
    pub(crate) fn set_priority(&mut self, hash: u32, key: &T, priority: i32) -> bool {
        let Some(number) = self.table.find(hash, key) else { return false };
        let entry = &self.table[number];
        if entry.status() == Status::Processing && entry.deadline == NEVER {
            return false;
        }
        self.change_priority(number, priority);
        true
    }
}

impl<T> QueueState<T> {
    /// Without `is_timed`, times are ignored, and `order` must be a single FIFO line.
    pub(crate) fn new(order: Order<T>, is_timed: bool, stats: Option<Box<Stats>>) -> Self {
        Self {
            table: KeyTable::new(is_timed),
            order,
            deadlines: Deadlines::default(),
            running: Vec::new(),
            redirtied: 0,
            tickets: 0,
            dry_at: 0,
            phase: ShutdownPhase::Open,
            stats,
        }
    }

    /// Queues keys that are due, in order of their deadlines. Returns how many were queued.
    pub(crate) fn advance(&mut self, now: u64) -> usize {
        let mut added = 0;
        while !self.deadlines.is_empty() {
            let table = &self.table;
            let soonest = self.deadlines.soonest(|deadline, number| is_planned(table, deadline, number));
            let Some((deadline, number)) = soonest.filter(|&(deadline, _)| deadline <= now) else { break };
            self.deadlines.pop();
            self.table[number].deadline = NEVER;
            let priority = self.table.details(number).map_or(0, |details| details.priority);
            // The waiting time starts at the deadline, even if the clock was not read until now.
            added += usize::from(self.make_dirty(number, priority, || deadline));
        }
        added
    }

    /// The earliest deadline.
    pub(crate) fn soonest(&mut self) -> Option<u64> {
        if self.deadlines.is_empty() {
            return None;
        }
        let table = &self.table;
        self.deadlines.soonest(|deadline, number| is_planned(table, deadline, number)).map(|(deadline, _)| deadline)
    }

    /// Marks a key as done; `now` is used for statistics only. No effect unless `ticket` is the
    /// current one.
    pub(crate) fn finish(&mut self, number: u32, ticket: u64, now: u64) -> Option<Finished<T>> {
        let entry = self.table.get(number)?;
        let place = entry.place();
        let is_dirty = match entry.status() {
            Status::Processing => false,
            Status::ProcessingDirty => true,
            Status::Idle | Status::Queued => return None,
        };
        if self.running[place].ticket != ticket {
            return None;
        }
        let started = self.running.swap_remove(place).started;
        if let Some(moved) = self.running.get(place) {
            self.table[moved.number].set_place(place);
        }
        if let Some(stats) = &mut self.stats {
            stats.work_duration.observe(now.saturating_sub(started));
        }
        if is_dirty {
            self.redirtied -= 1;
            self.push(number);
            return Some(Finished { requeued: true, forgotten: None });
        }
        self.table[number].set_status(Status::Idle);
        Some(Finished { requeued: false, forgotten: self.forget_if_idle(number) })
    }

    /// Rejects keys from now on and removes delayed keys. The caller drops the returned keys after
    /// unlocking.
    pub(crate) fn shut_down(&mut self, phase: ShutdownPhase) -> Vec<T> {
        self.phase = phase;
        let planned: Vec<u32> = self
            .deadlines
            .iter()
            .filter(|&(deadline, number)| is_planned(&self.table, deadline, number))
            .map(|(_, number)| number)
            .collect();
        self.deadlines.clear();
        let mut forgotten = Vec::new();
        for number in planned {
            // Two heap elements can name one key; the first may have removed it.
            if self.table.get(number).is_some() {
                self.table[number].deadline = NEVER;
                forgotten.extend(self.forget_if_idle(number));
            }
        }
        forgotten
    }

    /// Records that a worker found no key. Returns true if at least [`BURST`] keys were taken since
    /// the last time.
    pub(crate) fn is_after_burst(&mut self) -> bool {
        let burst = self.tickets - std::mem::replace(&mut self.dry_at, self.tickets);
        burst >= BURST
    }

    /// Number of queued keys.
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// Number of keys that need processing: queued keys, and keys added again while being
    /// processed.
    pub(crate) fn depth(&self) -> usize {
        self.order.len() + self.redirtied
    }

    /// Whether no key is queued or being processed.
    pub(crate) fn is_drained(&self) -> bool {
        self.order.len() == 0 && self.running.is_empty()
    }

    /// Whether no more keys will be handed out. While draining, a dirty key that is being processed
    /// will be queued again.
    pub(crate) fn is_over(&self) -> bool {
        match self.phase {
            ShutdownPhase::Open => false,
            ShutdownPhase::Draining => self.depth() == 0,
            ShutdownPhase::Closed => self.order.len() == 0,
        }
    }

    fn make_dirty(&mut self, number: u32, priority: i32, now: impl FnOnce() -> u64) -> bool {
        if self.table.has_details() {
            self.raise_priority(number, priority);
        }
        let entry = &self.table[number];
        if entry.is_dirty() {
            return false;
        }
        let status = entry.status();
        let mut priority = 0;
        if let Some(details) = self.table.details_mut(number) {
            details.since = now();
            priority = details.priority;
        }
        if let Some(stats) = &mut self.stats {
            stats.adds += 1;
            stats.key_added(priority);
        }
        if status == Status::Processing {
            self.table[number].set_status(Status::ProcessingDirty);
            self.redirtied += 1;
            return false;
        }
        self.push(number);
        true
    }

    fn push(&mut self, number: u32) {
        self.table[number].set_status(Status::Queued);
        self.order.push(number, &mut self.table);
    }

    #[inline(never)]
    fn raise_priority(&mut self, number: u32, priority: i32) {
        if self.table.details(number).is_some_and(|details| priority > details.priority) {
            self.change_priority(number, priority);
        }
    }

    fn change_priority(&mut self, number: u32, priority: i32) {
        if self.table[number].is_dirty()
            && let Some(stats) = &mut self.stats
            && let Some(details) = self.table.details(number)
        {
            stats.key_removed(details.priority);
            stats.key_added(priority);
        }
        if self.table[number].status() == Status::Queued {
            self.order.change_priority(number, &mut self.table, priority);
        } else if let Some(details) = self.table.details_mut(number) {
            details.priority = priority;
        }
    }

    fn forget_if_idle(&mut self, number: u32) -> Option<T> {
        let entry = &self.table[number];
        (entry.status() == Status::Idle && entry.deadline == NEVER).then(|| self.table.remove(number))
    }
}

/// Whether a heap element is the valid one of its key.
pub(crate) fn is_planned<T>(table: &KeyTable<T>, deadline: u64, number: u32) -> bool {
    table.get(number).is_some_and(|entry: &KeyEntry<T>| entry.deadline == deadline)
}
