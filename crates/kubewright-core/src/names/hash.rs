//! 32-bit hashes of object keys and index values; no cache has more objects than that.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

/// Random per process, so that names cannot be chosen to collide.
static SEED: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0));

/// The hash of `namespace/name`.
#[inline]
pub fn key(namespace: &str, name: &str) -> u32 {
    key_by(*SEED, namespace, name)
}

/// The hash of a text.
#[inline]
pub fn text(text: &str) -> u32 {
    text_by(*SEED, text)
}

#[inline]
fn key_by(seed: u64, namespace: &str, name: &str) -> u32 {
    finish(fold(fold(seed, namespace.as_bytes()), name.as_bytes()))
}

#[inline]
fn text_by(seed: u64, text: &str) -> u32 {
    finish(fold(seed, text.as_bytes()))
}

const K: u64 = 0x9e37_79b9_7f4a_7c15;

/// Multiply-fold hash of two words at a time. The length distinguishes `a/bc` from `ab/c`.
#[inline]
fn fold(seed: u64, bytes: &[u8]) -> u64 {
    let mut state = seed ^ (bytes.len() as u64).wrapping_mul(K);
    // The last words may overlap earlier ones, which is faster than copying the rest.
    let (one, two) = match (bytes.last_chunk::<16>(), bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        (Some(last), ..) => {
            let (pairs, _) = bytes[..bytes.len() - 1].as_chunks::<16>();
            pairs.iter().map(words).for_each(|(one, two)| state = multiply(state ^ one, K ^ seed ^ two));
            words(last)
        }
        (None, Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
        _ => (short(bytes), 0),
    };
    multiply(state ^ one, K ^ seed ^ two)
}

#[inline]
fn words(pair: &[u8; 16]) -> (u64, u64) {
    let pair = u128::from_le_bytes(*pair);
    (pair as u64, (pair >> 64) as u64)
}

/// A word from fewer than eight bytes; the length is hashed separately.
#[inline]
fn short(bytes: &[u8]) -> u64 {
    match (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        (Some(first), Some(last)) => u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last)),
        _ => bytes.iter().fold(0, |all, byte| all << 8 | u64::from(*byte)),
    }
}

#[inline]
fn multiply(one: u64, two: u64) -> u64 {
    let product = u128::from(one) * u128::from(two);
    product as u64 ^ (product >> 64) as u64
}

#[inline]
fn finish(state: u64) -> u32 {
    multiply(state, 0xd6e8_feb8_6659_fd93) as u32
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_byte_and_where_a_text_ends_counts() {
        let text = "abcdefghijklmnopqrstuvwxyz";
        let mut hashes = BTreeSet::new();
        for length in 0..text.len() {
            hashes.insert(text_by(7, &text[..length]));
            for at in 0..length {
                let mut other = text[..length].to_owned();
                other.replace_range(at..=at, "!");
                hashes.insert(text_by(7, &other));
            }
        }
        assert_eq!(hashes.len(), (0..text.len()).map(|length| length + 1).sum::<usize>());
        let keys: BTreeSet<u32> = (0..20).map(|at| key_by(7, &text[..at], &text[at..20])).collect();
        assert_eq!(keys.len(), 20);
    }
}
