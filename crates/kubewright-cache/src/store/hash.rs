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

/// Multiplies words together, eight bytes at a time; the length keeps `a/bc` from `ab/c`.
fn fold(seed: u64, bytes: &[u8]) -> u64 {
    let mut state = seed ^ (bytes.len() as u64).wrapping_mul(K);
    let (words, rest) = bytes.as_chunks::<8>();
    words.iter().for_each(|word| state = multiply(state ^ u64::from_le_bytes(*word), K ^ seed));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    multiply(state ^ u64::from_le_bytes(last), K ^ seed)
}

fn multiply(one: u64, two: u64) -> u64 {
    let product = u128::from(one) * u128::from(two);
    product as u64 ^ (product >> 64) as u64
}

fn finish(state: u64) -> u32 {
    multiply(state, 0xd6e8_feb8_6659_fd93) as u32
}
