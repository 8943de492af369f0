//! Objects by number: a persistent vector whose copy costs nothing and shares all that stays the same.
//!
//! Objects lie in chunks of 32, links to chunks in branches of 64. So an object is found without comparing
//! anything, and objects that came one after another, which lie beside each other in memory as well, are walked in that order.
//! Chunks and branches that nobody else holds are changed in place. The number of an object that has left is given to
//! the next that comes.
//!
//! Each link carries the number of the last write below it. Whoever plays the same writes, with their numbers, on two copies
//! has two vectors that share nothing and yet are known to be the same wherever the numbers are (`differences`).

use std::array;
use std::hint::black_box;
use std::sync::Arc;

use super::numbers::Numbers;

/// Objects of a chunk, whose counts are touched when it is copied.
const CHUNK: usize = 32;
/// Links of a branch.
const BRANCH: usize = 64;

type Chunk<T> = [Option<Arc<T>>; CHUNK];
type Branch<T> = [Link<Chunk<T>>; BRANCH];

/// Objects, each in a slot of its own. Cloning is O(1).
pub(super) struct Slots<T> {
    branches: Arc<[Link<Branch<T>>]>,
    /// Invariant: all slots are below this.
    end: u32,
    /// Invariant: those below `end` without an object.
    vacant: Numbers,
}

/// A way to a chunk or branch; none if there is no object in it.
struct Link<N> {
    /// Invariant: of two links at one place in copies of one vector, those with equal numbers lead to equal objects. Zero means
    /// that nothing was ever there.
    write: u64,
    node: Option<Arc<N>>,
}

impl<N> Clone for Link<N> {
    fn clone(&self) -> Self {
        Link { write: self.write, node: self.node.clone() }
    }
}

impl<N> Default for Link<N> {
    fn default() -> Self {
        Link { write: 0, node: None }
    }
}

impl<T> Clone for Slots<T> {
    fn clone(&self) -> Self {
        Slots { branches: self.branches.clone(), end: self.end, vacant: self.vacant.clone() }
    }
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Slots { branches: Arc::new([]), end: 0, vacant: Numbers::default() }
    }
}

/// Begins to read what a clone will write. Several such reads wait for memory at once, several clones one after another.
pub(super) fn touch<T>(object: &Arc<T>) {
    black_box(Arc::strong_count(object));
}

impl<T> Slots<T> {
    /// How many objects there are.
    pub(super) fn len(&self) -> usize {
        self.end as usize - self.vacant.len()
    }

    pub(super) fn get(&self, slot: u32) -> Option<&Arc<T>> {
        let slot = slot as usize;
        self.chunk(slot / CHUNK)?[slot % CHUNK].as_ref()
    }

    fn chunk(&self, at: usize) -> Option<&Chunk<T>> {
        self.branches.get(at / BRANCH)?.node.as_ref()?[at % BRANCH].node.as_deref()
    }

