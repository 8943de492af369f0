//! Stores long strings that repeat from object to object once, and knows short ones again.
//!
//! Pods of one ReplicaSet, and all pods of a node, share most of their text. The pool is a cache of
//! fixed size, not a table of everything: a string that does not come again is pushed out by later
//! ones, so that names and uids, which never repeat, cost nothing lasting. Objects of one owner come
//! close together in a list, which is when it pays. Short strings lie in the objects themselves; what is
//! saved with `Always` and `ClusterFirst` is to look whether they are text.

use std::fmt;

use super::DecodeError;
use super::lasting::lasting;
use crate::Str;

/// Longer ones (configuration, scripts) seldom repeat and are slow to compare.
const LONGEST: usize = 256;
/// Longer strings than this do not lie inline.
const INLINE: usize = 16;
/// Sets of two strings that keep coming, to begin with and at the most: 6 KiB growing to 192 KiB.
const FEWEST_SETS: usize = 1 << 7;
const MOST_SETS: usize = 1 << 12;
/// How many new strings are at hand for a while, and of how many older ones it is known that they came.
const RECENT: usize = 1 << 9;
const SEEN: usize = 1 << 13;
/// Which of the strings that come again are looked at, a prime, so that it is not always the same one of each object. Of how many
/// of them it is known that they were.
const SAMPLE: u32 = 31;
const SAMPLED: usize = 1 << 8;

/// Long strings that were decoded lately.
///
/// Holds at most 8,704 strings of at most 256 bytes, and 256 short ones. Of those that keep coming, up to 256 stay until the program ends, for
/// all pools together, so that their holders need not be counted.
#[derive(Clone)]
pub struct StringPool {
    /// Strings that came again after a while. Invariant: a power of two.
    sets: Vec<Set>,
    misses: usize,
    /// New strings with their hashes. Most are never met again, or by the next few objects only; each is pushed out from here while
    /// the processor still has it in its caches. Out of `sets` it would have to be fetched from memory to be let go.
    recent: Box<[(u64, Str)]>,
    /// Parts of the hashes of strings that were in `recent`.
    seen: Box<[u16]>,
    /// How many strings came again since one of them was looked at, and parts of the hashes of those that were.
    hits: u32,
    sampled: Box<[u32; SAMPLED]>,
    short: Box<[Short; 256]>,
}

/// A string of up to 15 bytes, and what [`words`] makes of it.
#[derive(Clone, Default)]
struct Short {
    words: (u64, u64),
    text: Str,
}

/// Two strings whose hashes end alike, with the other ends of their hashes, so that a string is looked at only if it is very likely
/// the one.
#[derive(Clone, Default)]
struct Set {
    hashes: [u32; 2],
    /// Which of them was met last.
    last: u8,
    texts: [Str; 2],
}

impl Set {
    /// Takes a text in place of the one that was not met for longer, unless that is one that stays.
    fn keep(&mut self, hash: u64, text: Str) {
        let stays = |text: &Str| !text.is_heap_allocated() && !text.is_empty();
        let (last, older) = (usize::from(self.last), usize::from(self.last ^ 1));
        let at = if stays(&self.texts[older]) && !stays(&self.texts[last]) { last } else { older };
        (self.hashes[at], self.texts[at], self.last) = ((hash >> 32) as u32, text, at as u8);
    }
}

impl Default for StringPool {
    fn default() -> Self {
        StringPool {
            sets: vec![Set::default(); FEWEST_SETS],
            misses: 0,
            recent: vec![(0, Str::new()); RECENT].into(),
            seen: vec![0; SEEN].into(),
            hits: 0,
            sampled: Box::new([0; SAMPLED]),
            short: Box::new(std::array::from_fn(|_| Short::default())),
        }
    }
}

impl StringPool {
    /// Sets `place` to the text of `bytes`: the one in the pool, or a new one that is now in the pool.
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
            return super::set_new_text(place, bytes);
        }
        let hash = hash(bytes);
        let (at, high) = (self.set_of(hash), (hash >> 32) as u32);
        let set = &mut self.sets[at];
        // Both are looked at, because which of them it is cannot be guessed.
        let way = usize::from(set.hashes[1] == high);
        if set.hashes[way] == high && is_same(set.texts[way].as_bytes(), bytes) {
            *place = set.texts[way].clone();
            set.last = way as u8;
            self.hits += 1;
            if self.hits == SAMPLE {
                self.sample(at, way);
            }
            return Ok(());
        }
        self.set_other(place, bytes, hash)
    }

    /// Looks at one in so many of the strings that came again. One that is met twice like this is among those that keep coming.
    #[cold]
    fn sample(&mut self, at: usize, way: usize) {
        self.hits = 0;
        let set = &mut self.sets[at];
        let (hash, text) = (&set.hashes[way], &mut set.texts[way]);
        if !text.is_heap_allocated() {
            return;
        }
        let sampled = &mut self.sampled[*hash as usize % SAMPLED];
        if *sampled != *hash {
            *sampled = *hash;
        } else if let Some(lasting) = lasting(text) {
            *text = lasting;
        }
    }

    /// As `set`, for a text that is not in its set.
    #[inline(never)]
    fn set_other(&mut self, place: &mut Str, bytes: &[u8], hash: u64) -> Result<(), DecodeError> {
        let recent = &mut self.recent[(hash >> 16) as usize % RECENT];
        if recent.0 == hash && is_same(recent.1.as_bytes(), bytes) {
            *place = recent.1.clone();
            return Ok(());
        }
        super::set_new_text(place, bytes)?;
        let seen = &mut self.seen[(hash >> 16) as usize % SEEN];
        // Not of the bits that the place depends on.
        let mark = (hash >> 48) as u16;
        if *seen == mark {
            self.keep(hash, place.clone());
        } else {
            *seen = mark;
            *recent = (hash, place.clone());
        }
        Ok(())
    }

    /// Takes a text into its set.
    fn keep(&mut self, hash: u64, text: Str) {
        let at = self.set_of(hash);
        self.sets[at].keep(hash, text);
        self.misses += 1;
        if self.misses > 4 * self.sets.len() {
            self.grow();
        }
    }

    #[inline]
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
        for Set { last, mut texts, .. } in std::mem::replace(&mut self.sets, room) {
            texts.rotate_left(usize::from(last ^ 1));
            for text in texts.into_iter().filter(|text| !text.is_empty()) {
                let hash = hash(text.as_bytes());
                let at = self.set_of(hash);
                self.sets[at].keep(hash, text);
            }
        }
    }
}

