//! The rules of the queue as a state machine: no locks, no clock, no tasks.
//!
//! Everything that may happen to a key is a method here that takes the time as an argument; `queue` puts a lock around it
//! and wakes whom the results concern. Times are nanoseconds since the queue was made.

use crate::deadlines::Deadlines;
use crate::fairness::Order;
use crate::metrics::Stats;
use crate::table::{Entry, NEVER, Status, Table};

/// Where so many keys came, more are likely to come at once.
pub(crate) const BURST: u64 = if cfg!(shuttle) { 2 } else { 64 };

/// How far shutting down has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Keys are accepted.
    Open,
    /// Keys are refused, and somebody may wait for the last one to be done with.
    Draining,
    /// Keys are refused, and nobody waits.
    Closed,
}

/// A key handed to a worker.
#[derive(Debug)]
pub(crate) struct Taken<T> {
    pub(crate) key: T,
    pub(crate) number: u32,
    pub(crate) ticket: u64,
    pub(crate) priority: i32,
}

/// What came of a worker being done with a key.
#[derive(Debug)]
pub(crate) struct Finished<T> {
    /// The key is back in line, having been added meanwhile.
    pub(crate) requeued: bool,
    /// The key, if the queue knows it no longer; to be dropped outside of the lock.
    pub(crate) forgotten: Option<T>,
}

/// Work under way.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) number: u32,
    /// Tells this handing out from a later one of the same key, and which came first.
    pub(crate) ticket: u64,
    pub(crate) started: u64,
}

/// All that the queue knows.
///
/// Invariants: the numbers in `order` are those of the entries with status `Queued`; those in `running` belong to the
/// entries with status `Processing` and `ProcessingDirty`, of which there are `redirtied`; an entry that is `Idle` has a
/// deadline.
#[derive(Debug)]
pub(crate) struct State<T> {
    pub(crate) table: Table<T>,
    pub(crate) order: Order<T>,
    pub(crate) deadlines: Deadlines,
    pub(crate) running: Vec<Running>,
    redirtied: usize,
    tickets: u64,
    /// How many keys had been handed out when a worker last found none.
    dry_at: u64,
    pub(crate) phase: Phase,
    pub(crate) stats: Option<Box<Stats>>,
}

impl<T: Clone + Eq> State<T> {
    /// Marks `key` as in need of processing. Says whether it came into line, and gives it back if it was known already
    /// or is refused.
    pub(crate) fn add(&mut self, hash: u32, key: T, priority: i32, now: impl FnOnce() -> u64) -> (bool, Option<T>) {
        if self.phase != Phase::Open {
            return (false, Some(key));
        }
        match self.table.find_or_vacancy(hash, &key) {
            Ok(number) => (self.make_dirty(number, priority, now), Some(key)),
            Err(vacancy) => {
                let number = self.table.insert(vacancy, hash, key);
                (self.make_dirty(number, priority, now), None)
            }
        }
    }

    /// As [`add`](Self::add), with a key that is cloned only if it is not known yet.
    pub(crate) fn add_ref(&mut self, hash: u32, key: &T, now: impl FnOnce() -> u64) -> bool {
        if self.phase != Phase::Open {
            return false;
        }
        let number = match self.table.find_or_vacancy(hash, key) {
            Ok(number) => number,
            Err(vacancy) => self.table.insert(vacancy, hash, key.clone()),
        };
        self.make_dirty(number, 0, now)
    }

    /// Has `key` added at `deadline`, or earlier if that is already planned. True if no deadline is sooner than this.
    pub(crate) fn add_at(&mut self, hash: u32, key: T, priority: i32, deadline: u64) -> bool {
        if self.phase != Phase::Open {
            return false;
        }
        // The last nanosecond of five centuries is spoken for.
        let deadline = deadline.min(NEVER - 1);
        let number = match self.table.find_or_vacancy(hash, &key) {
            Ok(number) => number,
            Err(vacancy) => self.table.insert(vacancy, hash, key),
        };
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

    /// Hands out the next key.
    ///
    /// Always part of its caller: what is returned in memory is written in small pieces and read in large ones, for which a
    /// processor waits until the writes are through.
    #[inline(always)]
    pub(crate) fn take(&mut self, now: u64) -> Option<Taken<T>> {
        let number = self.order.pop()?;
        self.tickets += 1;
        let ticket = self.tickets;
        let place = self.running.len();
        self.running.push(Running { number, ticket, started: now });
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
                stats.left(priority);
            }
        }
        // Last, so that a clone that panics leaves a key in work and not half a state.
        Some(Taken { key: self.table[number].key().clone(), number, ticket, priority })
    }

    /// The number and ticket of the work under way on `key`.
    pub(crate) fn ticket(&self, hash: u32, key: &T) -> Option<(u32, u64)> {
        let number = self.table.find(hash, key)?;
        let entry = &self.table[number];
        matches!(entry.status(), Status::Processing | Status::ProcessingDirty)
            .then(|| (number, self.running[entry.place()].ticket))
    }

    /// Gives a key that waits, now or for its deadline or its worker, another priority. False if none such waits.
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

