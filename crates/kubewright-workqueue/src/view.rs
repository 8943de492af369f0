//! A snapshot of a queue, for dashboards and debugging.

use tokio::time::Instant;

use crate::state::{QueueState, is_planned};
use crate::table::Status;

/// The contents of a queue at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct QueueView<T> {
    /// The name of the queue, or an empty string.
    pub name: String,
    /// Queued keys, longest waiting first.
    pub waiting: Vec<Waiting<T>>,
    /// Total number of queued keys.
    pub waiting_count: usize,
    /// Delayed keys, earliest deadline first.
    pub delayed: Vec<Delayed<T>>,
    /// Total number of delayed keys.
    pub delayed_count: usize,
    /// Keys being processed, longest running first.
    pub processing: Vec<Processing<T>>,
    /// Total number of keys being processed.
    pub processing_count: usize,
}

/// A queued key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiting<T> {
    /// The key.
    pub key: T,
    /// When it was added or became due; `None` in a queue that records no times (see
    /// [`Options::name`](crate::QueueOptions::name)).
    pub since: Option<Instant>,
    /// Its priority; 0 in a queue without priorities.
    pub priority: i32,
    /// How often it was added with a rate limit since it was last forgotten; 0 in a queue without
    /// limiter.
    pub retries: u32,
}

/// A delayed key. It may be queued or being processed as well.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Delayed<T> {
    /// The key.
    pub key: T,
    /// When the delay ends.
    pub until: Instant,
    /// How often it was added with a rate limit since it was last forgotten; 0 in a queue without
    /// limiter.
    pub retries: u32,
}

/// A key being processed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Processing<T> {
    /// The key.
    pub key: T,
    /// When a worker claimed it; `None` in a queue that records no times (see
    /// [`Options::name`](crate::QueueOptions::name)).
    pub since: Option<Instant>,
    /// Whether it was added again since.
    pub is_dirty: bool,
    /// How often it was added with a rate limit since it was last forgotten; 0 in a queue without
    /// limiter.
    pub retries: u32,
}

impl<T: Clone> QueueView<T> {
    pub(crate) fn of(state: &QueueState<T>, name: &str, epoch: Instant, limit: usize) -> Self {
        let time = |nanoseconds| epoch + std::time::Duration::from_nanos(nanoseconds);
        let planned = state.deadlines.iter().filter(|&(deadline, number)| is_planned(&state.table, deadline, number));
        let delayed = first(limit, planned);
        let running = first(limit, state.running.iter().zip(0..).map(|(running, place)| (running.ticket, place)));
        Self {
            name: name.to_owned(),
            waiting: waiting(state, limit)
                .into_iter()
                .map(|number| {
                    let key = state.table[number].key().clone();
                    let details = state.table.details(number);
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

    /// The same view with other keys, for example as text.
    #[must_use]
    pub fn map<U>(self, mut of: impl FnMut(T) -> U) -> QueueView<U> {
        let QueueView { name, waiting_count, delayed_count, processing_count, .. } = self;
        let mut waiting = Vec::with_capacity(self.waiting.len());
        for Waiting { key, since, priority, retries } in self.waiting {
            waiting.push(Waiting { key: of(key), since, priority, retries });
        }
        let mut delayed = Vec::with_capacity(self.delayed.len());
        for Delayed { key, until, retries } in self.delayed {
            delayed.push(Delayed { key: of(key), until, retries });
        }
        let mut processing = Vec::with_capacity(self.processing.len());
        for Processing { key, since, is_dirty, retries } in self.processing {
            processing.push(Processing { key: of(key), since, is_dirty, retries });
        }
        QueueView { name, waiting, waiting_count, delayed, delayed_count, processing, processing_count }
    }

    /// Fills in the retries of all keys.
    pub(crate) fn with_retries(mut self, retries_of: impl Fn(&T) -> u32) -> Self {
        self.waiting.iter_mut().for_each(|waiting| waiting.retries = retries_of(&waiting.key));
        self.delayed.iter_mut().for_each(|delayed| delayed.retries = retries_of(&delayed.key));
        self.processing.iter_mut().for_each(|processing| processing.retries = retries_of(&processing.key));
        self
    }
}

/// The numbers of the `limit` longest-waiting keys.
fn waiting<T>(state: &QueueState<T>, limit: usize) -> Vec<u32> {
    if !state.table.has_details()
        && let Some(numbers) = state.order.fifo()
    {
        return numbers.take(limit).collect();
    }
    let queued = state.table.entries().filter(|(_, entry)| entry.status() == Status::Queued);
    let since = |number| state.table.details(number).map_or(0, |details| details.since);
    first(limit, queued.map(|(number, _)| (since(number), number))).into_iter().map(|(_, number)| number).collect()
}

/// The `limit` smallest elements, sorted.
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
