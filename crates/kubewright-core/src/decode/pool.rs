//! Stores long strings that repeat from object to object once.
//!
//! Pods of one ReplicaSet, and all pods of a node, share most of their text. The pool is a cache of
//! fixed size, not a table of everything: a string that does not come again is pushed out by later
//! ones, so that names and uids, which never repeat, cost nothing lasting. Objects of one owner come
//! close together in a list, which is when it pays.

use std::fmt;

use super::DecodeError;
use crate::Str;

/// Shorter strings lie inline, longer ones (configuration, scripts) seldom repeat and are slow to compare.
const LENGTHS: std::ops::RangeInclusive<usize> = 17..=256;
/// Sets of two strings to begin with, and at the most: 5 KiB growing to 160 KiB.
const FEWEST_SETS: usize = 1 << 7;
const MOST_SETS: usize = 1 << 12;

/// Long strings that were decoded lately.
///
/// Holds at most 8,192 strings of at most 256 bytes.
#[derive(Clone)]
pub struct StringPool {
    /// Invariant: a power of two.
    sets: Vec<Set>,
    misses: usize,
}

/// Two strings whose hashes end alike, the newer first, with the other ends of their hashes, so that a string
/// is looked at only if it is very likely the one.
#[derive(Clone, Default)]
struct Set {
    hashes: [u32; 2],
    texts: [Str; 2],
}

impl Set {
    fn swap(&mut self) {
        self.hashes.swap(0, 1);
        self.texts.swap(0, 1);
    }
}

impl Default for StringPool {
    fn default() -> Self {
        StringPool { sets: vec![Set::default(); FEWEST_SETS], misses: 0 }
    }
}

impl StringPool {
    /// Whether strings of this length are pooled.
    #[inline]
    pub(crate) fn takes(&self, length: usize) -> bool {
        LENGTHS.contains(&length)
    }

    /// Sets `place` to the text of `bytes`: the one in the pool, or a new one that is now in the pool.
    pub(crate) fn intern(&mut self, place: &mut Str, bytes: &[u8]) -> Result<(), DecodeError> {
        let hash = hash(bytes);
        let (at, high) = (self.set_of(hash), (hash >> 32) as u32);
        let set = &mut self.sets[at];
        if set.hashes[0] == high && set.texts[0].as_bytes() == bytes {
            *place = set.texts[0].clone();
            return Ok(());
        }
        set.swap();
        if set.hashes[0] == high && set.texts[0].as_bytes() == bytes {
            *place = set.texts[0].clone();
            return Ok(());
        }
        super::set_new_text(&mut set.texts[0], bytes)?;
        set.hashes[0] = high;
        *place = set.texts[0].clone();
        self.misses += 1;
        if self.misses > 4 * self.sets.len() {
            self.grow();
        }
        Ok(())
    }

    fn set_of(&self, hash: u64) -> usize {
        hash as usize & (self.sets.len() - 1)
    }

    /// Doubles the room, as long as it keeps being too small.
    fn grow(&mut self) {
        self.misses = 0;
        if self.sets.len() >= MOST_SETS {
            return;
        }
        let room = vec![Set::default(); self.sets.len() * 2];
        for Set { texts: [newer, older], .. } in std::mem::replace(&mut self.sets, room) {
            for text in [older, newer] {
                let hash = hash(text.as_bytes());
                let at = self.set_of(hash);
                let set = &mut self.sets[at];
                set.swap();
                (set.hashes[0], set.texts[0]) = ((hash >> 32) as u32, text);
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
        let [mut first, mut second] = [Str::new(), Str::new()];
        pool.intern(&mut first, text.as_bytes()).unwrap();
        pool.intern(&mut second, text.as_bytes()).unwrap();
        assert!(std::ptr::eq(first.as_str(), second.as_str()));
    }

    #[test]
    fn strings_that_never_repeat_do_not_grow_it_without_bound() {
        let mut pool = StringPool::default();
        for i in 0..200_000 {
            let text = format!("containerd://{i:064x}");
            let mut pooled = Str::new();
            pool.intern(&mut pooled, text.as_bytes()).unwrap();
            assert_eq!(pooled, text);
        }
        assert_eq!(pool.sets.len(), MOST_SETS);
    }
}
