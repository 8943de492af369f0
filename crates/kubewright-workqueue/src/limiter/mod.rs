//! Decides how long a key is held back before it is tried again.
//!
//! Limiters know keys and failures, and nothing of queues. They take `&mut self`: a queue keeps its limiter behind a lock.
//! To let several queues share one, wrap it in `Arc<Mutex<_>>`, which is a limiter as well.

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
pub use token_bucket::TokenBucket;

/// The longest delay a limiter speaks of, 292 years: what Go's arithmetic saturates at.
pub(crate) const FOREVER: Duration = Duration::from_nanos(i64::MAX as u64);

/// Says how long to wait before a key is tried again.
#[doc(alias = "TypedRateLimiter")]
pub trait RateLimiter<T>: Send {
    /// How long `key` must wait, counting this as one more failure of it.
    fn when(&mut self, key: &T) -> Duration;

    /// Ends the counting of failures of `key`, whether it succeeded or was given up.
    fn forget(&mut self, key: &T);

    /// How many failures of `key` were counted.
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

/// What controllers use: each key backs off from 5 ms to 1000 s, and all keys together pass at 10 a second after a
/// burst of 100.
#[doc(alias = "DefaultTypedControllerRateLimiter")]
#[must_use]
pub fn controller_default<T: Clone + Eq + Hash + Send + 'static>() -> MaxOf<T> {
    MaxOf::new()
        .and(ItemExponential::new(Duration::from_millis(5), Duration::from_secs(1000)))
        .and(TokenBucket::new(10.0, 100))
}

/// Each key backs off from 1 ms to 1000 s, and there is no limit on all together.
#[doc(alias = "DefaultTypedItemBasedRateLimiter")]
#[must_use]
pub fn item_default<T>() -> ItemExponential<T> {
    ItemExponential::new(Duration::from_millis(1), Duration::from_secs(1000))
}

#[cfg(test)]
mod tests;
