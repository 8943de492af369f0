//! Holds every key the queue knows once, under a number that stays while the key is known.
//!
//! What a key is waiting for is written in its entry by `state`; this module only finds, numbers and forgets. It exists
//! because a map beside a line of keys would store and hash each key several times: here a key is hashed when it is
//! added, outside of the lock, and all else goes by number.

/// Stands for "no deadline" in [`Entry::deadline`].
pub(crate) const NEVER: u64 = u64::MAX;

/// Tables up to this size keep their memory when the last key leaves.
const KEPT_SLOTS: usize = 4096;

/// Where a key stands between being added and being done with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// Neither waiting nor in work; known for its deadline alone.
    Idle,
    /// In line for a worker.
    Queued,
    /// With a worker.
    Processing,
    /// With a worker, and added again meanwhile.
    ProcessingDirty,
}

/// What the queue knows about one key. Times are nanoseconds since the queue was made.
#[derive(Debug)]
pub(crate) struct Entry<T> {
    pub(crate) key: T,
    hash: u32,
    pub(crate) priority: i32,
    pub(crate) status: Status,
    /// When the key was first added since it was last handed out; meaningful while dirty.
    pub(crate) since: u64,
    /// When a delayed add falls due, or [`NEVER`].
    pub(crate) deadline: u64,
    /// While queued: how many came into line before it. While processing: its index in the list of work under way.
    ///
    /// Half a word, because a million keys may wait: after four thousand million arrivals the count starts anew, and two
    /// keys of equal rank that stand on either side of that moment change places.
    pub(crate) place: u32,
}

/// Every known key, by number and by value.
#[derive(Debug)]
pub(crate) struct Table<T> {
    slots: Vec<Option<Entry<T>>>,
    free: Vec<u32>,
    /// Open addressing with linear probing; an element is `hash << 32 | number + 1`, and zero is a gap.
    ///
    /// A key that is removed leaves its element behind: far apart in memory as elements are, taking it out would cost as
    /// much as all else that is done with a key. An outdated element is told by its number, which is free or belongs to
    /// a key with another hash.
    ///
    /// Invariant: a power of two long (or empty), at least a quarter of it gaps, no gap between an element and the place
    /// its hash points to, and at most one outdated element for each hash that is not in use.
    index: Vec<u64>,
    /// How many elements are not gaps.
    used: usize,
    live: usize,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), index: Vec::new(), used: 0, live: 0 }
    }
}

impl<T: Eq> Table<T> {
    /// The number of `key`, if it is known.
    #[inline]
    pub(crate) fn find(&self, hash: u32, key: &T) -> Option<u32> {
        if self.index.is_empty() {
            return None;
        }
        let mut at = hash as usize & self.mask();
        loop {
            let element = self.index[at];
            if element == 0 {
                return None;
            }
            if (element >> 32) as u32 == hash {
                let number = element as u32 - 1;
                if self.get(number).is_some_and(|entry| entry.hash == hash && entry.key == *key) {
                    return Some(number);
                }
            }
            at = (at + 1) & self.mask();
        }
    }
}

impl<T> Table<T> {
    /// Gives a number to `key`, which must not be known yet.
    pub(crate) fn insert(&mut self, hash: u32, key: T) -> u32 {
        if (self.used + 1) * 4 > self.index.len() * 3 {
            self.rebuild_index();
        }
        let entry = Entry { key, hash, priority: i32::MIN, status: Status::Idle, since: 0, deadline: NEVER, place: 0 };
        let number = match self.free.pop() {
            Some(number) => {
                self.slots[number as usize] = Some(entry);
                number
            }
            None => {
                let number = u32::try_from(self.slots.len()).ok().filter(|&n| n < u32::MAX);
                self.slots.push(Some(entry));
                number.expect("four thousand million keys do not fit into memory")
            }
        };
        self.live += 1;
        self.link(hash, number);
        number
    }

