//! A picture of a queue at one moment, for dashboards and debugging.

use tokio::time::Instant;

use crate::state::{State, is_planned};
use crate::table::Status;

/// What a queue held at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct View<T> {
    /// The name of the queue, or an empty string.
    pub name: String,
    /// Keys in line for a worker, the one that has waited longest first.
    pub waiting: Vec<Waiting<T>>,
    /// How many keys wait in all.
    pub waiting_count: usize,
    /// Keys whose delay is not over, the soonest first.
    pub delayed: Vec<Delayed<T>>,
    /// How many keys are delayed in all.
    pub delayed_count: usize,
    /// Keys in work, the one that takes longest first.
    pub processing: Vec<Processing<T>>,
    /// How many keys are in work in all.
    pub processing_count: usize,
}

/// A key in line for a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiting<T> {
    /// The key.
    pub key: T,
    /// When it was added, or its delay was over; `None` in a queue that keeps no times (see
    /// [`Options::name`](crate::Options::name)).
    pub since: Option<Instant>,
    /// Its priority; 0 in a queue without priorities.
    pub priority: i32,
    /// How often it was added with a rate limit since it was last forgotten; 0 in a queue without limiter.
    pub retries: u32,
}

/// A key whose delay is not over. It may wait or be in work as well.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Delayed<T> {
    /// The key.
    pub key: T,
    /// When its delay is over.
    pub until: Instant,
    /// How often it was added with a rate limit since it was last forgotten; 0 in a queue without limiter.
    pub retries: u32,
}

/// A key in work.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Processing<T> {
    /// The key.
    pub key: T,
    /// When it was handed to its worker; `None` in a queue that keeps no times (see
    /// [`Options::name`](crate::Options::name)).
    pub since: Option<Instant>,
    /// Whether it was added again meanwhile.
    pub is_dirty: bool,
    /// How often it was added with a rate limit since it was last forgotten; 0 in a queue without limiter.
    pub retries: u32,
}

impl<T: Clone> View<T> {
    pub(crate) fn of(state: &State<T>, name: &str, epoch: Instant, limit: usize) -> Self {
        let time = |nanoseconds| epoch + std::time::Duration::from_nanos(nanoseconds);
        let planned = state.deadlines.iter().filter(|&(deadline, number)| is_planned(&state.table, deadline, number));
        let delayed = first(limit, planned);
        let running = first(limit, state.running.iter().zip(0..).map(|(running, place)| (running.ticket, place)));
        Self {
            name: name.to_owned(),
            waiting: waiting(state, limit)
                .into_iter()
                .map(|number| {
                    let (key, details) = (state.table[number].key().clone(), state.table.details(number));
                    let since = details.map(|details| time(details.since));
                    Waiting { key, since, priority: details.map_or(0, |details| details.priority), retries: 0 }
                })
                .collect(),
            waiting_count: state.len(),
            delayed: delayed
                .into_iter()
                .map(|(until, number)| {
                    let key = state.table[number].key().clone();
                    Delayed { key, until: time(until), retries: 0 }
                })
                .collect(),
            delayed_count: state.deadlines.len(),
            processing: running
                .into_iter()
                .map(|(_, place)| {
                    let running = &state.running[place as usize];
                    let entry = &state.table[running.number];
                    let since = state.table.has_details().then(|| time(running.started));
                    let is_dirty = entry.status() == Status::ProcessingDirty;
                    Processing { key: entry.key().clone(), since, is_dirty, retries: 0 }
                })
                .collect(),
            processing_count: state.running.len(),
        }
    }

    /// Fills in the retries of every key shown.
    pub(crate) fn with_retries(mut self, retries_of: impl Fn(&T) -> u32) -> Self {
        self.waiting.iter_mut().for_each(|waiting| waiting.retries = retries_of(&waiting.key));
        self.delayed.iter_mut().for_each(|delayed| delayed.retries = retries_of(&delayed.key));
        self.processing.iter_mut().for_each(|processing| processing.retries = retries_of(&processing.key));
        self
    }
}

/// The numbers of the `limit` keys that have waited longest.
fn waiting<T>(state: &State<T>, limit: usize) -> Vec<u32> {
    if !state.table.has_details()
        && let Some(numbers) = state.order.fifo()
    {
        return numbers.take(limit).collect();
    }
    let queued = state.table.entries().filter(|(_, entry)| entry.status() == Status::Queued);
    let since = |number| state.table.details(number).map_or(0, |details| details.since);
    first(limit, queued.map(|(number, _)| (since(number), number))).into_iter().map(|(_, number)| number).collect()
}

/// The `limit` smallest, in order.
fn first(limit: usize, all: impl Iterator<Item = (u64, u32)>) -> Vec<(u64, u32)> {
    let mut all: Vec<_> = all.collect();
    if limit < all.len() {
        all.select_nth_unstable(limit);
        all.truncate(limit);
    }
    all.sort_unstable();
    all.dedup();
    all
}
