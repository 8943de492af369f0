//! Hashes of keys and index values, by which tries find them: 32 bits, since a store has fewer objects than that.

use std::hash::{BuildHasher, RandomState};

use kubewright_core::Object;

/// Hashes texts, differently in each store, so that nobody can choose names that collide.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hasher {
    seed: u64,
}

impl Default for Hasher {
    fn default() -> Self {
        Hasher { seed: RandomState::new().hash_one(0) }
    }
}

impl Hasher {
    /// Of `namespace/name`.
    #[inline]
    pub(crate) fn key(self, namespace: &str, name: &str) -> u32 {
        finish(fold(fold(self.seed, namespace.as_bytes()), name.as_bytes()))
    }

    /// Of an object's key.
    pub(crate) fn object(self, object: &impl Object) -> u32 {
        self.key(object.namespace(), object.name())
    }

    /// Of one text.
    pub(crate) fn text(self, text: &str) -> u32 {
        finish(fold(self.seed, text.as_bytes()))
    }
}

const K: u64 = 0x9e37_79b9_7f4a_7c15;

/// Multiplies words together, two at a time; the length keeps `a/bc` from `ab/c`.
#[inline]
fn fold(seed: u64, bytes: &[u8]) -> u64 {
    let mut state = seed ^ (bytes.len() as u64).wrapping_mul(K);
    // The last words overlap others where the length asks for it: to copy what is left out would take longer.
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

fn words(pair: &[u8; 16]) -> (u64, u64) {
    let pair = u128::from_le_bytes(*pair);
    (pair as u64, (pair >> 64) as u64)
}

/// All of fewer than eight bytes, whose number is known.
fn short(bytes: &[u8]) -> u64 {
    match (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        (Some(first), Some(last)) => u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last)),
        _ => bytes.iter().fold(0, |all, byte| all << 8 | u64::from(*byte)),
    }
}

fn multiply(one: u64, two: u64) -> u64 {
    let product = u128::from(one) * u128::from(two);
    product as u64 ^ (product >> 64) as u64
}

fn finish(state: u64) -> u32 {
    multiply(state, 0xd6e8_feb8_6659_fd93) as u32
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_byte_and_where_a_text_ends_counts() {
        let hasher = Hasher { seed: 7 };
        let text = "abcdefghijklmnopqrstuvwxyz";
        let mut hashes = BTreeSet::new();
        for length in 0..text.len() {
            hashes.insert(hasher.text(&text[..length]));
            for at in 0..length {
                let mut other = text[..length].to_owned();
                other.replace_range(at..=at, "!");
                hashes.insert(hasher.text(&other));
            }
        }
        assert_eq!(hashes.len(), (0..text.len()).map(|length| length + 1).sum::<usize>());
        let keys: BTreeSet<u32> = (0..20).map(|at| hasher.key(&text[..at], &text[at..20])).collect();
        assert_eq!(keys.len(), 20);
    }
}
