//! A few quick attempts, then slow ones.

use std::hash::Hash;
use std::time::Duration;

use foldhash::HashMap;

use super::RateLimiter;
use super::exponential::count;

/// A short delay for the first failures of a key, and a long one for all that follow.
#[doc(alias = "TypedItemFastSlowRateLimiter")]
#[derive(Clone, Debug)]
pub struct ItemFastSlow<T> {
    fast: Duration,
    slow: Duration,
    fast_attempts: u32,
    failures_of: HashMap<T, u32>,
}

impl<T> ItemFastSlow<T> {
    /// The delay is `fast` for as many failures as `fast_attempts`, then `slow`.
    #[must_use]
    pub fn new(fast: Duration, slow: Duration, fast_attempts: u32) -> Self {
        Self { fast, slow, fast_attempts, failures_of: HashMap::default() }
    }
}

impl<T: Clone + Eq + Hash + Send> RateLimiter<T> for ItemFastSlow<T> {
    fn when(&mut self, key: &T) -> Duration {
        if count(&mut self.failures_of, key) <= self.fast_attempts { self.fast } else { self.slow }
    }

    fn forget(&mut self, key: &T) {
        self.failures_of.remove(key);
    }

    fn num_requeues(&self, key: &T) -> u32 {
        self.failures_of.get(key).copied().unwrap_or(0)
    }
}
