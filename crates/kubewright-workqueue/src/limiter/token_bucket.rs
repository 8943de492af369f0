//! Limits the overall rate of all keys.

use std::time::Duration;

use tokio::time::Instant;

use super::{FOREVER, RateLimiter};

/// A token bucket: starts full, refills at a steady rate, and spends one token per key.
///
/// When the bucket is empty, `when` reserves a future token and returns the time until then. A
/// reservation is spent even if the key turns out to be queued already. Keys are not distinguished,
/// so `forget` does nothing.
#[doc(alias = "TypedBucketRateLimiter")]
#[derive(Clone, Debug)]
pub struct BucketRateLimiter {
    rate: f64,
    burst: u32,
    /// Negative while future tokens are reserved.
    tokens: f64,
    last: Instant,
}

impl BucketRateLimiter {
    /// Allows `rate` keys per second, and `burst` keys at once after an idle period.
    ///
    /// An infinite rate means no limit. With a rate or a burst of zero, a key that finds the bucket
    /// empty waits for ever.
    #[must_use]
    pub fn new(rate: f64, burst: u32) -> Self {
        Self { rate, burst, tokens: f64::from(burst), last: Instant::now() }
    }

    /// Reserves a token and returns the time until it is available.
    fn reserve(&mut self) -> Duration {
        if self.rate == f64::INFINITY {
            return Duration::ZERO;
        }
        if self.burst == 0 {
            return FOREVER;
        }
        let now = Instant::now();
        let filled = now.saturating_duration_since(self.last).as_secs_f64() * self.rate.max(0.0);
        let tokens = (self.tokens + filled).min(f64::from(self.burst)) - 1.0;
        let delay = if tokens < 0.0 { self.time_for(-tokens) } else { Duration::ZERO };
        self.tokens = tokens;
        self.last = now;
        delay
    }

    fn time_for(&self, tokens: f64) -> Duration {
        // A rate of NaN counts as zero.
        if self.rate.is_nan() || self.rate <= 0.0 {
            return FOREVER;
        }
        Duration::from_nanos((tokens / self.rate * 1e9) as u64).min(FOREVER)
    }
}

impl<T> RateLimiter<T> for BucketRateLimiter {
    fn when(&mut self, _: &T) -> Duration {
        self.reserve()
    }

    fn forget(&mut self, _: &T) {}

    fn num_requeues(&self, _: &T) -> u32 {
        0
    }
}
