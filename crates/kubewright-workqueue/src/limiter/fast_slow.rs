//! A fixed number of short delays, then long ones.

use std::hash::Hash;
use std::time::Duration;

use super::RateLimiter;
use super::failures::FailureCounts;

/// A short delay for the first failures of a key, and a long one for all that follow.
#[doc(alias = "TypedItemFastSlowRateLimiter")]
#[derive(Clone, Debug)]
pub struct ItemFastSlow<T> {
    fast: Duration,
    slow: Duration,
    fast_attempts: u32,
    failures: FailureCounts<T>,
}

impl<T> ItemFastSlow<T> {
    /// The delay is `fast` for the first `fast_attempts` failures, then `slow`.
    #[must_use]
    pub fn new(fast: Duration, slow: Duration, fast_attempts: u32) -> Self {
        Self { fast, slow, fast_attempts, failures: FailureCounts::default() }
    }
}

impl<T: Clone + Eq + Hash + Send> RateLimiter<T> for ItemFastSlow<T> {
    fn when(&mut self, key: &T) -> Duration {
        if self.failures.count(key) <= self.fast_attempts { self.fast } else { self.slow }
    }

    fn forget(&mut self, key: &T) {
        self.failures.forget(key);
    }

    fn num_requeues(&self, key: &T) -> u32 {
        self.failures.of(key)
    }
}
