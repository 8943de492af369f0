//! Counts the failures of keys.
//!
//! A million keys may fail at once, and a map has twice as many places as that, each with room for a key and its count.
//! Here keys are kept one after the other, and only an index of half words has room to spare.

use std::hash::{BuildHasher, Hash};

use foldhash::fast::RandomState;

/// Tables up to this size keep their memory when the last key is forgotten.
const KEPT_SLOTS: usize = 4096;

/// Stands for "none" among numbers of free slots.
const NO_NUMBER: u32 = u32::MAX;

/// How often each key failed since it was last forgotten.
#[derive(Clone, Debug)]
pub(super) struct Failures<T> {
    slots: Vec<Slot<T>>,
    /// The first slot that is free, if any; each such names the next.
    free: u32,
    /// Open addressing with linear probing. An element is the hash of a key, with the number of its slot plus one instead of
    /// as many low bits as the length of the index has: those are told by the place. Zero is a gap, and an element without
    /// number belonged to a key that is forgotten.
    ///
    /// Invariant: a power of two long (or empty), longer than `slots`, at least a quarter of it gaps, and no gap between
    /// an element and the place its hash points to.
    index: Vec<u32>,
    /// How many elements are not gaps.
    used: usize,
    live: usize,
    hasher: RandomState,
}

#[derive(Clone, Debug)]
struct Slot<T> {
    /// `None` in a slot that is free.
    key: Option<T>,
    hash: u32,
    /// How often the key failed; in a slot that is free, the number of the next such.
    failures: u32,
}

impl<T: Clone + Eq + Hash> Failures<T> {
    /// Counts one more failure of `key`, and returns how many there are now.
    pub(super) fn count(&mut self, key: &T) -> u32 {
        let hash = self.hash(key);
        if let Some((_, number)) = self.find(hash, key) {
            let failures = &mut self.slots[number].failures;
            *failures = failures.saturating_add(1);
            return *failures;
        }
        let key = Some(key.clone());
        if (self.used + 1) * 4 > self.index.len() * 3 {
            self.rebuild_index();
        }
        let slot = Slot { key, hash, failures: 1 };
        let number = match self.slots.get_mut(self.free as usize) {
            Some(free) => {
                let number = std::mem::replace(&mut self.free, free.failures) as usize;
                *free = slot;
                number
            }
            None => {
                self.slots.push(slot);
                self.slots.len() - 1
            }
        };
        self.live += 1;
        self.used += 1;
        self.enter(hash, number);
        1
    }
}

impl<T: Eq + Hash> Failures<T> {
    /// How often `key` failed.
    pub(super) fn of(&self, key: &T) -> u32 {
        self.find(self.hash(key), key).map_or(0, |(_, number)| self.slots[number].failures)
    }

    /// Starts to count from zero again.
    pub(super) fn forget(&mut self, key: &T) {
        let Some((at, number)) = self.find(self.hash(key), key) else { return };
        self.index[at] = !self.mask();
        let slot = &mut self.slots[number];
        slot.key = None;
        slot.failures = std::mem::replace(&mut self.free, number as u32);
        self.live -= 1;
        if self.live == 0 && self.slots.len() > KEPT_SLOTS {
            *self = Self::default();
        }
    }

    fn hash(&self, key: &T) -> u32 {
        self.hasher.hash_one(key) as u32
    }

    /// Where the index names `key`, and the number of its slot.
    fn find(&self, hash: u32, key: &T) -> Option<(usize, usize)> {
        if self.index.is_empty() {
            return None;
        }
        let mask = self.mask();
        let mut at = (hash & mask) as usize;
        loop {
            let element = self.index[at];
            if element == 0 {
                return None;
            }
            let number = (element & mask) as usize;
            if (element ^ hash) & !mask == 0 && number > 0 {
                let slot = &self.slots[number - 1];
                if slot.hash == hash && slot.key.as_ref() == Some(key) {
                    return Some((at, number - 1));
                }
            }
            at = (at + 1) & mask as usize;
        }
    }
}

impl<T> Failures<T> {
    fn mask(&self) -> u32 {
        (self.index.len() - 1) as u32
    }

    /// Has the index name a slot, in the first gap from where the hash points to.
    fn enter(&mut self, hash: u32, number: usize) {
        let mask = self.mask();
        let mut at = (hash & mask) as usize;
        while self.index[at] != 0 {
            at = (at + 1) & mask as usize;
        }
        self.index[at] = hash & !mask | (number as u32 + 1);
    }

    /// Leaves out what belonged to forgotten keys, and makes room for half as many keys again as are known.
    #[cold]
    fn rebuild_index(&mut self) {
        let len = (self.live * 2).max(self.slots.len() + 1).next_power_of_two().max(16);
        assert!(len <= 1 << 31, "a thousand million keys do not fit into memory");
        self.index.clear();
        self.index.resize(len, 0);
        self.index.shrink_to(len);
        self.used = self.live;
        for number in 0..self.slots.len() {
            if self.slots[number].key.is_some() {
                self.enter(self.slots[number].hash, number);
            }
        }
    }
}

impl<T> Default for Failures<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: NO_NUMBER, index: Vec::new(), used: 0, live: 0, hasher: RandomState::default() }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use proptest::{collection::vec, prelude::*};

    use super::*;

    /// A key with one of few hashes, so that keys meet in the index.
    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Alike(u16);

    impl Hash for Alike {
        fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
            state.write_u16(self.0 % 7);
        }
    }

    proptest! {
        #[test]
        fn counts_agree_with_a_map(steps in vec((0..4u8, 0..80u16), 0..600)) {
            let mut failures = Failures::default();
            let mut model: BTreeMap<u16, u32> = BTreeMap::new();
            for (kind, key) in steps {
                if kind == 0 {
                    failures.forget(&Alike(key));
                    model.remove(&key);
                } else {
                    let count = model.entry(key).or_default();
                    *count += 1;
                    prop_assert_eq!(failures.count(&Alike(key)), *count);
                }
            }
            for key in 0..80 {
                prop_assert_eq!(failures.of(&Alike(key)), model.get(&key).copied().unwrap_or(0));
            }
        }
    }

    #[test]
    fn keys_that_come_and_go_take_no_more_room_than_those_there_are() {
        let mut failures = Failures::default();
        for key in 0..100_000 {
            failures.count(&key);
            if key >= 100 {
                failures.forget(&(key - 100));
            }
        }
        assert!((100_000 - 100..100_000).all(|key| failures.of(&key) == 1));
        assert!(failures.slots.len() <= 101 && failures.index.len() <= 256);
    }

    // WQ-13
    #[test]
    fn a_forgotten_key_leaves_nothing_behind() {
        let mut failures = Failures::default();
        let key = Arc::new(7);
        failures.count(&key);
        failures.forget(&key);
        assert_eq!(Arc::strong_count(&key), 1);
        (0..10_000).map(Arc::new).for_each(|key| assert_eq!(failures.count(&key), 1));
        (0..10_000).map(Arc::new).for_each(|key| failures.forget(&key));
        assert_eq!((failures.slots.capacity(), failures.index.capacity()), (0, 0));
    }
}
