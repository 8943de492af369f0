//! Chance for jitter, where nothing depends on its quality.

use std::hash::{BuildHasher, RandomState};

/// A number from 0 up to 1.
pub(crate) fn unit() -> f64 {
    // Each state of the hasher is keyed anew, so that its hash of nothing is as good as random.
    (RandomState::new().hash_one(0u8) >> 11) as f64 / (1u64 << 53) as f64
}
