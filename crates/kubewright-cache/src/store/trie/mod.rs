//! A persistent hash trie: a map whose copy costs nothing and shares all that stays the same.
//!
//! Each branch takes three bits of the hash; entries lie in leaves of some dozens (`slots`). Branches are narrow because a
//! write copies those that others hold as well, and with each the counts of what it leads to, while reading the few
//! near the root costs next to nothing: what a look-up waits for is the leaf and the entry. Keys are not stored: whoever
//! looks something up says how to recognise it. Nodes that nobody else holds are changed in place.
//!
//! Each link carries the number of the last write below it. Whoever plays the same writes, with their numbers, on two copies
//! has two tries that share nothing and yet are known to be the same wherever the numbers are (`differences`).

mod differences;
mod slots;

use std::sync::Arc;

pub(super) use slots::Element;
use slots::{Entry, Slot, Slots};

/// Bits of the hash for each branch.
const BITS: u32 = 3;
/// Links of a branch.
const WIDTH: usize = 1 << BITS;
/// A leaf with more entries becomes a branch, a branch with fewer than half of them a leaf again.
const LEAF: usize = 48;
/// Below this depth the hash has no bits left, and leaves grow as they must.
const DEPTH: u32 = 64 / BITS;

/// A map by hash. Cloning is O(1).
pub(crate) struct Trie<E> {
    root: Link<E>,
    len: usize,
}

struct Link<E> {
    /// Invariant: of two links at one place in copies of one trie, those with equal numbers lead to equal entries.
    write: u64,
    node: Node<E>,
}

enum Node<E> {
    Empty,
    /// How many entries, and where they lie.
    Leaf(u32, Slots<E>),
    Branch(Arc<[Link<E>; WIDTH]>),
}

impl<E> Clone for Link<E> {
    fn clone(&self) -> Self {
        let node = match &self.node {
            Node::Empty => Node::Empty,
            Node::Leaf(count, slots) => Node::Leaf(*count, slots.clone()),
            Node::Branch(links) => Node::Branch(links.clone()),
        };
        Link { write: self.write, node }
    }
}

impl<E> Clone for Trie<E> {
    fn clone(&self) -> Self {
        Trie { root: self.root.clone(), len: self.len }
    }
}

impl<E> Default for Trie<E> {
    fn default() -> Self {
        Trie { root: Link { write: 0, node: Node::Empty }, len: 0 }
    }
}

impl<E> Trie<E> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The entry of this hash that `is_it` recognises.
    pub(crate) fn get(&self, hash: u64, is_it: impl Fn(&E) -> bool) -> Option<&E> {
        let (mut link, mut rest) = (&self.root, hash);
        loop {
            match &link.node {
                Node::Empty => return None,
                Node::Leaf(_, slots) => return slots.at(slots.find(hash, is_it)?),
                Node::Branch(links) => {
                    link = &links[rest as usize % WIDTH];
                    rest >>= BITS;
                }
            }
        }
    }

    /// All entries, in no order that means anything.
    pub(crate) fn iter(&self) -> Iter<'_, E> {
        let mut iter = Iter { stack: Vec::new(), leaf: [].iter() };
        iter.enter(&self.root);
        iter
    }
}

impl<E: Element> Trie<E> {
    /// None, as of this write.
    pub(crate) fn emptied(write: u64) -> Self {
        Trie { root: Link { write, node: Node::Empty }, len: 0 }
    }

    /// Puts `value` in the place of the entry that `is_it` recognises, which is returned, or adds it.
    pub(crate) fn insert(&mut self, write: u64, hash: u64, value: E, is_it: impl Fn(&E) -> bool) -> Option<E> {
        let previous = self.root.insert(0, write, Entry { hash, value }, &is_it);
        self.len += usize::from(previous.is_none());
        previous
    }

    /// Takes the entry out that `is_it` recognises.
    pub(crate) fn remove(&mut self, write: u64, hash: u64, is_it: impl Fn(&E) -> bool) -> Option<E> {
        // A look first, so that a miss copies nothing.
        self.get(hash, &is_it)?;
        let removed = self.root.remove(0, write, hash, &is_it);
        self.len -= usize::from(removed.is_some());
        removed
    }

