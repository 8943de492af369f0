//! Interns strings that repeat between objects.
//!
//! Pods of one ReplicaSet, and all pods of a node, share most of their strings. The pool is a cache
//! of fixed size, not a table of all strings: names and uids, which never repeat, are evicted and
//! cost no lasting memory. Objects of one owner are close together in a list, which gives a high
//! hit rate. Short strings are stored inline in objects; for values such as `Always` and
//! `ClusterFirst` the cache only saves the UTF-8 validation.

use std::fmt;

use super::DecodeError;
use super::text::set_new_text;
use crate::Str;

/// Longer strings (configuration, scripts) rarely repeat and are slow to compare.
const LONGEST: usize = 256;
/// Longer strings are not stored inline.
const INLINE: usize = 16;
/// Number of recent long strings. Few enough that they stay in the CPU cache.
const RECENT: usize = 1 << 9;

/// A pool of recently decoded strings.
///
/// Holds at most 512 strings of at most 256 bytes, and 256 short ones.
#[derive(Clone)]
pub struct StringPool {
    /// Long strings with their hashes, which select the place.
    recent: Box<[(u64, Str)]>,
    short: Box<[Short; 256]>,
}

/// A string of up to 15 bytes, and its value of [`words`].
#[derive(Clone, Default)]
struct Short {
    words: (u64, u64),
    text: Str,
}

impl Default for StringPool {
    fn default() -> Self {
        StringPool {
            recent: vec![(0, Str::new()); RECENT].into(),
            short: Box::new(std::array::from_fn(|_| Short::default())),
        }
    }
}

impl StringPool {
    /// Sets `place` to the string of `bytes`, from the pool or newly added to it.
    #[inline]
    pub(crate) fn set(&mut self, place: &mut Str, bytes: &[u8]) -> Result<(), DecodeError> {
        if bytes.len() >= INLINE {
            return self.set_long(place, bytes);
        }
        let words = words(bytes);
        let short = &mut self.short[usize::from(short_hash(words))];
        if short.words == words {
            *place = short.text.clone();
            return Ok(());
        }
        set_new_short(short, words, place, bytes)
    }

    fn set_long(&mut self, place: &mut Str, bytes: &[u8]) -> Result<(), DecodeError> {
        if bytes.len() == INLINE || bytes.len() > LONGEST {
            return set_new_text(place, bytes);
        }
        let hash = hash(bytes);
        let recent = &mut self.recent[(hash >> 16) as usize % RECENT];
        if recent.0 == hash && is_same(recent.1.as_bytes(), bytes) {
            *place = recent.1.clone();
            return Ok(());
        }
        set_new_text(place, bytes)?;
        *recent = (hash, place.clone());
        Ok(())
    }
}

impl fmt::Debug for StringPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StringPool").finish_non_exhaustive()
    }
}

#[inline(never)]
fn set_new_short(short: &mut Short, words: (u64, u64), place: &mut Str, bytes: &[u8]) -> Result<(), DecodeError> {
    // Validating whole words is faster than single bytes.
    let padded = Padded([words.0, words.1 << 8 >> 8].map(u64::to_le_bytes));
    match std::str::from_utf8(padded.0.as_flattened()) {
        Ok(text) if bytes.len() >= 4 => *place = text[..bytes.len()].into(),
        _ => set_new_text(place, bytes)?,
    }
    *short = Short { words, text: place.clone() };
    Ok(())
}

#[repr(align(8))]
struct Padded([[u8; 8]; 2]);

/// Whether two strings are equal; the second one has more than 16 bytes. Their hashes are equal, so
/// the result is almost always true: a branch-free comparison avoids mispredicted loop exits.
#[inline(always)]
fn is_same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() || b.len() > 64 {
        return a == b;
    }
    match (ends::<32>(a), ends::<32>(b), ends::<16>(a), ends::<16>(b)) {
        (Some((a, a_last)), Some((b, b_last)), ..) => (a == b) & (a_last == b_last),
        (.., Some((a, a_last)), Some((b, b_last))) => (a == b) & (a_last == b_last),
        _ => false,
    }
}

/// The first and the last `N` bytes; they overlap in a shorter string.
#[inline(always)]
fn ends<const N: usize>(bytes: &[u8]) -> Option<(&[u8; N], &[u8; N])> {
    Some((bytes.first_chunk()?, bytes.last_chunk()?))
}

