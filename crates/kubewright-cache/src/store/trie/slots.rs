//! What a leaf holds: a small table in which each entry lies near the place that its hash asks for.
//!
//! Entries and their hashes lie together, so that a look-up reads one line of memory or two, however many entries there
//! are. Whoever is pushed out of a place takes the next one that is free; an entry that leaves makes the others close up.

use std::hint::black_box;
use std::sync::Arc;

/// What a trie can hold.
pub(in crate::store) trait Element: Clone {
    /// Begins to read what a clone will write. Several such reads wait for memory at once, several clones one after another.
    fn touch(&self);
}

impl<T> Element for Arc<T> {
    fn touch(&self) {
        black_box(Arc::strong_count(self));
    }
}

#[derive(Clone)]
pub(super) struct Entry<E> {
    pub(super) hash: u64,
    pub(super) value: E,
}

/// Invariant: between the place an entry's hash asks for and where it lies, no slot is vacant.
pub(super) struct Slots<E>(Arc<[Option<Entry<E>>]>);

impl<E> Clone for Slots<E> {
    fn clone(&self) -> Self {
        Slots(self.0.clone())
    }
}

/// How many slots so many entries are given: a quarter is vacant.
fn room(entries: usize) -> usize {
    if entries <= 2 { entries } else { (entries * 4).div_ceil(3).next_multiple_of(2) }
}

/// The slot that a hash asks for; by the upper bits, since branches have used the lower ones.
fn home(hash: u64, slots: usize) -> usize {
    (((hash >> 32) * slots as u64) >> 32) as usize
}

impl<E> Slots<E> {
    /// With vacant slots for some more than `entries`.
    pub(super) fn for_entries(entries: usize) -> Self {
        Slots((0..room(entries)).map(|_| None).collect())
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, Option<Entry<E>>> {
        self.0.iter()
    }

    /// Where the entry of this hash lies that `is_it` recognises.
    pub(super) fn find(&self, hash: u64, is_it: impl Fn(&E) -> bool) -> Option<usize> {
        let (before, from) = self.0.split_at(home(hash, self.0.len()));
        for (at, slot) in from.iter().enumerate() {
            let entry = slot.as_ref()?;
            if entry.hash == hash && is_it(&entry.value) {
                return Some(before.len() + at);
            }
        }
        for (at, slot) in before.iter().enumerate() {
            let entry = slot.as_ref()?;
            if entry.hash == hash && is_it(&entry.value) {
                return Some(at);
            }
        }
        None
    }

    /// The entry at a place that [`find`](Self::find) gave.
    pub(super) fn at(&self, at: usize) -> Option<&E> {
        self.0[at].as_ref().map(|entry| &entry.value)
    }

    /// Whether one more than `entries` would make look-ups long.
    pub(super) fn is_full(&self, entries: usize) -> bool {
        let slots = self.0.len();
        entries == slots || slots > 4 && (entries + 1) * 10 > slots * 9
    }

    /// Whether `entries` leave more than half of the slots vacant.
    pub(super) fn is_sparse(&self, entries: usize) -> bool {
        self.0.len() > 4 && entries * 2 < self.0.len()
    }
}

impl<E: Element> Slots<E> {
    /// All slots to be changed, copied if somebody else holds them as well.
    fn own(&mut self) -> &mut [Option<Entry<E>>] {
        if Arc::get_mut(&mut self.0).is_none() {
            self.0.iter().flatten().for_each(|entry| entry.value.touch());
        }
        Arc::make_mut(&mut self.0)
    }

    pub(super) fn at_mut(&mut self, at: usize) -> Option<&mut E> {
        self.own()[at].as_mut().map(|entry| &mut entry.value)
    }

    /// Adds an entry; there must be a vacant slot.
    pub(super) fn add(&mut self, entry: Entry<E>) {
        let slots = self.own();
        let mut at = home(entry.hash, slots.len());
        while slots[at].is_some() {
            at = following(at, slots.len());
        }
        slots[at] = Some(entry);
    }

    /// Takes the entry out that lies at a place, and moves those up that wanted to be nearer.
    pub(super) fn take(&mut self, at: usize) -> Option<E> {
        let slots = self.own();
        let taken = slots[at].take();
        let (mut vacant, mut next) = (at, following(at, slots.len()));
        let way = |from: usize, to: usize, slots: usize| if to >= from { to - from } else { to + slots - from };
        while let Some(entry) = &slots[next] {
            let count = slots.len();
            if way(home(entry.hash, count), next, count) >= way(vacant, next, count) {
                slots.swap(vacant, next);
                vacant = next;
            }
            next = following(next, count);
        }
        taken.map(|entry| entry.value)
    }

    /// All entries; moved if nobody else holds them, otherwise copied.
    pub(super) fn into_entries(mut self) -> Vec<Entry<E>> {
        match Arc::get_mut(&mut self.0) {
            Some(slots) => slots.iter_mut().filter_map(Option::take).collect(),
            None => self.0.iter().flatten().cloned().collect(),
        }
    }

    /// The same entries, and vacant slots as `entries` of them should have.
    pub(super) fn resize(&mut self, entries: usize) {
        let before = std::mem::replace(self, Slots::for_entries(entries));
        before.into_entries().into_iter().for_each(|entry| self.add(entry));
    }
}

fn following(at: usize, slots: usize) -> usize {
    if at + 1 == slots { 0 } else { at + 1 }
}
