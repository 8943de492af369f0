//! What a leaf holds: a small table in which each entry lies in the group of places that its hash asks for.
//!
//! A byte of each hash of a group lies in one word, and all are compared at once, without a branch: a processor that need not
//! guess where an entry lies begins with the next look-up while it waits for this one. So fewer instructions are more look-ups
//! that wait for memory at the same time. Whoever finds his group full goes to the next one that is not.

use std::sync::Arc;

/// Places of a group: seven small entries, their hashes and tags are one line of memory.
const PLACES: usize = 7;

#[derive(Clone)]
pub(super) struct Entry<E> {
    pub(super) hash: u32,
    pub(super) value: E,
}

/// Places that are compared at once.
#[derive(Clone)]
#[repr(align(64))]
pub(super) struct Group<E> {
    /// A part of each hash, zero where the place is vacant. The eighth stays zero.
    tags: [u8; 8],
    hashes: [u32; PLACES],
    values: [Option<E>; PLACES],
}

/// What a tag has of a hash: bits in the middle, since branches use the lower ones and `home` the upper ones.
#[inline]
fn tag(hash: u32) -> u8 {
    ((hash >> 14) as u8).max(1)
}

const ONES: u64 = 0x0101_0101_0101_0101;

/// The upper bit of each byte that is zero, of the first seven. Above such a byte there may be a bit for one that is not.
#[inline]
fn zeros(bytes: u64) -> u64 {
    bytes.wrapping_sub(ONES) & !bytes & 0x0080_8080_8080_8080
}

/// The place of the lowest bit of `zeros`.
#[inline]
fn lowest(zeros: u64) -> usize {
    zeros.trailing_zeros() as usize / 8
}

impl<E> Group<E> {
    fn vacant() -> Self {
        Group { tags: [0; 8], hashes: [0; PLACES], values: [const { None }; PLACES] }
    }

    /// Bits as of `zeros` for the places that may have this hash.
    #[inline]
    fn candidates(&self, hash: u32) -> u64 {
        zeros(u64::from_le_bytes(self.tags) ^ (u64::from(tag(hash)) * ONES))
    }

    #[inline]
    fn vacancy(&self) -> Option<usize> {
        let vacant = zeros(u64::from_le_bytes(self.tags));
        (vacant != 0).then(|| lowest(vacant))
    }

    fn set(&mut self, place: usize, entry: Entry<E>) {
        self.tags[place] = tag(entry.hash);
        self.hashes[place] = entry.hash;
        self.values[place] = Some(entry.value);
    }

    /// Takes an entry out.
    fn take(&mut self, place: usize) -> Option<Entry<E>> {
        self.tags[place] = 0;
        self.values[place].take().map(|value| Entry { hash: self.hashes[place], value })
    }

    /// The values of all entries.
    pub(super) fn values(&self) -> std::slice::Iter<'_, Option<E>> {
        self.values.iter()
    }

    /// All entries, taken out.
    fn drain(&mut self) -> impl Iterator<Item = Entry<E>> {
        (0..PLACES).filter_map(|place| self.take(place))
    }
}

/// Invariant: between the group an entry's hash asks for and the one it lies in, no place is vacant.
pub(super) struct Leaf<E>(Arc<[Group<E>]>);

impl<E> Clone for Leaf<E> {
    fn clone(&self) -> Self {
        Leaf(self.0.clone())
    }
}

/// How many groups so many entries are given: half of the places are vacant, so that few entries lie behind their group and a
/// processor guesses right.
fn room(entries: usize) -> usize {
    match entries {
        0..=PLACES => entries.min(1),
        _ => (entries * 2).div_ceil(PLACES),
    }
}

/// The group that a hash asks for; by the upper bits, since branches have used the lower ones.
#[inline]
fn home(hash: u32, groups: usize) -> usize {
    ((u64::from(hash) * groups as u64) >> 32) as usize
}

/// The group after another.
#[inline]
fn following(group: usize, groups: usize) -> usize {
    if group + 1 == groups { 0 } else { group + 1 }
}

/// Where an entry lies: its group, and the place in it.
#[derive(Clone, Copy)]
pub(super) struct At(usize, usize);

