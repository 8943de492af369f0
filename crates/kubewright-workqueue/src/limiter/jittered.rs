//! Adds jitter to delays, so that keys that failed together are not retried together.

use std::time::Duration;

use super::{FOREVER, RateLimiter};

/// Lengthens each delay of another limiter by a random fraction.
///
/// The random numbers are not suitable for cryptography.
#[doc(alias = "Jitter")]
#[derive(Clone, Debug)]
pub struct Jittered<L> {
    limiter: L,
    factor: f64,
    random: fastrand::Rng,
}

impl<L> Jittered<L> {
    /// Delays of `limiter` times a random number between 1 and `1 + factor`.
    ///
    /// A factor that is not above zero counts as 1, as in Go's `wait.Jitter`.
    #[must_use]
    pub fn new(limiter: L, factor: f64) -> Self {
        let factor = if factor > 0.0 { factor } else { 1.0 };
        Self { limiter, factor, random: fastrand::Rng::new() }
    }

    /// Seeds the random number generator, for reproducible delays. Random by default.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.random.seed(seed);
        self
    }
}

impl<T, L: RateLimiter<T>> RateLimiter<T> for Jittered<L> {
    fn when(&mut self, key: &T) -> Duration {
        let delay = self.limiter.when(key).min(FOREVER);
        let more = delay.as_nanos() as f64 * self.random.f64() * self.factor;
        // The conversion saturates, so an infinite jitter becomes the longest delay.
        delay.saturating_add(Duration::from_nanos(more as u64)).min(FOREVER)
    }

    fn forget(&mut self, key: &T) {
        self.limiter.forget(key);
    }

    fn num_requeues(&self, key: &T) -> u32 {
        self.limiter.num_requeues(key)
    }
}
