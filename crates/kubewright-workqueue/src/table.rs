//! Holds every key the queue knows once, under a number that stays while the key is known.
//!
//! What a key is waiting for is written in its entry by `state`; this module only finds, numbers and forgets. It exists
//! because a map beside a line of keys would store and hash each key several times: here a key is hashed when it is
//! added, outside of the lock, and all else goes by number. A million keys may wait, so an entry is small: what only some
//! queues need is kept in [`Details`], beside the entries and not at all in the other queues.

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
    /// `None` in an entry that is free.
    key: Option<T>,
    /// When a delayed add falls due, or [`NEVER`].
    pub(crate) deadline: u64,
    hash: u32,
    /// The status in the lowest two bits, the place above it; in an entry that is free, the number of the next such.
    mark: u32,
}

impl<T> Entry<T> {
    pub(crate) fn key(&self) -> &T {
        self.key.as_ref().expect("a number is valid until its removal")
    }

    /// Whether the key is to be processed (again): the statuses are numbered so that one bit tells.
    #[inline]
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

    /// While processing: the index in the list of work under way.
    pub(crate) fn place(&self) -> usize {
        (self.mark >> 2) as usize
    }

    /// Changes the status; the place stays.
    pub(crate) fn set_status(&mut self, status: Status) {
        self.mark = self.mark & !3 | status as u32;
    }

    /// Changes the place; the status stays.
    pub(crate) fn set_place(&mut self, place: usize) {
        let place = u32::try_from(place).ok().filter(|&place| place < 1 << 30);
        self.mark = place.expect("a thousand million claims do not fit into memory") << 2 | self.mark & 3;
    }
}

/// What queues know about a key whose order depends on more than arrival, or that people watch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Details {
    /// When the key was first added since it was last handed out; meaningful while dirty.
    pub(crate) since: u64,
    pub(crate) priority: i32,
    /// While queued: how many came into line before it.
    ///
    /// Half a word, because a million keys may wait: after four thousand million arrivals the count starts anew, and two
    /// keys of equal rank that stand on either side of that moment change places.
    pub(crate) arrival: u32,
}

impl Details {
    const NEW: Self = Self { since: 0, priority: i32::MIN, arrival: 0 };
}

/// Every known key, by number and by value.
#[derive(Debug)]
pub(crate) struct Table<T> {
    entries: Vec<Entry<T>>,
    /// The first number that is free, if not as many as there are entries; each such entry names the next.
    free: u32,
    /// As long as `entries`, if details are kept.
    details: Option<Vec<Details>>,
    /// Open addressing with linear probing. An element is the hash of a key, with its number plus one instead of as many
    /// low bits as the length of the index has: those are told by the place. Zero is a gap.
    ///
    /// A key that is removed leaves its element behind: far apart in memory as elements are, taking it out would cost as
    /// much as all else that is done with a key. An outdated element is told by its number, which is free or belongs to
    /// a key with another hash. If the high bits of that one happen to be the same it stays, and leads to a key that has
    /// an element of its own; whoever looks compares keys.
    ///
    /// Invariant: a power of two long (or empty), longer than `entries`, at least a quarter of it gaps, and no gap between
    /// an element and the place its hash points to.
    index: Vec<u32>,
    /// How many gaps may still be filled.
    room: usize,
    live: usize,
}

/// Stands for "none" among free numbers.
const NO_NUMBER: u32 = u32::MAX;

/// Where the index has room for a key that is not known; valid until the table changes.
pub(crate) struct Vacancy(usize);

impl<T: Eq> Table<T> {
    /// The number of `key`, if it is known.
    pub(crate) fn find(&self, hash: u32, key: &T) -> Option<u32> {
        if self.index.is_empty() { None } else { self.probe(hash, key).ok() }
    }

    /// The number of `key`, or where to insert it.
    #[inline]
    pub(crate) fn find_or_vacancy(&mut self, hash: u32, key: &T) -> Result<u32, Vacancy> {
        if self.room == 0 {
            self.rebuild_index();
        }
        self.probe(hash, key)
    }

    #[inline]
    fn probe(&self, hash: u32, key: &T) -> Result<u32, Vacancy> {
        let mask = self.mask();
        let mut at = (hash & mask) as usize;
        let mut outdated = usize::MAX;
        loop {
            let element = self.index[at];
            if element == 0 {
                return Err(Vacancy(if outdated == usize::MAX { at } else { outdated }));
            }
            if (element ^ hash) & !mask == 0 {
                let number = (element & mask) - 1;
                match self.get(number) {
                    Some(entry) if entry.hash == hash && entry.key() == key => return Ok(number),
                    Some(entry) if (entry.hash ^ hash) & !mask == 0 => {}
                    // To be overwritten if the key is not known, which only the rest of the run can tell.
                    _ => outdated = at,
                }
            }
            at = (at + 1) & mask as usize;
        }
    }
}

impl<T> Table<T> {
    pub(crate) fn new(has_details: bool) -> Self {
        let details = has_details.then(Vec::new);
        Self { entries: Vec::new(), free: NO_NUMBER, details, index: Vec::new(), room: 0, live: 0 }
    }