    /// The entry that `is_it` recognises, to be changed in place.
    pub(crate) fn get_mut(&mut self, write: u64, hash: u64, is_it: impl Fn(&E) -> bool) -> Option<&mut E> {
        let (mut link, mut rest) = (&mut self.root, hash);
        loop {
            link.write = write;
            match &mut link.node {
                Node::Empty => return None,
                Node::Leaf(_, slots) => {
                    let at = slots.find(hash, is_it)?;
                    return slots.at_mut(at);
                }
                Node::Branch(links) => {
                    link = &mut Arc::make_mut(links)[rest as usize % WIDTH];
                    rest >>= BITS;
                }
            }
        }
    }
}

/// Which link of a branch at this depth a hash belongs to.
fn slot(hash: u64, depth: u32) -> usize {
    (hash >> (depth * BITS)) as usize % WIDTH
}

impl<E: Element> Link<E> {
    fn insert(&mut self, depth: u32, write: u64, entry: Entry<E>, is_it: &impl Fn(&E) -> bool) -> Option<E> {
        self.write = write;
        match &mut self.node {
            Node::Empty => {
                self.node = Node::leaf(vec![entry]);
                None
            }
            Node::Leaf(count, slots) => {
                if let Some(place) = slots.find(entry.hash, is_it).and_then(|at| slots.at_mut(at)) {
                    return Some(std::mem::replace(place, entry.value));
                }
                let entries = *count as usize;
                if entries >= LEAF && depth < DEPTH {
                    let mut entries = std::mem::replace(slots, Slots::for_entries(0)).into_entries();
                    entries.push(entry);
                    self.node = Node::split(depth, write, entries);
                    return None;
                }
                if slots.is_full(entries) {
                    slots.resize(entries + 1);
                }
                slots.add(entry);
                *count += 1;
                None
            }
            Node::Branch(links) => {
                let at = slot(entry.hash, depth);
                Arc::make_mut(links)[at].insert(depth + 1, write, entry, is_it)
            }
        }
    }

    fn remove(&mut self, depth: u32, write: u64, hash: u64, is_it: &impl Fn(&E) -> bool) -> Option<E> {
        self.write = write;
        match &mut self.node {
            Node::Empty => None,
            Node::Leaf(count, slots) => {
                *count -= 1;
                let removed = slots.take(slots.find(hash, is_it)?, *count as usize);
                if *count == 0 {
                    self.node = Node::Empty;
                }
                removed
            }
            Node::Branch(links) => {
                let removed = Arc::make_mut(links)[slot(hash, depth)].remove(depth + 1, write, hash, is_it);
                if let Some(node) = Node::folded(links) {
                    self.node = node;
                }
                removed
            }
        }
    }
}

impl<E: Element> Node<E> {
    fn leaf(entries: Vec<Entry<E>>) -> Self {
        let mut slots = Slots::for_entries(entries.len());
        let count = entries.len() as u32;
        entries.into_iter().for_each(|entry| slots.add(entry));
        Node::Leaf(count, slots)
    }

    fn split(depth: u32, write: u64, entries: Vec<Entry<E>>) -> Self {
        let mut parts: [Vec<Entry<E>>; WIDTH] = std::array::from_fn(|_| Vec::new());
        entries.into_iter().for_each(|entry| parts[slot(entry.hash, depth)].push(entry));
        let links = parts.map(|part| {
            let node = match part.len() {
                0 => Node::Empty,
                count if count > LEAF && depth + 1 < DEPTH => Node::split(depth + 1, write, part),
                _ => Node::leaf(part),
            };
            Link { write, node }
        });
        Node::Branch(Arc::new(links))
    }

    /// A leaf with all entries of a branch, if they have become few.
    fn folded(links: &[Link<E>; WIDTH]) -> Option<Self> {
        let mut entries = 0;
        for link in links {
            match &link.node {
                Node::Empty => {}
                Node::Leaf(count, _) => entries += *count as usize,
                Node::Branch(_) => return None,
            }
            if entries >= LEAF / 2 {
                return None;
            }
        }
        if entries == 0 {
            return Some(Node::Empty);
        }
        let leaves = links.iter().filter_map(|link| match &link.node {
            Node::Leaf(_, slots) => Some(slots.clone().into_entries()),
            _ => None,
        });
        Some(Node::leaf(leaves.flatten().collect()))
    }
}

/// All entries of a trie.
pub(crate) struct Iter<'a, E> {
    stack: Vec<std::slice::Iter<'a, Link<E>>>,
    leaf: std::slice::Iter<'a, Slot<E>>,
}