impl<E> Leaf<E> {
    /// With vacant places for some more than `entries`.
    pub(super) fn for_entries(entries: usize) -> Self {
        Leaf((0..room(entries)).map(|_| Group::vacant()).collect())
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, Group<E>> {
        self.0.iter()
    }

    /// The first entry of this hash.
    #[inline]
    pub(super) fn first(&self, hash: u32) -> Option<&E> {
        let home = home(hash, self.0.len());
        let group = self.0.get(home)?;
        let candidate = lowest(group.candidates(hash));
        match group.hashes.get(candidate) {
            Some(other)
                if *other == hash
                    && let Some(value) = &group.values[candidate] =>
            {
                Some(value)
            }
            _ => self.find(hash, Some).map(|(_, value)| value),
        }
    }

    /// Where the entry of this hash lies of which `look` makes something, and what.
    pub(super) fn find<'a, R>(&'a self, hash: u32, mut look: impl FnMut(&'a E) -> Option<R>) -> Option<(At, R)> {
        let home = home(hash, self.0.len());
        let mut at = home;
        loop {
            let group = self.0.get(at)?;
            let mut candidates = group.candidates(hash);
            while candidates != 0 {
                let place = lowest(candidates);
                if group.hashes[place] == hash
                    && let Some(found) = group.values[place].as_ref().and_then(&mut look)
                {
                    return Some((At(at, place), found));
                }
                candidates &= candidates - 1;
            }
            at = following(at, self.0.len());
            if at == home || group.vacancy().is_some() {
                return None;
            }
        }
    }

    /// Whether one more than `entries` would make look-ups long.
    pub(super) fn is_full(&self, entries: usize) -> bool {
        let places = self.0.len() * PLACES;
        entries == places || places > PLACES && (entries + 1) * 10 > places * 7
    }

    /// Whether half of the groups would do for `entries`.
    fn is_sparse(&self, entries: usize) -> bool {
        room(entries) * 2 <= self.0.len()
    }
}

impl<E: Clone> Leaf<E> {
    pub(super) fn at_mut(&mut self, At(group, place): At) -> Option<&mut E> {
        Arc::make_mut(&mut self.0)[group].values[place].as_mut()
    }

    /// Adds an entry; there must be a vacant place.
    pub(super) fn add(&mut self, entry: Entry<E>) {
        let groups = Arc::make_mut(&mut self.0);
        let mut at = home(entry.hash, groups.len());
        loop {
            if let Some(place) = groups[at].vacancy() {
                return groups[at].set(place, entry);
            }
            at = following(at, groups.len());
        }
    }

    /// Takes the entry out that lies at a place; `entries` are left.
    pub(super) fn take(&mut self, at: At, entries: usize) -> Option<E> {
        let taken = Arc::make_mut(&mut self.0)[at.0].take(at.1);
        if self.is_sparse(entries) {
            self.resize(entries);
        } else {
            self.close(at);
        }
        taken.map(|entry| entry.value)
    }

    /// Moves back who passed by the group of a place, which was full and has become vacant, and would not be found behind it.
    fn close(&mut self, mut hole: At) {
        let groups = Arc::make_mut(&mut self.0);
        let count = groups.len();
        let distance = |from: usize, to: usize| (to + count - from) % count;
        let mut at = hole.0;
        // Nobody passes by a vacant place: behind a group that has one, besides the hole, there is nobody to be moved.
        while (0..PLACES).all(|place| groups[at].tags[place] != 0 || (at, place) == (hole.0, hole.1)) {
            at = following(at, count);
            if at == hole.0 {
                return;
            }
            // From home to here is as far as from the hole to here, or farther, for those who passed by the hole.
            let passed = |place: &usize| {
                groups[at].tags[*place] != 0
                    && distance(home(groups[at].hashes[*place], count), at) >= distance(hole.0, at)
            };
            if let Some(place) = (0..PLACES).find(passed)
                && let Some(entry) = groups[at].take(place)
            {
                groups[hole.0].set(hole.1, entry);
                hole = At(at, place);
            }
        }
    }

    /// All entries; moved if nobody else holds them, otherwise copied.
    pub(super) fn into_entries(mut self) -> Vec<Entry<E>> {
        match Arc::get_mut(&mut self.0) {
            Some(groups) => groups.iter_mut().flat_map(Group::drain).collect(),
            None => self.0.iter().cloned().flat_map(|mut group| group.drain().collect::<Vec<_>>()).collect(),
        }
    }

    /// The same entries, and vacant places as `entries` of them should have.
    pub(super) fn resize(&mut self, entries: usize) {
        let before = std::mem::replace(self, Leaf::for_entries(entries));
        before.into_entries().into_iter().for_each(|entry| self.add(entry));
    }
}
