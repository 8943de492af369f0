//! Stores every key once, under a number that is stable while the key is present.
//!
//! `state` maintains the status in an entry; this module only finds, numbers and removes. A map
//! plus a queue of keys would store and hash each key several times. Here a key is hashed once,
//! outside of the lock, and everything else refers to its number. Entries are small because a
//! million keys may be pending: fields that only some queues need are in [`KeyDetails`], a separate
//! vector that the other queues do not allocate.

use hashbrown::HashTable;

/// Sentinel for "no deadline" in [`KeyEntry::deadline`].
pub(crate) const NEVER: u64 = u64::MAX;

/// Sentinel: no free entry.
const NO_NUMBER: u32 = u32::MAX;

/// Tables up to this size keep their memory when the last key is removed.
const RETAINED_SLOTS: usize = 4096;

/// State of a key between its first add and its removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// Neither queued nor being processed; present because of its deadline.
    Idle,
    /// Waiting for a worker.
    Queued,
    /// Claimed by a worker.
    Processing,
    /// Claimed by a worker, and added again since.
    ProcessingDirty,
}

/// One key and its state. Times are nanoseconds since the queue was created.
#[derive(Debug)]
pub(crate) struct KeyEntry<T> {
    /// `None` in a free entry.
    key: Option<T>,
    /// When a delayed add is due, or [`NEVER`].
    pub(crate) deadline: u64,
    hash: u32,
    /// The status in the two low bits, the place above; in a free entry, the number of the next
    /// free entry.
    mark: u32,
}

impl<T> KeyEntry<T> {
    pub(crate) fn key(&self) -> &T {
        self.key.as_ref().expect("a number is valid until its removal")
    }

    /// Whether the key needs (another) processing. The statuses are numbered such that the lowest
    /// bit is this flag.
    pub(crate) fn is_dirty(&self) -> bool {
        self.mark & 1 == 1
    }

    pub(crate) fn status(&self) -> Status {
        match self.mark & 3 {
            0 => Status::Idle,
            1 => Status::Queued,
            2 => Status::Processing,
            _ => Status::ProcessingDirty,
        }
    }

    /// While processing: the index in the list of running claims.
    pub(crate) fn place(&self) -> usize {
        (self.mark >> 2) as usize
    }

    /// Sets the status; keeps the place.
    pub(crate) fn set_status(&mut self, status: Status) {
        self.mark = self.mark & !3 | status as u32;
    }

    /// Sets the place; keeps the status.
    pub(crate) fn set_place(&mut self, place: usize) {
        let place = u32::try_from(place).ok().filter(|&place| place < 1 << 30);
        self.mark = place.expect("2^30 claims do not fit into memory") << 2 | self.mark & 3;
    }
}

/// Fields of a key in queues with priorities, groups, metrics or a name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyDetails {
    /// When the key was first added since it was last taken; valid while dirty.
    pub(crate) since: u64,
    pub(crate) priority: i32,
    /// While queued: a sequence number.
    ///
    /// 32 bits wide to keep details small. After the counter wraps, two keys of equal rank on
    /// either side of the wrap swap their order.
    pub(crate) arrival: u32,
}

impl KeyDetails {
    const NEW: Self = Self { since: 0, priority: i32::MIN, arrival: 0 };
}

/// All keys, by number and by value.
#[derive(Debug)]
pub(crate) struct KeyTable<T> {
    entries: Vec<KeyEntry<T>>,
    /// Head of the free list, or [`NO_NUMBER`]; each free entry holds the number of the next one.
    free: u32,
    /// As long as `entries`, if details are recorded.
    details: Option<Vec<KeyDetails>>,
    /// Invariant: contains the numbers of all entries that have a key, by the hash of the key.
    numbers: HashTable<u32>,
}

impl<T: Eq> KeyTable<T> {
    /// The number of `key`, if present.
    pub(crate) fn find(&self, hash: u32, key: &T) -> Option<u32> {
        let is_it = |number: &u32| {
            let entry = &self.entries[*number as usize];
            entry.hash == hash && entry.key.as_ref() == Some(key)
        };
        self.numbers.find(spread(hash), is_it).copied()
    }
}

