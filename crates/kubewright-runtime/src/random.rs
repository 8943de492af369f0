//! Chance for jitter, the same again for the same seed.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// A random uid, as version 4 of RFC 9562 has it.
#[inline]
pub(crate) fn uuid() -> String {
    // Two states, because one has no more than 64 bits to give.
    let [high, low] = [Random::new(None).next(), Random::new(None).next()];
    let high = (high & 0xffff_ffff_ffff_0fff) | 0x4000;
    let low = (low & 0x3fff_ffff_ffff_ffff) | 0x8000_0000_0000_0000;
    let (time, node) = (high >> 32, low & 0xffff_ffff_ffff);
    format!("{time:08x}-{:04x}-{:04x}-{:04x}-{node:012x}", (high >> 16) & 0xffff, high & 0xffff, low >> 48)
}

/// A sequence of numbers as good as random.
#[derive(Debug)]
pub(crate) struct Random(AtomicU64);

impl Random {
    /// The sequence of this seed, or one that nobody can foretell.
    #[inline]
    pub(crate) fn new(seed: Option<u64>) -> Self {
        // Each state of the hasher is keyed anew, so that its hash of nothing is as good as random.
        Random(AtomicU64::new(seed.unwrap_or_else(|| RandomState::new().hash_one(0u8))))
    }

    /// The next number of the sequence: SplitMix64.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut mixed = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 up to 1.
    #[inline]
    pub(crate) fn unit(&self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_is_of_version_4_and_comes_once() {
        let uids: std::collections::BTreeSet<String> = (0..1000).map(|_| uuid()).collect();
        assert_eq!(uids.len(), 1000);
        for uid in uids {
            let lengths: Vec<usize> = uid.split('-').map(str::len).collect();
            assert_eq!(lengths, [8, 4, 4, 4, 12], "{uid}");
            assert!(uid.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit()), "{uid}");
            assert!(uid.as_bytes()[14] == b'4' && b"89ab".contains(&uid.as_bytes()[19]), "{uid}");
        }
    }
}
