//! What a leaf holds: a small table in which each entry lies in the group of slots that its hash asks for.
//!
//! Entries and their hashes lie together, so that a look-up reads two lines of memory, however many entries there are, and
//! it compares a whole group without a branch: a processor that need not guess where an entry lies begins with the next
//! look-up while it waits for this one. Whoever finds his group full goes to the next one that is not.

use std::hint::black_box;
use std::sync::Arc;

/// Slots that are compared at once.
const GROUP: usize = 8;

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

/// A place for an entry.
#[derive(Clone)]
pub(super) struct Slot<E> {
    /// Means nothing while the slot is vacant.
    pub(super) hash: u64,
    pub(super) value: Option<E>,
}

impl<E> Slot<E> {
    fn vacant() -> Self {
        Slot { hash: 0, value: None }
    }

    /// The entry, taken out.
    fn take(&mut self) -> Option<Entry<E>> {
        self.value.take().map(|value| Entry { hash: self.hash, value })
    }
}

/// Invariant: between the group an entry's hash asks for and the one it lies in, no slot is vacant. A table smaller than a
/// group is one group, larger ones have whole groups.
pub(super) struct Slots<E>(Arc<[Slot<E>]>);

impl<E> Clone for Slots<E> {
    fn clone(&self) -> Self {
        Slots(self.0.clone())
    }
}

/// How many slots so many entries are given: about a quarter is vacant.
fn room(entries: usize) -> usize {
    match entries {
        0..=2 => entries,
        3..=4 => 4,
        5..=GROUP => GROUP,
        _ => (entries * 4).div_ceil(3).next_multiple_of(GROUP),
    }
}

/// The first slot of the group that a hash asks for; by the upper bits, since branches have used the lower ones.
fn home(hash: u64, slots: usize) -> usize {
    let groups = (slots / GROUP).max(1) as u64;
    (((hash >> 32) * groups) >> 32) as usize * GROUP
}

/// The group after the one that begins at `at`.
fn following(at: usize, slots: usize) -> usize {
    if at + GROUP >= slots { 0 } else { at + GROUP }
}

/// Bits for the slots of a group that have this hash.
fn equal<E>(group: &[Slot<E>], hash: u64) -> u32 {
    let bit = |(at, slot): (usize, &Slot<E>)| u32::from(slot.hash == hash) << at;
    match group.first_chunk::<GROUP>() {
        // Its length is known, so there is no loop.
        Some(group) => group.iter().enumerate().map(bit).fold(0, |all, bit| all | bit),
        None => group.iter().enumerate().map(bit).fold(0, |all, bit| all | bit),
    }
}

impl<E> Slots<E> {
    /// With vacant slots for some more than `entries`.
    pub(super) fn for_entries(entries: usize) -> Self {
        Slots((0..room(entries)).map(|_| Slot::vacant()).collect())
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, Slot<E>> {
        self.0.iter()
    }

    /// All entries, hash and value.
    pub(super) fn entries(&self) -> impl Iterator<Item = (u64, &E)> {
        self.0.iter().filter_map(|slot| Some((slot.hash, slot.value.as_ref()?)))
    }

    fn group(&self, at: usize) -> &[Slot<E>] {
        &self.0[at..self.0.len().min(at + GROUP)]
    }

    /// Where the entry of this hash lies that `is_it` recognises.
    pub(super) fn find(&self, hash: u64, is_it: impl Fn(&E) -> bool) -> Option<usize> {
        let first = home(hash, self.0.len());
        let mut at = first;
        loop {
            let group = self.group(at);
            let mut candidates = equal(group, hash);
            while candidates != 0 {
                let candidate = candidates.trailing_zeros() as usize;
                if group[candidate].value.as_ref().is_some_and(&is_it) {
                    return Some(at + candidate);
                }
                candidates &= candidates - 1;
            }
            at = following(at, self.0.len());
            if at == first || group.iter().any(|slot| slot.value.is_none()) {
                return None;
            }
        }
    }

    /// The entry at a place that [`find`](Self::find) gave.
    pub(super) fn at(&self, at: usize) -> Option<&E> {
        self.0[at].value.as_ref()
    }

    /// Whether one more than `entries` would make look-ups long.
    pub(super) fn is_full(&self, entries: usize) -> bool {
        let slots = self.0.len();
        entries == slots || slots > GROUP && (entries + 1) * 10 > slots * 9
    }

    /// Whether `entries` leave more than half of the slots vacant.
    pub(super) fn is_sparse(&self, entries: usize) -> bool {
        room(entries) * 2 <= self.0.len()
    }
}

impl<E: Element> Slots<E> {
    /// All slots to be changed, copied if somebody else holds them as well.
    fn own(&mut self) -> &mut [Slot<E>] {
        if Arc::get_mut(&mut self.0).is_none() {
            self.entries().for_each(|(_, value)| value.touch());
        }
        Arc::make_mut(&mut self.0)
    }

    pub(super) fn at_mut(&mut self, at: usize) -> Option<&mut E> {
        self.own()[at].value.as_mut()
    }

    /// Adds an entry; there must be a vacant slot.
    pub(super) fn add(&mut self, entry: Entry<E>) {
        let slots = self.own();
        let mut at = home(entry.hash, slots.len());
        loop {
            let end = slots.len().min(at + GROUP);
            if let Some(slot) = slots[at..end].iter_mut().find(|slot| slot.value.is_none()) {
                *slot = Slot { hash: entry.hash, value: Some(entry.value) };
                return;
            }
            at = following(at, slots.len());
        }
    }

    /// Takes the entry out that lies at a place; `entries` are left.
    pub(super) fn take(&mut self, at: usize, entries: usize) -> Option<E> {
        let slots = self.own();
        let group = at - at % GROUP;
        let was_full = slots[group..slots.len().min(group + GROUP)].iter().all(|slot| slot.value.is_some());
        let taken = slots[at].take();
        // Others may have passed by a group that was full, and would not be found behind one that is not.
        if self.is_sparse(entries) || was_full && self.0.len() > GROUP {
            self.resize(entries);
        }
        taken.map(|entry| entry.value)
    }

    /// All entries; moved if nobody else holds them, otherwise copied.
    pub(super) fn into_entries(mut self) -> Vec<Entry<E>> {
        match Arc::get_mut(&mut self.0) {
            Some(slots) => slots.iter_mut().filter_map(Slot::take).collect(),
            None => self.entries().map(|(hash, value)| Entry { hash, value: value.clone() }).collect(),
        }
    }

    /// The same entries, and vacant slots as `entries` of them should have.
    pub(super) fn resize(&mut self, entries: usize) {
        let before = std::mem::replace(self, Slots::for_entries(entries));
        before.into_entries().into_iter().for_each(|entry| self.add(entry));
    }
}
