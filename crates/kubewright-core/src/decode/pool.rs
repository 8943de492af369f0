//! Stores long strings that repeat from object to object once.
//!
//! Pods of one ReplicaSet, and all pods of a node, share most of their text. The pool is a cache of
//! fixed size, not a table of everything: a string that does not come again is pushed out by later
//! ones, so that names and uids, which never repeat, cost nothing lasting. Objects of one owner come
//! close together in a list, which is when it pays.

use std::fmt;
use std::str::Utf8Error;

use crate::Str;

/// Shorter strings lie inline, longer ones (configuration, scripts) seldom repeat and are slow to compare.
const LENGTHS: std::ops::RangeInclusive<usize> = 17..=256;
/// Sets of two strings to begin with, and at the most: 4 KiB growing to 256 KiB.
const FEWEST_SETS: usize = 1 << 7;
const MOST_SETS: usize = 1 << 13;

/// Long strings that were decoded lately.
///
/// Holds at most 16,384 strings of at most 256 bytes.
#[derive(Clone)]
pub struct StringPool {
    /// Invariant: a power of two. Each set has the newer string first.
    sets: Vec<[Str; 2]>,
    misses: usize,
}

impl Default for StringPool {
    fn default() -> Self {
        StringPool { sets: vec![[Str::new(), Str::new()]; FEWEST_SETS], misses: 0 }
    }
}

impl StringPool {
    /// Whether strings of this length are pooled.
    #[inline]
    pub(crate) fn takes(&self, length: usize) -> bool {
        LENGTHS.contains(&length)
    }

    /// The text of `bytes`: the one in the pool, or a new one that is now in the pool.
    pub(crate) fn intern(&mut self, bytes: &[u8]) -> Result<Str, Utf8Error> {
        let at = self.set_of(bytes);
        let enough = 2 * self.sets.len();
        let set = &mut self.sets[at];
        if set[0].as_bytes() == bytes {
            return Ok(set[0].clone());
        }
        set.swap(0, 1);
        if set[0].as_bytes() != bytes {
            set[0] = Str::from(std::str::from_utf8(bytes)?);
            self.misses += 1;
            if self.misses > enough {
                let text = set[0].clone();
                self.grow();
                return Ok(text);
            }
        }
        Ok(set[0].clone())
    }

    fn set_of(&self, bytes: &[u8]) -> usize {
        hash(bytes) as usize & (self.sets.len() - 1)
    }

    /// Doubles the room, as long as it keeps being too small.
    fn grow(&mut self) {
        self.misses = 0;
        if self.sets.len() >= MOST_SETS {
            return;
        }
        let room = vec![[Str::new(), Str::new()]; self.sets.len() * 2];
        for [newer, older] in std::mem::replace(&mut self.sets, room) {
            for text in [older, newer] {
                let at = self.set_of(text.as_bytes());
                self.sets[at].swap(0, 1);
                self.sets[at][0] = text;
            }
        }
    }
}

impl fmt::Debug for StringPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StringPool").field("sets", &self.sets.len()).finish_non_exhaustive()
    }
}

/// Multiplies words together. An attacker who finds collisions gains only misses.
fn hash(bytes: &[u8]) -> u64 {
    const K: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut state = bytes.len() as u64;
    let mut fold = |word: u64| {
        let product = u128::from(state ^ word) * u128::from(K);
        state = product as u64 ^ (product >> 64) as u64;
    };
    let (words, rest) = bytes.as_chunks::<8>();
    words.iter().for_each(|word| fold(u64::from_le_bytes(*word)));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    fold(u64::from_le_bytes(last));
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_that_comes_again_is_stored_once() {
        let mut pool = StringPool::default();
        let text = "registry.example.com/shop/web:1.0";
        let first = pool.intern(text.as_bytes()).unwrap();
        let second = pool.intern(text.as_bytes()).unwrap();
        assert!(std::ptr::eq(first.as_str(), second.as_str()));
    }

    #[test]
    fn strings_that_never_repeat_do_not_grow_it_without_bound() {
        let mut pool = StringPool::default();
        for i in 0..200_000 {
            let text = format!("containerd://{i:064x}");
            assert_eq!(pool.intern(text.as_bytes()).unwrap(), text);
        }
        assert_eq!(pool.sets.len(), MOST_SETS);
    }
}
