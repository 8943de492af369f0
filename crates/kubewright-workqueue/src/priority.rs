//! A queue that hands out keys by priority without starving any key.

use std::fmt;
use std::hash::Hash;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::ageing::Ageing;
use crate::limiter::RateLimiter;
use crate::options::QueueOptions;
use crate::queue::WorkQueue;
use crate::sync::Lock;
use crate::view::QueueView;

/// The priority of keys from an initial list or a resync. Keys of live changes go first.
#[doc(alias = "LowPriority")]
pub const LOW_PRIORITY: i32 = -100;

/// A [`WorkQueue`] with priorities that age (see [`Ageing`]), delays and rate limits.
///
/// It dereferences to the inner [`WorkQueue`], whose [`add`](WorkQueue::add) adds with priority 0.
/// A key that is added again while queued keeps the higher priority, the earlier deadline and its
/// age. Clones are handles to the same queue.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use kubewright_workqueue::{AddOptions, Ageing, QueueOptions, PriorityQueue, limiter};
///
/// let queue = PriorityQueue::new(limiter::item_default(), Ageing::default(), QueueOptions::new());
/// queue.add_initial("listed");
/// queue.add("changed");
/// queue.add_with("urgent", AddOptions::new().priority(10));
/// for expected in ["urgent", "changed", "listed"] {
///     assert_eq!(*queue.get().await.unwrap(), expected);
/// }
/// # }
/// ```
#[doc(alias = "priorityqueue")]
pub struct PriorityQueue<T> {
    queue: WorkQueue<T>,
    limiter: Arc<Lock<Box<dyn RateLimiter<T>>>>,
}

/// How a key is added to a [`PriorityQueue`]: by default immediately, with priority 0.
#[doc(alias = "AddOpts")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddOptions {
    priority: i32,
    after: Duration,
    is_rate_limited: bool,
}

impl AddOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the priority; higher goes first. 0 by default.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// Delays the key. No delay by default.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.after = delay;
        self
    }

    /// Delays the key until the limiter allows it. Combined with [`after`](Self::after), the longer
    /// delay applies. Off by default.
    #[must_use]
    pub fn rate_limited(mut self) -> Self {
        self.is_rate_limited = true;
        self
    }
}

impl<T: Clone + Eq + Hash + Send + 'static> PriorityQueue<T> {
    /// An empty queue.
    #[must_use]
    pub fn new(limiter: impl RateLimiter<T> + 'static, ageing: Ageing, options: QueueOptions<T>) -> Self {
        Self { queue: WorkQueue::ordered(options, Some(ageing)), limiter: Arc::new(Lock::new(Box::new(limiter))) }
    }

    /// Adds `key` according to `options`.
    #[doc(alias = "AddWithOpts")]
    pub fn add_with(&self, key: T, options: AddOptions) {
        let mut delay = options.after;
        if options.is_rate_limited {
            delay = delay.max(self.limiter.lock().when(&key));
        }
        if delay.is_zero() && !options.is_rate_limited {
            self.queue.add_with_priority(key, options.priority);
        } else {
            self.queue.add_after_with_priority(key, delay, options.priority);
        }
    }

    /// Adds a key of an initial list, with [`LOW_PRIORITY`].
    pub fn add_initial(&self, key: T) {
        self.queue.add_with_priority(key, LOW_PRIORITY);
    }

    /// Adds `key` with priority 0 after `delay`, or at an earlier deadline that the key already
    /// has.
    pub fn add_after(&self, key: T, delay: Duration) {
        self.add_with(key, AddOptions::new().after(delay));
    }

    /// Adds `key` with priority 0 when the limiter allows it.
    pub fn add_rate_limited(&self, key: T) {
        self.add_with(key, AddOptions::new().rate_limited());
    }

    /// Changes the priority of a pending key, upwards or downwards. Returns false if the key is not
    /// pending.
    ///
    /// Pending keys are queued, delayed, or added again while being processed. The key keeps its
    /// age.
    pub fn set_priority(&self, key: &T, priority: i32) -> bool {
        self.queue.set_priority(key, priority)
    }

    /// A snapshot for diagnostics: up to `limit` keys of each kind with their retries, and the
    /// totals.
    #[must_use]
    pub fn view(&self, limit: usize) -> QueueView<T> {
        let view = self.queue.view(limit);
        let limiter = self.limiter.lock();
        view.with_retries(|key| limiter.num_requeues(key))
    }
}

impl<T> PriorityQueue<T> {
    /// Resets the failure count of `key`, because it succeeded or was given up.
    pub fn forget(&self, key: &T) {
        self.limiter.lock().forget(key);
    }

    /// How often `key` was added with a rate limit since it was last forgotten.
    #[must_use]
    pub fn num_requeues(&self, key: &T) -> u32 {
        self.limiter.lock().num_requeues(key)
    }
}

impl<T> Deref for PriorityQueue<T> {
    type Target = WorkQueue<T>;

    fn deref(&self) -> &WorkQueue<T> {
        &self.queue
    }
}

impl<T> Clone for PriorityQueue<T> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone(), limiter: self.limiter.clone() }
    }
}

impl<T> fmt::Debug for PriorityQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PriorityQueue").field(&self.queue).finish()
    }
}
