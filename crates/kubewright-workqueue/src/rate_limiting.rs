//! A queue that delays keys according to a rate limiter.

use std::fmt;
use std::hash::Hash;
use std::ops::Deref;
use std::sync::Arc;

use crate::delaying::DelayingQueue;
use crate::limiter::RateLimiter;
use crate::options::QueueOptions;
use crate::sync::Lock;
use crate::view::QueueView;

/// A [`DelayingQueue`] whose delays come from a [`RateLimiter`].
///
/// It dereferences to the inner queue. Clones are handles to the same queue.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// # tokio::time::pause();
/// use kubewright_workqueue::{QueueOptions, RateLimitingQueue, limiter};
///
/// let queue = RateLimitingQueue::new(limiter::controller_default(), QueueOptions::new());
/// queue.add("default/web");
/// while let Some(key) = queue.get().await {
///     // The work fails each time.
///     if queue.num_requeues(&key) < 5 {
///         queue.add_rate_limited(*key);
///     } else {
///         queue.forget(&key);
///         queue.shut_down();
///     }
/// }
/// # }
/// ```
#[doc(alias = "TypedRateLimitingInterface")]
pub struct RateLimitingQueue<T> {
    queue: DelayingQueue<T>,
    limiter: Arc<Lock<Box<dyn RateLimiter<T>>>>,
}

impl<T: Clone + Eq + Hash + Send + 'static> RateLimitingQueue<T> {
    /// An empty queue with delays from `limiter`.
    #[doc(alias = "NewTypedRateLimitingQueue")]
    #[doc(alias = "NewTypedRateLimitingQueueWithConfig")]
    #[must_use]
    pub fn new(limiter: impl RateLimiter<T> + 'static, options: QueueOptions<T>) -> Self {
        Self { queue: DelayingQueue::new(options), limiter: Arc::new(Lock::new(Box::new(limiter))) }
    }

    /// Adds `key` when the limiter allows it.
    pub fn add_rate_limited(&self, key: T) {
        let delay = self.limiter.lock().when(&key);
        self.queue.add_after(key, delay);
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

impl<T> RateLimitingQueue<T> {
    /// Resets the failure count of `key`, because it succeeded or was given up.
    ///
    /// Affects only the limiter: a claim or a pending delay of the key stays.
    pub fn forget(&self, key: &T) {
        self.limiter.lock().forget(key);
    }

    /// How often `key` was added with a rate limit since it was last forgotten.
    #[must_use]
    pub fn num_requeues(&self, key: &T) -> u32 {
        self.limiter.lock().num_requeues(key)
    }
}

impl<T> Deref for RateLimitingQueue<T> {
    type Target = DelayingQueue<T>;

    fn deref(&self) -> &DelayingQueue<T> {
        &self.queue
    }
}

impl<T> Clone for RateLimitingQueue<T> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone(), limiter: self.limiter.clone() }
    }
}

impl<T> fmt::Debug for RateLimitingQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RateLimitingQueue").field(&self.queue).finish()
    }
}