    /// All objects in the order of their slots.
    pub(super) fn iter(&self) -> Iter<'_, T> {
        Iter { slots: self, next: 0, chunk: [].iter() }
    }

    /// All objects with their slots.
    pub(super) fn entries(&self) -> impl Iterator<Item = (u32, &Arc<T>)> {
        (0..self.end).filter_map(|slot| Some((slot, self.get(slot)?)))
    }

    /// The first object from this slot on, with its slot.
    pub(super) fn first_from(&self, mut slot: u32) -> Option<(u32, &Arc<T>)> {
        while slot < self.end {
            match self.chunk(slot as usize / CHUNK) {
                Some(chunk) => match &chunk[slot as usize % CHUNK] {
                    Some(object) => return Some((slot, object)),
                    None => slot += 1,
                },
                // All of it is vacant.
                None => slot = (slot / CHUNK as u32 + 1) * CHUNK as u32,
            }
        }
        None
    }

    /// A slot for one more.
    pub(super) fn next(&self) -> u32 {
        self.vacant.first().unwrap_or(self.end)
    }

    /// Adds an object in the slot that [`next`](Self::next) gave.
    pub(super) fn add(&mut self, write: u64, slot: u32, object: Arc<T>) {
        if slot == self.end {
            self.end = self.end.checked_add(1).expect("memory is full before the numbers are");
        } else {
            self.vacant.remove(slot);
        }
        self.set(write, slot, object);
    }

    /// Puts an object in a slot, in the place of the one that is there.
    pub(super) fn set(&mut self, write: u64, slot: u32, object: Arc<T>) -> Option<Arc<T>> {
        let (chunk, at) = (slot as usize / CHUNK, slot as usize % CHUNK);
        if chunk / BRANCH >= self.branches.len() {
            let more = chunk / BRANCH + 1 - self.branches.len();
            self.branches = self.branches.iter().cloned().chain((0..more).map(|_| Link::default())).collect();
        }
        let branch =
            Arc::make_mut(&mut self.branches)[chunk / BRANCH].own(write, || array::from_fn(|_| Link::default()));
        own_chunk(&mut branch[chunk % BRANCH], write)[at].replace(object)
    }

    /// Takes the object out of a slot.
    pub(super) fn remove(&mut self, write: u64, slot: u32) -> Option<Arc<T>> {
        self.get(slot)?;
        let (chunk, at) = (slot as usize / CHUNK, slot as usize % CHUNK);
        let link = &mut Arc::make_mut(&mut self.branches)[chunk / BRANCH];
        let branch = link.own(write, || array::from_fn(|_| Link::default()));
        let objects = own_chunk(&mut branch[chunk % BRANCH], write);
        let removed = objects[at].take();
        if objects.iter().all(Option::is_none) {
            branch[chunk % BRANCH].node = None;
            if branch.iter().all(|link| link.node.is_none()) {
                link.node = None;
            }
        }
        self.vacate(slot);
        removed
    }

    fn vacate(&mut self, slot: u32) {
        if slot + 1 < self.end {
            self.vacant.insert(slot);
            return;
        }
        self.end = slot;
        while self.end > 0 && self.vacant.last() == Some(self.end - 1) {
            self.end -= 1;
            self.vacant.remove(self.end);
        }
    }

    /// Calls `visit` with what is in one slot of `self` and of `other`, passing over what no write has changed since.
    ///
    /// What both hold is not among it. Takes as long as there are differences, not objects.
    pub(super) fn differences<'a>(
        &'a self,
        other: &'a Slots<T>,
        visit: &mut impl FnMut(Option<&'a Arc<T>>, Option<&'a Arc<T>>),
    ) {
        for at in 0..self.branches.len().max(other.branches.len()) {
            let Some((one, two)) = different(self.branches.get(at), other.branches.get(at)) else { continue };
            for at in 0..BRANCH {
                let Some((one, two)) = different(one.map(|one| &one[at]), two.map(|two| &two[at])) else { continue };
                for at in 0..CHUNK {
                    let (one, two) = (one.and_then(|one| one[at].as_ref()), two.and_then(|two| two[at].as_ref()));
                    if one.map(Arc::as_ptr) != two.map(Arc::as_ptr) {
                        visit(one, two);
                    }
                }
            }
        }
    }
}

/// Where two links lead, unless it is the same.
fn different<'a, N>(one: Option<&'a Link<N>>, two: Option<&'a Link<N>>) -> Option<(Option<&'a N>, Option<&'a N>)> {
    let write = |link: Option<&Link<N>>| link.map_or(0, |link| link.write);
    let node = |link: Option<&'a Link<N>>| link.and_then(|link| link.node.as_deref());
    (write(one) != write(two)).then(|| (node(one), node(two)))
}

impl<N: Clone> Link<N> {
    /// What is there, or something new, to be changed; copied if somebody else holds it as well.
    fn own(&mut self, write: u64, new: impl FnOnce() -> N) -> &mut N {
        self.write = write;
        Arc::make_mut(self.node.get_or_insert_with(|| Arc::new(new())))
    }
}

fn own_chunk<T>(link: &mut Link<Chunk<T>>, write: u64) -> &mut Chunk<T> {
    if let Some(shared) = link.node.as_ref().filter(|chunk| Arc::strong_count(chunk) > 1) {
        shared.iter().flatten().for_each(touch);
    }
    link.own(write, || [const { None }; CHUNK])
}

/// Objects in the order of their slots.
pub(super) struct Iter<'a, T> {
    slots: &'a Slots<T>,
    /// The number of the chunk after this one.
    next: usize,
    chunk: std::slice::Iter<'a, Option<Arc<T>>>,
}

impl<'a, T> Iter<'a, T> {
    /// Goes on to the next chunk, if there is one.
    fn advance(&mut self) -> Option<()> {
        if self.next * CHUNK >= self.slots.end as usize {
            return None;
        }
        self.chunk = self.slots.chunk(self.next).map_or([].iter(), |chunk| chunk.iter());
        self.next += 1;
        Some(())
    }

    /// Adds all that are left to a list. Memory is asked for the counts of a whole chunk at a time.
    pub(super) fn copy_to(mut self, list: &mut Vec<Arc<T>>) {
        loop {
            self.chunk.as_slice().iter().flatten().for_each(touch);
            list.extend(self.chunk.by_ref().flatten().cloned());
            if self.advance().is_none() {
                return;
            }
        }
    }
}

impl<'a, T> Iterator for Iter<'a, T> {
    type Item = &'a Arc<T>;

