//! Random numbers for jitter and identities; reproducible with a seed.

use std::sync::{Mutex, PoisonError};

/// A random UUID of version 4 (RFC 9562).
#[inline]
pub(crate) fn uuid() -> String {
    let bits = fastrand::u128(..) & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let text = format!("{bits:032x}");
    format!("{}-{}-{}-{}-{}", &text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..])
}

/// A random number generator shared by tasks.
#[derive(Debug)]
pub(crate) struct Random(Mutex<fastrand::Rng>);

impl Random {
    /// A generator with this seed, or a random one.
    #[inline]
    pub(crate) fn new(seed: Option<u64>) -> Self {
        Random(Mutex::new(seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed)))
    }

    /// The next number.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).u64(..)
    }

    /// A number from 0 up to 1.
    #[inline]
    pub(crate) fn unit(&self) -> f64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_is_a_unique_version_4_uuid() {
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
