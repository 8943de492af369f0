//! Doubles a key's delay with each failure.

use std::hash::Hash;
use std::time::Duration;

use super::failures::FailureCounts;
use super::{FOREVER, RateLimiter};

/// Delays of `base × 2ⁿ` after `n` failures of the same key, up to a maximum.
#[doc(alias = "TypedItemExponentialFailureRateLimiter")]
#[derive(Clone, Debug)]
pub struct ItemExponential<T> {
    base: Duration,
    max: Duration,
    failures: FailureCounts<T>,
}

impl<T> ItemExponential<T> {
    /// Starts at `base` and stops growing at `max`.
    #[must_use]
    pub fn new(base: Duration, max: Duration) -> Self {
        Self { base, max, failures: FailureCounts::default() }
    }
}

impl<T: Clone + Eq + Hash + Send> RateLimiter<T> for ItemExponential<T> {
    fn when(&mut self, key: &T) -> Duration {
        let failures = self.failures.count(key) - 1;
        // Computed in floating point, as in Go: the rounding is part of the sequence, and an
        // overflow becomes infinity.
        let exponent = i32::try_from(failures).unwrap_or(i32::MAX);
        let nanoseconds = self.base.as_nanos() as f64 * 2f64.powi(exponent);
        if nanoseconds > FOREVER.as_nanos() as f64 {
            return self.max;
        }
        Duration::from_nanos(nanoseconds as u64).min(self.max)
    }

    fn forget(&mut self, key: &T) {
        self.failures.forget(key);
    }

    fn num_requeues(&self, key: &T) -> u32 {
        self.failures.of(key)
    }
}