/// Up to 15 bytes as two words, with the length in the last byte, so that different strings have
/// different words. Both are zero for the empty string.
#[inline(always)]
fn words(bytes: &[u8]) -> (u64, u64) {
    let length = bytes.len();
    let count = (length as u64) << 56;
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        // The last word overlaps the first one; the common bytes are shifted out.
        let last = u64::from_le_bytes(*last) >> 8 >> (8 * (15 - length.min(15)));
        (u64::from_le_bytes(*first), last | count)
    } else if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let [first, last] = [first, last].map(|half| u64::from(u32::from_le_bytes(*half)));
        (first | last << (8 * (length & 7) - 32), count)
    } else if let [first, .., last] = bytes {
        (u64::from(*first) | u64::from(bytes[length / 2]) << 8 | u64::from(*last) << 16, count)
    } else {
        (bytes.first().copied().map_or(0, u64::from), count)
    }
}

#[inline(always)]
fn short_hash((first, last): (u64, u64)) -> u8 {
    ((first ^ last.rotate_left(29)).wrapping_mul(K) >> 56) as u8
}

const K: u64 = 0x9e37_79b9_7f4a_7c15;

/// Multiply-fold hash of more than 16 bytes. Crafted collisions only cause misses.
#[inline(always)]
fn hash(bytes: &[u8]) -> u64 {
    let length = bytes.len() as u64;
    let Some((first, last)) = ends::<32>(bytes) else {
        let (first, last) = ends::<16>(bytes).unwrap_or((&[0; 16], &[0; 16]));
        return fold(length, first) ^ fold(!length, last).rotate_left(16);
    };
    // Independent multiplications.
    let (first, last) = (first.as_chunks().0, last.as_chunks().0);
    let [a, b] = [fold(length, &first[0]), fold(length << 8, &first[1])];
    let [c, d] = [fold(!length, &last[0]), fold(!length << 8, &last[1])];
    let mut state = a ^ b.rotate_left(16) ^ c.rotate_left(32) ^ d.rotate_left(48);
    if let Some((middle, _)) = bytes[32..].split_last_chunk::<16>()
        && bytes.len() > 64
    {
        state = middle.as_chunks().0.iter().fold(state, fold);
    }
    state
}

#[inline(always)]
fn fold(state: u64, pair: &[u8; 16]) -> u64 {
    let pair = u128::from_le_bytes(*pair);
    let product = u128::from(state ^ pair as u64) * u128::from(K ^ (pair >> 64) as u64);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_string_is_stored_once() {
        let mut pool = StringPool::default();
        let text = "registry.example.com/shop/web:1.0";
        let [mut first, mut second] = [Str::new(), Str::new()];
        pool.set(&mut first, text.as_bytes()).unwrap();
        pool.set(&mut second, text.as_bytes()).unwrap();
        assert!(std::ptr::eq(first.as_str(), second.as_str()));
    }

    #[test]
    fn short_strings_are_interned_separately() {
        let mut pool = StringPool::default();
        let texts =
            ["", "\0", "a", "ab", "abc", "aXc", "abcd", "abcdefg", "abcdefgh", "abcdefghi", "abcdefghijklmno", "é"];
        let long = ["abcdefghijklmnop", "abcdefghijklmnopq"];
        for text in texts.iter().chain(&long).chain(&texts) {
            let mut place = Str::from("before");
            pool.set(&mut place, text.as_bytes()).unwrap();
            assert_eq!(place, *text);
        }
        let mut all: Vec<_> = texts.iter().map(|text| words(text.as_bytes())).collect();
        all.sort_unstable();
        assert!(all.is_sorted_by(|a, b| a < b), "different strings have different words");
        for _ in 0..2 {
            assert!(pool.set(&mut Str::new(), b"ab\xff").is_err(), "what is not text is not remembered");
        }
    }

    #[test]
    fn other_strings_evict_those_that_do_not_repeat() {
        let mut pool = StringPool::default();
        let mut stored = |text: &str| {
            let mut pooled = Str::new();
            pool.set(&mut pooled, text.as_bytes()).unwrap();
            assert_eq!(pooled, *text);
            pooled
        };
        let text = "registry.example.com/shop/web:1.0";
        let first = stored(text);
        (0..100 * RECENT).for_each(|number| drop(stored(&format!("containerd://{number:064x}"))));
        assert!(!std::ptr::eq(first.as_str(), stored(text).as_str()));
    }
}