impl<'a, E> Iter<'a, E> {
    fn enter(&mut self, link: &'a Link<E>) {
        match &link.node {
            Node::Empty => {}
            Node::Leaf(_, slots) => self.leaf = slots.iter(),
            Node::Branch(links) => self.stack.push(links.iter()),
        }
    }
}

impl<'a, E> Iterator for Iter<'a, E> {
    type Item = &'a E;

    fn next(&mut self) -> Option<&'a E> {
        loop {
            if let Some(value) = self.leaf.by_ref().find_map(|slot| slot.value.as_ref()) {
                return Some(value);
            }
            match self.stack.last_mut()?.next() {
                Some(link) => self.enter(link),
                None => drop(self.stack.pop()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::{collection::vec, prelude::*};

    use super::*;

    impl Element for (u16, u32) {
        fn touch(&self) {}
    }

    fn hash_of(key: u16, collide: bool) -> u64 {
        let spread = u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        if collide { u64::from(key % 7) << 33 } else { spread }
    }

    fn contents(trie: &Trie<(u16, u32)>) -> BTreeMap<u16, u32> {
        trie.iter().copied().collect()
    }

    /// What `before` holds after the differences that lead to `after`.
    fn patched(before: &Trie<(u16, u32)>, after: &Trie<(u16, u32)>) -> BTreeMap<u16, u32> {
        let mut patched = contents(before);
        let mut come = Vec::new();
        before.differences(after, &mut |before, after| {
            before.iter().for_each(|(key, _)| _ = patched.remove(key));
            come.extend(after.iter().map(|entry| **entry));
        });
        patched.extend(come);
        patched
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_plain_map_and_copies_stay_as_they_were(
            writes in vec((0..600u16, any::<bool>()), 0..2500), copy_at in 0..2500usize, collide in any::<bool>(),
        ) {
            let (mut trie, mut model) = (Trie::default(), BTreeMap::new());
            // Plays the same writes and shares nothing.
            let mut twin = Trie::default();
            let mut copy = None;
            for (at, &(key, put)) in writes.iter().enumerate() {
                if at == copy_at {
                    copy = Some((trie.clone(), model.clone()));
                }
                let (write, hash) = (at as u64 + 1, hash_of(key, collide));
                let is_it = |entry: &(u16, u32)| entry.0 == key;
                if put {
                    let value = at as u32;
                    let previous = trie.insert(write, hash, (key, value), is_it);
                    prop_assert_eq!(previous, twin.insert(write, hash, (key, value), is_it));
                    prop_assert_eq!(previous.map(|entry| entry.1), model.insert(key, value));
                } else {
                    let removed = trie.remove(write, hash, is_it);
                    prop_assert_eq!(removed, twin.remove(write, hash, is_it));
                    prop_assert_eq!(removed.map(|entry| entry.1), model.remove(&key));
                }
                prop_assert_eq!(trie.len(), model.len());
                prop_assert_eq!(trie.get(hash, is_it).map(|entry| entry.1), model.get(&key).copied());
            }
            prop_assert_eq!(contents(&trie), model.clone());
            twin.differences(&trie, &mut |_, _| panic!("they are the same"));
            if let Some((copy, then)) = copy {
                prop_assert_eq!(contents(&copy), then);
                prop_assert_eq!(patched(&copy, &trie), model.clone());
                prop_assert_eq!(patched(&copy, &twin), model);
            }
        }
    }

    #[test]
    fn what_two_copies_have_in_common_is_not_compared() {
        let mut trie = Trie::default();
        let mut twin = Trie::default();
        for key in 0..10_000u16 {
            for trie in [&mut trie, &mut twin] {
                trie.insert(u64::from(key) + 1, hash_of(key, false), (key, 0u32), |entry| entry.0 == key);
            }
        }
        for before in [trie.clone(), twin] {
            let mut changed = trie.clone();
            changed.insert(20_000, hash_of(7, false), (7, 1), |entry| entry.0 == 7);
            let mut visits = 0;
            before.differences(&changed, &mut |_, _| visits += 1);
            assert!((1..=LEAF).contains(&visits), "{visits}");
        }
    }

    #[test]
    fn links_stay_small() {
        assert_eq!(size_of::<Link<Arc<str>>>(), 32);
        assert_eq!(size_of::<Slot<Arc<u8>>>(), 16);
    }
}