    /// Gives a number to `key`, for which `vacancy` was found.
    #[inline]
    pub(crate) fn insert(&mut self, Vacancy(at): Vacancy, hash: u32, key: T) -> u32 {
        let entry = Entry { key: Some(key), deadline: NEVER, hash, mark: Status::Idle as u32 };
        let number = match self.entries.get_mut(self.free as usize) {
            Some(free) => {
                let number = std::mem::replace(&mut self.free, free.mark);
                *free = entry;
                if let Some(details) = &mut self.details {
                    details[number as usize] = Details::NEW;
                }
                number
            }
            None => self.append(entry),
        };
        self.live += 1;
        self.room -= usize::from(self.index[at] == 0);
        self.index[at] = element(hash, number, self.mask());
        number
    }

    #[cold]
    fn append(&mut self, entry: Entry<T>) -> u32 {
        let number = u32::try_from(self.entries.len()).ok().filter(|&number| number < NO_NUMBER);
        self.entries.push(entry);
        if let Some(details) = &mut self.details {
            details.push(Details::NEW);
        }
        number.expect("four thousand million keys do not fit into memory")
    }

    /// Forgets the key with this number and returns it, for its owner to drop outside of the lock.
    #[inline]
    pub(crate) fn remove(&mut self, number: u32) -> T {
        let entry = &mut self.entries[number as usize];
        let key = entry.key.take().expect("a number is valid until its removal");
        entry.mark = std::mem::replace(&mut self.free, number);
        self.live -= 1;
        if self.live == 0 && self.entries.len() > KEPT_SLOTS {
            *self = Self::new(self.details.is_some());
        }
        key
    }

    /// The entry with this number, if the number is in use.
    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&Entry<T>> {
        self.entries.get(number as usize).filter(|entry| entry.key.is_some())
    }

    /// Whether details are kept.
    pub(crate) fn has_details(&self) -> bool {
        self.details.is_some()
    }

    /// What is known besides about the key with this number, if details are kept.
    #[inline]
    pub(crate) fn details(&self, number: u32) -> Option<&Details> {
        self.details.as_ref().map(|details| &details[number as usize])
    }

    #[inline]
    pub(crate) fn details_mut(&mut self, number: u32) -> Option<&mut Details> {
        self.details.as_mut().map(|details| &mut details[number as usize])
    }

    /// Every entry with its number.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (u32, &Entry<T>)> {
        (0u32..).zip(&self.entries).filter(|(_, entry)| entry.key.is_some())
    }

    #[inline]
    fn mask(&self) -> u32 {
        (self.index.len() - 1) as u32
    }

    /// Leaves outdated elements out, and makes room for as many keys again: as are known, and as there are places to go
    /// through here, so that going through them is paid for by the keys that come until the next time.
    #[cold]
    fn rebuild_index(&mut self) {
        let len = (self.live * 8 / 3).max(self.entries.len() * 2).next_power_of_two().max(16);
        assert!(len <= 1 << 31, "a thousand million keys do not fit into memory");
        self.index.clear();
        self.index.resize(len, 0);
        self.index.shrink_to(len);
        self.room = len / 4 * 3 - self.live;
        let mask = self.mask();
        for (number, entry) in (0u32..).zip(&self.entries).filter(|(_, entry)| entry.key.is_some()) {
            let mut at = (entry.hash & mask) as usize;
            while self.index[at] != 0 {
                at = (at + 1) & mask as usize;
            }
            self.index[at] = element(entry.hash, number, mask);
        }
    }
}

fn element(hash: u32, number: u32, mask: u32) -> u32 {
    hash & !mask | (number + 1)
}

impl<T> std::ops::Index<u32> for Table<T> {
    type Output = Entry<T>;

    fn index(&self, number: u32) -> &Entry<T> {
        &self.entries[number as usize]
    }
}

impl<T> std::ops::IndexMut<u32> for Table<T> {
    fn index_mut(&mut self, number: u32) -> &mut Entry<T> {
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
            let mut table = Table::new(false);
            let mut model: BTreeMap<u32, u32> = BTreeMap::new();
            // Few hashes, far apart ones as well, so that runs collide and wrap around the end.
            let hash = |key: u32| (key % (mix * 3)).wrapping_mul(0x9fff_ffff);
            for (insert, key) in steps {
                match model.get(&key) {
                    None if insert => {
                        let vacancy = table.find_or_vacancy(hash(key), &key).err().unwrap();
                        model.insert(key, table.insert(vacancy, hash(key), key));
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
        let mut table = Table::new(false);
        let key = std::sync::Arc::new(7);
        let vacancy = table.find_or_vacancy(7, &key).err().unwrap();
        let number = table.insert(vacancy, 7, key.clone());
        drop(table.remove(number));
        assert_eq!(std::sync::Arc::strong_count(&key), 1);
    }

    #[test]
    fn a_table_that_was_large_gives_its_memory_back() {
        let mut table = Table::new(false);
        let numbers: Vec<u32> = (0..10_000)
            .map(|key| {
                let vacancy = table.find_or_vacancy(key, &key).err().unwrap();
                table.insert(vacancy, key, key)
            })
            .collect();
        for number in numbers {
            table.remove(number);
        }
        assert_eq!((table.entries.capacity(), table.index.capacity()), (0, 0));
    }
}
