//! Options of a store: the size of its history, its backend and its index.

use std::time::Duration;

use kubewright_core::Str;

use crate::backend::{Backend, Observer};
use crate::key::Key;
use crate::primary::Primary;

/// The value by which watches find an object; see [`StoreOptions::index`].
pub(crate) type IndexFn<V> = fn(&Key, &V) -> Option<Str>;

/// The limit for the total weight of superseded values.
pub(crate) struct WeightLimit<V> {
    pub(crate) limit: usize,
    pub(crate) weigh: fn(&V) -> usize,
}

/// Keeps older values in a shorter form.
pub(crate) struct Archive<V> {
    /// Number of newest events whose values are not shortened.
    pub(crate) after: usize,
    pub(crate) shorten: fn(&V) -> V,
}

/// Limits for the events that are kept beyond the window.
#[derive(Clone, Copy)]
pub(crate) struct Recent {
    /// The maximum age of such an event.
    pub(crate) seconds: u32,
    /// The maximum number of events, including those of the window.
    pub(crate) most: usize,
}

/// Options of a store.
pub struct StoreOptions<V> {
    pub(crate) window: usize,
    pub(crate) recent: Option<Recent>,
    pub(crate) weight: Option<WeightLimit<V>>,
    pub(crate) archive: Option<Archive<V>>,
    pub(crate) index: Option<IndexFn<V>>,
    pub(crate) start_revision: u64,
    pub(crate) backend: Option<Box<dyn Backend<V>>>,
    pub(crate) observer: Option<Box<dyn Observer<V>>>,
    pub(crate) commits_at_once: bool,
    pub(crate) primary: Option<Box<dyn Primary<V>>>,
}

impl<V> Default for StoreOptions<V> {
    fn default() -> Self {
        StoreOptions {
            window: 10_000,
            recent: None,
            weight: None,
            archive: None,
            index: None,
            start_revision: 100,
            backend: None,
            observer: None,
            commits_at_once: true,
            primary: None,
        }
    }
}

impl<V> StoreOptions<V> {
    /// Keeps the newest `events` events, at least one. 10,000 by default.
    #[must_use]
    pub fn window(mut self, events: usize) -> Self {
        self.window = events.max(1);
        self
    }

    /// Keeps events beyond the window while they are younger than `age` (whole seconds), up to
    /// `most` events in total. Off by default.
    ///
    /// Without it, a burst of writes makes watches that are a few seconds behind
    /// [`Compacted`](crate::Compacted). Each write drops events that have become too old. Call
    /// [`Store::age`](crate::Store::age) while there are no writes. The
    /// [weight](Self::window_weight) limits these events as well.
    #[must_use]
    pub fn keep_recent(mut self, age: Duration, most: usize) -> Self {
        self.recent = Some(Recent { seconds: u32::try_from(age.as_secs()).unwrap_or(u32::MAX), most });
        self
    }

    /// Limits the total weight of values that only the log holds. Older events are dropped above
    /// it. No limit by default.
    ///
    /// `weigh` is called under the write lock and must be deterministic. The newest event is kept
    /// regardless of its weight.
    #[must_use]
    pub fn window_weight(mut self, limit: usize, weigh: fn(&V) -> usize) -> Self {
        self.weight = Some(WeightLimit { limit, weigh });
        self
    }

    /// Keeps values older than the newest `after` writes in the form that `shorten` returns. Off by
    /// default.
    ///
    /// The short form is equivalent and takes less memory. `shorten` is called under the write
    /// lock.
    #[must_use]
    pub fn archive(mut self, after: usize, shorten: fn(&V) -> V) -> Self {
        self.archive = Some(Archive { after, shorten });
        self
    }

    /// Indexes events by a value of the object before and after, for
    /// [`Store::watch_indexed`](crate::Store::watch_indexed). No index by default.
    ///
    /// `index` returns the value of an object, or `None` for a resource without an index. It is
    /// called under the write lock.
    #[must_use]
    pub fn index(mut self, index: fn(&Key, &V) -> Option<Str>) -> Self {
        self.index = Some(index);
        self
    }

    /// The revision of the empty store; the first write takes the next one. 100 by default.
    ///
    /// Clients use small numbers for old revisions, and expect the error that they have expired.
    #[must_use]
    pub fn start_revision(mut self, revision: u64) -> Self {
        self.start_revision = revision;
        self
    }

    /// Proposes each write to `backend`, in the order of revisions and before any reader sees it.
    /// By default, writes are in memory only.
    #[must_use]
    pub fn backend(mut self, backend: impl Backend<V> + 'static) -> Self {
        self.backend = Some(Box::new(backend));
        self
    }

    /// Executes writes in a database that several stores share. Somebody must then
    /// [follow](crate::Store::follow) it. By default, the store executes its writes.
    #[must_use]
    pub fn primary(mut self, primary: impl Primary<V> + 'static) -> Self {
        self.primary = Some(Box::new(primary));
        self
    }

    /// Notifies `observer` of each write that the store accepts or undoes. None by default.
    #[must_use]
    pub fn observer(mut self, observer: impl Observer<V> + 'static) -> Self {
        self.observer = Some(Box::new(observer));
        self
    }

    /// Hides writes from readers and watchers until [`Store::commit`](crate::Store::commit)
    /// declares them durable. By default, readers see writes at once.
    #[must_use]
    pub fn commit_when_durable(mut self) -> Self {
        self.commits_at_once = false;
        self
    }
}
