//! Limits all keys together to a rate.

use std::time::Duration;

use tokio::time::Instant;

use super::{FOREVER, RateLimiter};

/// A bucket that starts full, fills at a steady rate, and gives one token for each key.
///
/// Who finds it empty reserves a token of the future, and waits until then. A reservation is used up even if the key
/// turns out to be waiting already. Keys are not told apart, so there is nothing to forget.
#[doc(alias = "TypedBucketRateLimiter")]
#[derive(Clone, Debug)]
pub struct TokenBucket {
    rate: f64,
    burst: u32,
    /// Negative by the tokens that are reserved but not yet there.
    tokens: f64,
    last: Instant,
}

impl TokenBucket {
    /// Lets `rate` keys pass in a second, and `burst` at once after a quiet time.
    ///
    /// An infinite rate means no limit; with a rate or a burst of zero, whoever comes when it is empty waits for ever.
    #[must_use]
    pub fn new(rate: f64, burst: u32) -> Self {
        Self { rate, burst, tokens: f64::from(burst), last: Instant::now() }
    }

    /// Takes a token, and returns how long it takes to be there.
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
        // A rate that is not a number is no rate.
        if self.rate.is_nan() || self.rate <= 0.0 {
            return FOREVER;
        }
        Duration::from_nanos((tokens / self.rate * 1e9) as u64).min(FOREVER)
    }
}

impl<T> RateLimiter<T> for TokenBucket {
    fn when(&mut self, _: &T) -> Duration {
        self.reserve()
    }

    fn forget(&mut self, _: &T) {}

    fn num_requeues(&self, _: &T) -> u32 {
        0
    }
}