impl fmt::Debug for StringPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StringPool").field("sets", &self.sets.len()).finish_non_exhaustive()
    }
}

#[inline(never)]
fn set_new_short(short: &mut Short, words: (u64, u64), place: &mut Str, bytes: &[u8]) -> Result<(), DecodeError> {
    // Whole words are looked at more quickly than single bytes.
    let padded = Padded([words.0, words.1 << 8 >> 8].map(u64::to_le_bytes));
    match std::str::from_utf8(padded.0.as_flattened()) {
        Ok(text) if bytes.len() >= 4 => *place = text[..bytes.len()].into(),
        _ => super::set_new_text(place, bytes)?,
    }
    *short = Short { words, text: place.clone() };
    Ok(())
}

#[repr(align(8))]
struct Padded([[u8; 8]; 2]);

/// Whether two texts are the same, of which the second has more than 16 bytes. Their hashes are, so that the answer is hardly ever no:
/// all is compared at once, and how often a loop goes round is not guessed wrongly.
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

/// The first and the last `N` bytes, which overlap in a text of less than twice as many.
#[inline(always)]
fn ends<const N: usize>(bytes: &[u8]) -> Option<(&[u8; N], &[u8; N])> {
    Some((bytes.first_chunk()?, bytes.last_chunk()?))
}

/// Up to 15 bytes as two words, with their number at the end, so that different strings have different words. Of the empty
/// string both are zero.
#[inline(always)]
fn words(bytes: &[u8]) -> (u64, u64) {
    let length = bytes.len();
    let count = (length as u64) << 56;
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        // The last word overlaps the first one; what is in both is shifted out.
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

/// Multiplies words together, of more than 16 bytes. An attacker who finds collisions gains only misses.
#[inline(always)]
fn hash(bytes: &[u8]) -> u64 {
    let length = bytes.len() as u64;
    let Some((first, last)) = ends::<32>(bytes) else {
        let (first, last) = ends::<16>(bytes).unwrap_or((&[0; 16], &[0; 16]));
        return fold(length, first) ^ fold(!length, last).rotate_left(16);
    };
    // None of these waits for another.
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
    fn a_string_that_comes_again_is_stored_once() {
        let mut pool = StringPool::default();
        let text = "registry.example.com/shop/web:1.0";
        let [mut first, mut second] = [Str::new(), Str::new()];
        pool.set(&mut first, text.as_bytes()).unwrap();
        pool.set(&mut second, text.as_bytes()).unwrap();
        assert!(std::ptr::eq(first.as_str(), second.as_str()));
    }

    #[test]
    fn short_strings_are_told_apart_and_known_again() {
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
    fn strings_that_never_repeat_do_not_grow_it_without_bound() {
        let mut pool = StringPool::default();
        for i in 0..200_000 {
            let text = format!("containerd://{i:064x}");
            let mut pooled = Str::new();
            pool.set(&mut pooled, text.as_bytes()).unwrap();
            assert_eq!(pooled, text);
        }
        assert_eq!(pool.sets.len(), FEWEST_SETS);
    }

    #[test]
    fn strings_that_come_again_after_many_others_stay() {
        let mut pool = StringPool::default();
        let node = |number: usize| format!("ip-10-0-0-{number}.eu-west-1.compute.internal");
        let mut round = || {
            let set = |number| {
                let mut place = Str::new();
                pool.set(&mut place, node(number).as_bytes()).unwrap();
                assert_eq!(place, node(number));
                place
            };
            (0..2 * RECENT).map(set).collect::<Vec<_>>()
        };
        (0..6).for_each(|_| drop(round()));
        let (before, last) = (round(), round());
        let shared = before.iter().zip(&last).filter(|(a, b)| std::ptr::eq(a.as_str(), b.as_str())).count();
        assert!(shared > RECENT, "{shared} of {} are stored once", last.len());
        assert!(pool.sets.len() > FEWEST_SETS);
    }
}
