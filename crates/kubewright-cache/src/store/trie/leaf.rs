//! What a leaf holds: a small table in which each entry lies in the group of places that its hash asks for.
//!
//! Entries and their hashes lie together, so that a look-up reads two lines of memory, however many entries there are, and
//! it compares a whole group without a branch: a processor that need not guess where an entry lies begins with the next
//! look-up while it waits for this one. Whoever finds his group full goes to the next one that is not.

use std::sync::Arc;

/// Places that are compared at once.
const GROUP: usize = 8;

#[derive(Clone)]
pub(super) struct Entry<E> {
    pub(super) hash: u32,
    pub(super) value: E,
}

/// A place for an entry.
#[derive(Clone)]
pub(super) struct Place<E> {
    /// Means nothing while the place is vacant.
    pub(super) hash: u32,
    pub(super) value: Option<E>,
}

impl<E> Place<E> {
    fn vacant() -> Self {
        Place { hash: 0, value: None }
    }

    /// The entry, taken out.
    fn take(&mut self) -> Option<Entry<E>> {
        self.value.take().map(|value| Entry { hash: self.hash, value })
    }
}

/// Invariant: between the group an entry's hash asks for and the one it lies in, no place is vacant. A table smaller than a
/// group is one group, larger ones have whole groups.
pub(super) struct Leaf<E>(Arc<[Place<E>]>);

impl<E> Clone for Leaf<E> {
    fn clone(&self) -> Self {
        Leaf(self.0.clone())
    }
}

/// How many places so many entries are given: about a quarter is vacant.
fn room(entries: usize) -> usize {
    match entries {
        0..=2 => entries,
        3..=4 => 4,
        5..=GROUP => GROUP,
        _ => (entries * 4).div_ceil(3).next_multiple_of(GROUP),
    }
}

/// The first place of the group that a hash asks for; by the upper bits, since branches have used the lower ones.
fn home(hash: u32, places: usize) -> usize {
    let groups = (places / GROUP).max(1) as u64;
    ((u64::from(hash) * groups) >> 32) as usize * GROUP
}

/// The group after the one that begins at `at`.
fn following(at: usize, places: usize) -> usize {
    if at + GROUP >= places { 0 } else { at + GROUP }
}

/// Bits for the places of a group that have this hash.
fn equal<E>(group: &[Place<E>], hash: u32) -> u32 {
    let bit = |(at, place): (usize, &Place<E>)| u32::from(place.hash == hash) << at;
    match group.first_chunk::<GROUP>() {
        // Its length is known, so there is no loop.
        Some(group) => group.iter().enumerate().map(bit).fold(0, |all, bit| all | bit),
        None => group.iter().enumerate().map(bit).fold(0, |all, bit| all | bit),
    }
}

impl<E> Leaf<E> {
    /// With vacant places for some more than `entries`.
    pub(super) fn for_entries(entries: usize) -> Self {
        Leaf((0..room(entries)).map(|_| Place::vacant()).collect())
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, Place<E>> {
        self.0.iter()
    }

    fn group(&self, at: usize) -> &[Place<E>] {
        &self.0[at..self.0.len().min(at + GROUP)]
    }

    /// Where the entry of this hash lies of which `look` makes something, and what.
    pub(super) fn find<'a, R>(&'a self, hash: u32, mut look: impl FnMut(&'a E) -> Option<R>) -> Option<(usize, R)> {
        let first = home(hash, self.0.len());
        let mut at = first;
        loop {
            let group = self.group(at);
            let mut candidates = equal(group, hash);
            while candidates != 0 {
                let candidate = candidates.trailing_zeros() as usize;
                if let Some(found) = group[candidate].value.as_ref().and_then(&mut look) {
                    return Some((at + candidate, found));
                }
                candidates &= candidates - 1;
            }
            at = following(at, self.0.len());
            if at == first || group.iter().any(|place| place.value.is_none()) {
                return None;
            }
        }
    }

    /// Whether one more than `entries` would make look-ups long.
    pub(super) fn is_full(&self, entries: usize) -> bool {
        let places = self.0.len();
        entries == places || places > GROUP && (entries + 1) * 10 > places * 9
    }

    /// Whether `entries` leave more than half of the places vacant.
    fn is_sparse(&self, entries: usize) -> bool {
        room(entries) * 2 <= self.0.len()
    }
}

impl<E: Clone> Leaf<E> {
    pub(super) fn at_mut(&mut self, at: usize) -> Option<&mut E> {
        Arc::make_mut(&mut self.0)[at].value.as_mut()
    }

    /// Adds an entry; there must be a vacant place.
    pub(super) fn add(&mut self, entry: Entry<E>) {
        let places = Arc::make_mut(&mut self.0);
        let mut at = home(entry.hash, places.len());
        loop {
            let end = places.len().min(at + GROUP);
            if let Some(place) = places[at..end].iter_mut().find(|place| place.value.is_none()) {
                *place = Place { hash: entry.hash, value: Some(entry.value) };
                return;
            }
            at = following(at, places.len());
        }
    }

    /// Takes the entry out that lies at a place; `entries` are left.
    pub(super) fn take(&mut self, at: usize, entries: usize) -> Option<E> {
        let taken = Arc::make_mut(&mut self.0)[at].take();
        if self.is_sparse(entries) {
            self.resize(entries);
        } else {
            self.close(at);
        }
        taken.map(|entry| entry.value)
    }

    /// Moves back who passed by the group of a place, which was full and has become vacant, and would not be found behind it.
    fn close(&mut self, mut vacant: usize) {
        let places = Arc::make_mut(&mut self.0);
        let groups = (places.len() / GROUP).max(1);
        let is_vacant = |places: &[Place<E>], group: usize, but: usize| {
            let from = group * GROUP;
            (from..places.len().min(from + GROUP)).any(|at| at != but && places[at].value.is_none())
        };
        let mut hole = vacant / GROUP;
        let mut group = hole;
        // Nobody passes by a vacant place: behind a group that has one, besides the hole, there is nobody to be moved.
        while !is_vacant(places, group, vacant) {
            group = (group + 1) % groups;
            if group == hole {
                return;
            }
            // From the hole to here is farther than from home to here for those who did not pass by the hole.
            let distance = (group + groups - hole) % groups;
            let passed = |place: &Place<E>| {
                let home = home(place.hash, groups * GROUP) / GROUP;
                place.value.is_some() && (group + groups - home) % groups >= distance
            };
            let from = group * GROUP;
            if let Some(at) = places[from..from + GROUP].iter().position(passed) {
                places.swap(vacant, from + at);
                (vacant, hole) = (from + at, group);
            }
        }
    }

    /// All entries; moved if nobody else holds them, otherwise copied.
    pub(super) fn into_entries(mut self) -> Vec<Entry<E>> {
        match Arc::get_mut(&mut self.0) {
            Some(places) => places.iter_mut().filter_map(Place::take).collect(),
            None => self.0.iter().cloned().filter_map(|mut place| place.take()).collect(),
        }
    }

    /// The same entries, and vacant places as `entries` of them should have.
    pub(super) fn resize(&mut self, entries: usize) {
        let before = std::mem::replace(self, Leaf::for_entries(entries));
        before.into_entries().into_iter().for_each(|entry| self.add(entry));
    }
}