impl<T> KeyTable<T> {
    pub(crate) fn new(has_details: bool) -> Self {
        let details = has_details.then(Vec::new);
        Self { entries: Vec::new(), free: NO_NUMBER, details, numbers: HashTable::new() }
    }

    /// Assigns a number to `key`, which must be absent.
    pub(crate) fn insert(&mut self, hash: u32, key: T) -> u32 {
        let entry = KeyEntry { key: Some(key), deadline: NEVER, hash, mark: Status::Idle as u32 };
        let number = match self.entries.get_mut(self.free as usize) {
            Some(free) => {
                let number = std::mem::replace(&mut self.free, free.mark);
                *free = entry;
                if let Some(details) = &mut self.details {
                    details[number as usize] = KeyDetails::NEW;
                }
                number
            }
            None => self.append(entry),
        };
        self.numbers.insert_unique(spread(hash), number, |number| spread(self.entries[*number as usize].hash));
        number
    }

    fn append(&mut self, entry: KeyEntry<T>) -> u32 {
        let number = u32::try_from(self.entries.len()).ok().filter(|&number| number < NO_NUMBER);
        self.entries.push(entry);
        if let Some(details) = &mut self.details {
            details.push(KeyDetails::NEW);
        }
        number.expect("2^32 keys do not fit into memory")
    }

    /// Removes the key with this number and returns it, so that the caller can drop it after
    /// unlocking.
    pub(crate) fn remove(&mut self, number: u32) -> T {
        let entry = &mut self.entries[number as usize];
        let key = entry.key.take().expect("a number is valid until its removal");
        entry.mark = std::mem::replace(&mut self.free, number);
        if let Ok(known) = self.numbers.find_entry(spread(entry.hash), |known| *known == number) {
            known.remove();
        }
        if self.numbers.is_empty() && self.entries.len() > RETAINED_SLOTS {
            *self = Self::new(self.details.is_some());
        }
        key
    }

    /// The entry with this number, if the number is in use.
    pub(crate) fn get(&self, number: u32) -> Option<&KeyEntry<T>> {
        self.entries.get(number as usize).filter(|entry| entry.key.is_some())
    }

    /// Whether details are recorded.
    pub(crate) fn has_details(&self) -> bool {
        self.details.is_some()
    }

    /// The details of the key with this number, if recorded.
    pub(crate) fn details(&self, number: u32) -> Option<&KeyDetails> {
        self.details.as_ref().map(|details| &details[number as usize])
    }

    pub(crate) fn details_mut(&mut self, number: u32) -> Option<&mut KeyDetails> {
        self.details.as_mut().map(|details| &mut details[number as usize])
    }

    /// All entries with their numbers.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (u32, &KeyEntry<T>)> {
        (0u32..).zip(&self.entries).filter(|(_, entry)| entry.key.is_some())
    }
}

/// A 64-bit hash for `HashTable`, which uses bits of both ends.
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

impl<T> std::ops::Index<u32> for KeyTable<T> {
    type Output = KeyEntry<T>;

    fn index(&self, number: u32) -> &KeyEntry<T> {
        &self.entries[number as usize]
    }
}

impl<T> std::ops::IndexMut<u32> for KeyTable<T> {
    fn index_mut(&mut self, number: u32) -> &mut KeyEntry<T> {
        &mut self.entries[number as usize]
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
            let mut table = KeyTable::new(false);
            let mut model: BTreeMap<u32, u32> = BTreeMap::new();
            // Few distinct hashes, to provoke collisions.
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
    fn a_removed_key_leaves_no_state() {
        let mut table = KeyTable::new(false);
        let key = std::sync::Arc::new(7);
        let number = table.insert(7, key.clone());
        drop(table.remove(number));
        assert_eq!(std::sync::Arc::strong_count(&key), 1);
    }

    #[test]
    fn a_table_that_was_large_gives_its_memory_back() {
        let mut table = KeyTable::new(false);
        let numbers: Vec<u32> = (0..10_000).map(|key| table.insert(key, key)).collect();
        for number in numbers {
            table.remove(number);
        }
        assert_eq!((table.entries.capacity(), table.numbers.capacity()), (0, 0));
    }
}