impl<T> State<T> {
    /// Without `is_timed`, times that are given are not kept; keys then have to stand in one line.
    pub(crate) fn new(order: Order<T>, is_timed: bool, stats: Option<Box<Stats>>) -> Self {
        Self {
            table: Table::new(is_timed),
            order,
            deadlines: Deadlines::default(),
            running: Vec::new(),
            redirtied: 0,
            tickets: 0,
            dry_at: 0,
            phase: Phase::Open,
            stats,
        }
    }

    /// Puts keys in line whose time has come, in that order. Returns how many came into line.
    pub(crate) fn advance(&mut self, now: u64) -> usize {
        let mut added = 0;
        while !self.deadlines.is_empty() {
            let table = &self.table;
            let soonest = self.deadlines.soonest(|deadline, number| is_planned(table, deadline, number));
            let Some((deadline, number)) = soonest.filter(|&(deadline, _)| deadline <= now) else { break };
            self.deadlines.pop();
            self.table[number].deadline = NEVER;
            let priority = self.table.details(number).map_or(0, |details| details.priority);
            // It waits since it fell due, even if nobody looked at the clock until now.
            added += usize::from(self.make_dirty(number, priority, || deadline));
        }
        added
    }

    /// The soonest deadline.
    pub(crate) fn soonest(&mut self) -> Option<u64> {
        if self.deadlines.is_empty() {
            return None;
        }
        let table = &self.table;
        self.deadlines.soonest(|deadline, number| is_planned(table, deadline, number)).map(|(deadline, _)| deadline)
    }

    /// Notes that the work on a key is over; `now` matters to statistics alone. Without effect unless `ticket` is that of the work under way.
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

    /// Refuses keys from now on and drops those whose time has not come; returned to be dropped outside of the lock.
    pub(crate) fn shut_down(&mut self, phase: Phase) -> Vec<T> {
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
            // Two elements can name one key; the first may have removed it.
            if self.table.get(number).is_some() {
                self.table[number].deadline = NEVER;
                forgotten.extend(self.forget_if_idle(number));
            }
        }
        forgotten
    }

    /// Notes that a worker has found no key. True if many were handed out since this last happened.
    pub(crate) fn is_after_burst(&mut self) -> bool {
        let burst = self.tickets - std::mem::replace(&mut self.dry_at, self.tickets);
        burst >= BURST
    }

    /// How many keys are in line.
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// How many keys need processing: those in line, and those added again while in work.
    pub(crate) fn depth(&self) -> usize {
        self.order.len() + self.redirtied
    }

    /// Whether nothing is in line or in work.
    pub(crate) fn is_drained(&self) -> bool {
        self.order.len() == 0 && self.running.is_empty()
    }

    /// Whether no more keys will be handed out. While draining, a key that is in work and dirty is still to come.
    pub(crate) fn is_over(&self) -> bool {
        match self.phase {
            Phase::Open => false,
            Phase::Draining => self.depth() == 0,
            Phase::Closed => self.order.len() == 0,
        }
    }

    #[inline]
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
            stats.came(priority);
        }
        if status == Status::Processing {
            self.table[number].set_status(Status::ProcessingDirty);
            self.redirtied += 1;
            return false;
        }
        self.push(number);
        true
    }

    #[inline]
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
            stats.left(details.priority);
            stats.came(priority);
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

/// Whether an element of the heap is the one that counts for its key.
pub(crate) fn is_planned<T>(table: &Table<T>, deadline: u64, number: u32) -> bool {
    table.get(number).is_some_and(|entry: &Entry<T>| entry.deadline == deadline)
}