    /// Forgets the key with this number and returns it, for its owner to drop outside of the lock.
    pub(crate) fn remove(&mut self, number: u32) -> T {
        let entry = self.slots[number as usize].take().expect("a number is valid until its removal");
        self.free.push(number);
        self.live -= 1;
        if self.live == 0 && self.slots.len() > KEPT_SLOTS {
            *self = Self::default();
        }
        entry.key
    }

    /// The entry with this number, if the number is in use.
    pub(crate) fn get(&self, number: u32) -> Option<&Entry<T>> {
        self.slots.get(number as usize)?.as_ref()
    }

    /// Every entry with its number.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (u32, &Entry<T>)> {
        self.slots.iter().enumerate().filter_map(|(number, slot)| Some((number as u32, slot.as_ref()?)))
    }

    fn mask(&self) -> usize {
        self.index.len() - 1
    }

    /// Writes an element into the first gap, or over an outdated element of the same hash.
    fn link(&mut self, hash: u32, number: u32) {
        let mut at = hash as usize & self.mask();
        loop {
            let element = self.index[at];
            if element == 0 {
                self.used += 1;
                break;
            }
            if (element >> 32) as u32 == hash {
                let other = element as u32 - 1;
                if other == number || self.get(other).is_none_or(|entry| entry.hash != hash) {
                    break;
                }
            }
            at = (at + 1) & self.mask();
        }
        self.index[at] = u64::from(hash) << 32 | u64::from(number + 1);
    }

    /// Leaves outdated elements out, and makes room for as many keys again: as are known, and as there are places to go
    /// through here, so that going through them is paid for by the keys that come until the next time.
    fn rebuild_index(&mut self) {
        let len = (self.live * 8 / 3 + 1).max(self.slots.len() * 2).next_power_of_two().max(16);
        self.index.clear();
        self.index.resize(len, 0);
        self.index.shrink_to(len);
        self.used = 0;
        for number in 0..self.slots.len() as u32 {
            if let Some(hash) = self.get(number).map(|entry| entry.hash) {
                self.link(hash, number);
            }
        }
    }
}

impl<T> std::ops::Index<u32> for Table<T> {
    type Output = Entry<T>;

    fn index(&self, number: u32) -> &Entry<T> {
        self.slots[number as usize].as_ref().expect("a number is valid until its removal")
    }
}

impl<T> std::ops::IndexMut<u32> for Table<T> {
    fn index_mut(&mut self, number: u32) -> &mut Entry<T> {
        self.slots[number as usize].as_mut().expect("a number is valid until its removal")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::{collection::vec, prelude::*};

    use super::*;

    proptest! {
        #[test]
        fn the_table_agrees_with_a_map(mix in 1..=5u32, steps in vec((any::<bool>(), 0..60u32), 0..400)) {
            let mut table = Table::default();
            let mut model: BTreeMap<u32, u32> = BTreeMap::new();
            // Few hashes, far apart ones as well, so that runs collide and wrap around the end.
            let hash = |key: u32| (key % (mix * 3)).wrapping_mul(0x9fff_ffff);
            for (insert, key) in steps {
                match model.get(&key) {
                    None if insert => {
                        model.insert(key, table.insert(hash(key), key));
                    }
                    Some(&number) if !insert => {
                        prop_assert_eq!(table.remove(number), key);
                        model.remove(&key);
                    }
                    _ => {}
                }
                for key in 0..60 {
                    prop_assert_eq!(table.find(hash(key), &key), model.get(&key).copied());
                }
            }
        }
    }

    // WQ-13
    #[test]
    fn a_removed_key_leaves_nothing_behind() {
        let mut table = Table::default();
        let key = std::sync::Arc::new(7);
        let number = table.insert(7, key.clone());
        drop(table.remove(number));
        assert_eq!(std::sync::Arc::strong_count(&key), 1);
    }

    #[test]
    fn a_table_that_was_large_gives_its_memory_back() {
        let mut table = Table::default();
        let numbers: Vec<u32> = (0..10_000).map(|key| table.insert(key, key)).collect();
        for number in numbers {
            table.remove(number);
        }
        assert_eq!((table.slots.capacity(), table.index.capacity(), table.free.capacity()), (0, 0, 0));
    }
}
