//! Rate limiters: decide how long a key waits before it is retried.
//!
//! Limiters know keys and failures, but not queues. They take `&mut self`: a queue keeps its
//! limiter behind a lock. To share one limiter between several queues, wrap it in `Arc<Mutex<_>>`,
//! which implements the trait too.

mod exponential;
mod failures;
mod fast_slow;
mod jittered;
mod max_of;
mod max_wait;
mod token_bucket;

use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub use exponential::ItemExponential;
pub use fast_slow::ItemFastSlow;
pub use jittered::Jittered;
pub use max_of::MaxOf;
pub use max_wait::WithMaxWait;
pub use token_bucket::BucketRateLimiter;

/// The longest delay of a limiter, 292 years: Go's `time.Duration` saturates there.
pub(crate) const FOREVER: Duration = Duration::from_nanos(i64::MAX as u64);

/// Decides how long a key waits before it is retried.
#[doc(alias = "TypedRateLimiter")]
pub trait RateLimiter<T>: Send {
    /// The delay of `key`, counting one more failure.
    fn when(&mut self, key: &T) -> Duration;

    /// Stops counting failures of `key`, because it succeeded or was given up.
    fn forget(&mut self, key: &T);

    /// Number of counted failures of `key`.
    fn num_requeues(&self, key: &T) -> u32;
}

impl<T, L: RateLimiter<T> + ?Sized> RateLimiter<T> for Box<L> {
    fn when(&mut self, key: &T) -> Duration {
        (**self).when(key)
    }

    fn forget(&mut self, key: &T) {
        (**self).forget(key);
    }

    fn num_requeues(&self, key: &T) -> u32 {
        (**self).num_requeues(key)
    }
}

impl<T, L: RateLimiter<T> + ?Sized> RateLimiter<T> for Arc<Mutex<L>> {
    fn when(&mut self, key: &T) -> Duration {
        self.lock().unwrap_or_else(PoisonError::into_inner).when(key)
    }

    fn forget(&mut self, key: &T) {
        self.lock().unwrap_or_else(PoisonError::into_inner).forget(key);
    }

    fn num_requeues(&self, key: &T) -> u32 {
        self.lock().unwrap_or_else(PoisonError::into_inner).num_requeues(key)
    }
}

/// The default of controllers: each key backs off from 5 ms to 1000 s, and all keys together are
/// limited to 10 per second with a burst of 100.
#[doc(alias = "DefaultTypedControllerRateLimiter")]
#[must_use]
pub fn controller_default<T: Clone + Eq + Hash + Send + 'static>() -> MaxOf<T> {
    MaxOf::new()
        .and(ItemExponential::new(Duration::from_millis(5), Duration::from_secs(1000)))
        .and(BucketRateLimiter::new(10.0, 100))
}

/// Exponential back-off per key from 1 ms to 1000 s, without an overall limit.
#[doc(alias = "DefaultTypedItemBasedRateLimiter")]
#[must_use]
pub fn item_default<T>() -> ItemExponential<T> {
    ItemExponential::new(Duration::from_millis(1), Duration::from_secs(1000))
}

#[cfg(test)]
mod tests;
