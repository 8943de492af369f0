//! Spreads delays, so that what failed together is not tried again together.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use super::{FOREVER, RateLimiter};

/// Lengthens each delay of another limiter by a random part of it.
///
/// The numbers are good enough to spread load, and not meant for secrets.
#[doc(alias = "Jitter")]
#[derive(Clone, Debug)]
pub struct Jittered<L> {
    limiter: L,
    factor: f64,
    state: u64,
}

impl<L> Jittered<L> {
    /// Delays of `limiter` times a random number between 1 and `1 + factor`.
    ///
    /// A factor that is not above zero counts as 1, as in Go's `wait.Jitter`.
    #[must_use]
    pub fn new(limiter: L, factor: f64) -> Self {
        let factor = if factor > 0.0 { factor } else { 1.0 };
        Self { limiter, factor, state: RandomState::new().hash_one(0) }
    }

    /// Starts the random numbers at `seed`, to have the same ones each time. Random by default.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.state = seed;
        self
    }

    /// A number from 0 to below 1, by the generator known as SplitMix64.
    fn random(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        (bits >> 11) as f64 / (1u64 << 53) as f64
    }
}

impl<T, L: RateLimiter<T>> RateLimiter<T> for Jittered<L> {
    fn when(&mut self, key: &T) -> Duration {
        let delay = self.limiter.when(key).min(FOREVER);
        let more = delay.as_nanos() as f64 * self.random() * self.factor;
        // Converting to an integer saturates, so an infinite addition is a long one.
        delay.saturating_add(Duration::from_nanos(more as u64)).min(FOREVER)
    }

    fn forget(&mut self, key: &T) {
        self.limiter.forget(key);
    }

    fn num_requeues(&self, key: &T) -> u32 {
        self.limiter.num_requeues(key)
    }
}
