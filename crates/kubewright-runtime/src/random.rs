//! Chance for jitter, the same again for the same seed.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// A sequence of numbers as good as random.
#[derive(Debug)]
pub(crate) struct Random(AtomicU64);

impl Random {
    /// The sequence of this seed, or one that nobody can foretell.
    pub(crate) fn new(seed: Option<u64>) -> Self {
        // Each state of the hasher is keyed anew, so that its hash of nothing is as good as random.
        Random(AtomicU64::new(seed.unwrap_or_else(|| RandomState::new().hash_one(0u8))))
    }

    /// The next number of the sequence: SplitMix64.
    pub(crate) fn next(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut mixed = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 up to 1.
    pub(crate) fn unit(&self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}