    fn next(&mut self) -> Option<&'a Arc<T>> {
        loop {
            if let Some(object) = self.chunk.by_ref().flatten().next() {
                return Some(object);
            }
            self.advance()?;
        }
    }

    fn fold<B, F: FnMut(B, &'a Arc<T>) -> B>(mut self, start: B, mut with: F) -> B {
        let mut folded = start;
        loop {
            folded = self.chunk.by_ref().flatten().fold(folded, &mut with);
            if self.advance().is_none() {
                return folded;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::{collection::vec, prelude::*};

    use super::*;

    type Model = BTreeMap<u32, Arc<u32>>;

    fn contents(slots: &Slots<u32>) -> Model {
        slots.entries().map(|(slot, object)| (slot, object.clone())).collect()
    }

    fn values(model: &Model) -> Vec<u32> {
        let mut values: Vec<u32> = model.values().map(|object| **object).collect();
        values.sort_unstable();
        values
    }

    /// What `before` holds after the differences that lead to `after`.
    fn patched(before: &Slots<u32>, after: &Slots<u32>) -> Vec<u32> {
        let mut patched = values(&contents(before));
        let mut come = Vec::new();
        before.differences(after, &mut |old, new| {
            patched.retain(|value| old.is_none_or(|old| value != &**old));
            come.extend(new.map(|new| **new));
        });
        patched.extend(come);
        patched.sort_unstable();
        patched
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_plain_map_and_copies_stay_as_they_were(
            writes in vec((0..4000u32, 0..9u8), 0..6000), copy_at in 0..6000usize, waves in any::<bool>(),
        ) {
            let (mut slots, mut model) = (Slots::default(), Model::new());
            // Plays the same writes and shares nothing.
            let mut twin = Slots::default();
            let mut copy = None;
            for (at, &(pick, what)) in writes.iter().enumerate() {
                if at == copy_at {
                    copy = Some((slots.clone(), model.clone()));
                }
                let (write, object) = (at as u64 + 1, Arc::new(at as u32));
                // In waves, so that many are there and then none.
                let add = if waves { (at / 1500) % 2 == 0 && what < 8 } else { what < 4 };
                if add {
                    let slot = slots.next();
                    prop_assert!(!model.contains_key(&slot) && slot as usize <= model.len().max(at));
                    slots.add(write, slot, object.clone());
                    twin.add(write, slot, object.clone());
                    model.insert(slot, object);
                } else if let Some(slot) = model.range(pick..).chain(model.range(..pick)).next().map(|entry| *entry.0) {
                    if what < 6 && !waves {
                        prop_assert_eq!(slots.set(write, slot, object.clone()), model.insert(slot, object.clone()));
                        twin.set(write, slot, object);
                    } else {
                        prop_assert_eq!(slots.remove(write, slot), model.remove(&slot));
                        twin.remove(write, slot);
                    }
                }
                prop_assert_eq!(slots.len(), model.len());
            }
            prop_assert_eq!(contents(&slots), model.clone());
            prop_assert_eq!(slots.iter().cloned().collect::<Vec<_>>(), model.values().cloned().collect::<Vec<_>>());
            let mut list = Vec::new();
            let mut rest = slots.iter();
            list.extend(rest.by_ref().take(5).cloned());
            rest.copy_to(&mut list);
            prop_assert_eq!(list, model.values().cloned().collect::<Vec<_>>());
            twin.differences(&slots, &mut |_, _| panic!("they are the same"));
            if let Some((copy, then)) = copy {
                prop_assert_eq!(contents(&copy), then);
                prop_assert_eq!(patched(&copy, &slots), values(&model));
                prop_assert_eq!(patched(&copy, &twin), values(&model));
                prop_assert_eq!(patched(&twin, &copy), values(&contents(&copy)));
            }
        }
    }

    #[test]
    fn what_has_left_leaves_nothing_behind() {
        let mut slots = Slots::default();
        (0..5000).for_each(|slot| slots.add(1, slot, Arc::new(slot)));
        (0..4000).for_each(|slot| drop(slots.remove(2, slot)));
        assert_eq!((slots.next(), slots.end, slots.len()), (0, 5000, 1000));
        assert!(slots.branches[0].node.is_none());
        // Whole chunks of nothing are passed over.
        for (from, found) in [(0, Some(4000)), (3999, Some(4000)), (4000, Some(4000)), (4999, Some(4999)), (5000, None)]
        {
            assert_eq!(slots.first_from(from).map(|(slot, object)| (slot, **object)), found.map(|slot| (slot, slot)));
        }
        (4000..5000).rev().for_each(|slot| drop(slots.remove(3, slot)));
        assert_eq!((slots.next(), slots.end, slots.vacant.len()), (0, 0, 0));
        assert!(slots.branches.iter().all(|link| link.node.is_none()));
    }
}
