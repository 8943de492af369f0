//! How much of the past a store keeps, and who else hears of its writes.

use std::{io, time::Duration};

use super::Event;

/// Called with each event under the write lock; see [`StoreOptions::journal`].
pub(super) type Journal<V> = Box<dyn FnMut(&Event<V>) -> io::Result<()> + Send + Sync>;

/// How values are weighed, and how much the superseded ones may weigh together.
pub(super) struct WeightLimit<V> {
    pub(super) limit: usize,
    pub(super) weigh: fn(&V) -> usize,
}

/// How values are kept that were written some time ago.
pub(super) struct Archive<V> {
    /// So many of the newest events are left as they are.
    pub(super) after: usize,
    pub(super) shorten: fn(&V) -> V,
}

/// Which events are kept beyond the window.
#[derive(Clone, Copy)]
pub(super) struct Recent {
    /// Those that came less than so many seconds ago.
    pub(super) seconds: u32,
    /// So many in all, window included.
    pub(super) most: usize,
}

/// What a store can be told beyond its defaults.
pub struct StoreOptions<V> {
    pub(super) window: usize,
    pub(super) recent: Option<Recent>,
    pub(super) weight: Option<WeightLimit<V>>,
    pub(super) archive: Option<Archive<V>>,
    pub(super) start_revision: u64,
    pub(super) journal: Option<Journal<V>>,
}

impl<V> Default for StoreOptions<V> {
    fn default() -> Self {
        StoreOptions { window: 10_000, recent: None, weight: None, archive: None, start_revision: 100, journal: None }
    }
}

impl<V> StoreOptions<V> {
    /// Keeps the newest `events` events, at least one. 10,000 by default.
    #[must_use]
    pub fn window(mut self, events: usize) -> Self {
        self.window = events.max(1);
        self
    }

    /// Keeps more events than the window, up to `most` in all, as long as they are younger than `age`, in whole seconds.
    ///
    /// Many writes in a short time would otherwise leave those behind who are only a moment late. Each write looks for
    /// what has become too old, and [`Store::age`](super::Store::age) where there are none. The bound by weight holds for them as well. Off
    /// by default.
    #[must_use]
    pub fn keep_recent(mut self, age: Duration, most: usize) -> Self {
        self.recent = Some(Recent { seconds: u32::try_from(age.as_secs()).unwrap_or(u32::MAX), most });
        self
    }

    /// Keeps fewer events when the values that only the log still holds would weigh more than
    /// `limit`. No limit by default.
    ///
    /// `weigh` is called under the write lock and must give the same answer each time. The newest
    /// event stays, whatever it weighs.
    #[must_use]
    pub fn window_weight(mut self, limit: usize, weigh: fn(&V) -> usize) -> Self {
        self.weight = Some(WeightLimit { limit, weigh });
        self
    }

    /// Keeps values, current or superseded, in the form that `shorten` gives them, which means the same and takes less memory, except
    /// those of the newest `after` writes. All stay as they are by default.
    ///
    /// `shorten` is called under the write lock.
    #[must_use]
    pub fn archive(mut self, after: usize, shorten: fn(&V) -> V) -> Self {
        self.archive = Some(Archive { after, shorten });
        self
    }

    /// The revision of the empty store; the first write takes the next one. 100 by default.
    ///
    /// Clients use small numbers to mean "long ago" and expect to hear that it is too long ago.
    #[must_use]
    pub fn start_revision(mut self, revision: u64) -> Self {
        self.start_revision = revision;
        self
    }

    /// Hands each event to `journal` in the order of revisions, before anybody can see it.
    ///
    /// An error refuses the write. The journal runs under the write lock: it should append to a
    /// buffer and let the caller wait for the disk, rather than wait itself.
    #[must_use]
    pub fn journal(mut self, journal: impl FnMut(&Event<V>) -> io::Result<()> + Send + Sync + 'static) -> Self {
        self.journal = Some(Box::new(journal));
        self
    }
}
