//! A persistent hash trie: a map whose copy costs nothing and shares all that stays the same.
//!
//! Each branch takes three bits of the hash; entries lie in leaves of a few, each with its hash beside it, so that a look-up
//! touches one entry only. Keys are not stored: whoever looks something up says how to recognise it. A write copies the
//! nodes on its way that others hold as well, and changes in place those it holds alone: the first write after a
//! copy pays for about fifty pointers, and a thousand writes in a row pay for each node once.

use std::sync::Arc;

/// Bits of the hash for each branch.
const BITS: u32 = 3;
/// Links of a branch.
const WIDTH: usize = 1 << BITS;
/// A leaf with more entries becomes a branch, a branch with fewer than half of them a leaf again.
const LEAF: usize = 12;
/// Below this depth the hash has no bits left, and leaves grow as they must.
const DEPTH: u32 = 64 / BITS;

/// A map by hash. Cloning is O(1).
pub(crate) struct Trie<E> {
    root: Link<E>,
    len: usize,
}

#[derive(Clone)]
struct Entry<E> {
    hash: u64,
    value: E,
}

enum Link<E> {
    Empty,
    Leaf(Arc<[Entry<E>]>),
    Branch(Arc<Branch<E>>),
}

#[derive(Clone)]
struct Branch<E> {
    links: [Link<E>; WIDTH],
}

impl<E> Clone for Link<E> {
    fn clone(&self) -> Self {
        match self {
            Link::Empty => Link::Empty,
            Link::Leaf(leaf) => Link::Leaf(leaf.clone()),
            Link::Branch(branch) => Link::Branch(branch.clone()),
        }
    }
}

impl<E> Clone for Trie<E> {
    fn clone(&self) -> Self {
        Trie { root: self.root.clone(), len: self.len }
    }
}

impl<E> Default for Trie<E> {
    fn default() -> Self {
        Trie { root: Link::Empty, len: 0 }
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
            match link {
                Link::Empty => return None,
                Link::Leaf(leaf) => {
                    let mut entries = leaf.iter();
                    return entries.find(|entry| entry.hash == hash && is_it(&entry.value)).map(|entry| &entry.value);
                }
                Link::Branch(branch) => {
                    link = &branch.links[rest as usize % WIDTH];
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

impl<E: Clone> Trie<E> {
    /// Puts `value` in the place of the entry that `is_it` recognises, which is returned, or adds it.
    pub(crate) fn insert(&mut self, hash: u64, value: E, is_it: impl Fn(&E) -> bool) -> Option<E> {
        let previous = self.root.insert(0, Entry { hash, value }, &is_it);
        self.len += usize::from(previous.is_none());
        previous
    }

    /// Takes the entry out that `is_it` recognises.
    pub(crate) fn remove(&mut self, hash: u64, is_it: impl Fn(&E) -> bool) -> Option<E> {
        // A look first, so that a miss copies nothing.
        self.get(hash, &is_it)?;
        let removed = self.root.remove(0, hash, &is_it);
        self.len -= usize::from(removed.is_some());
        removed
    }

    /// The entry that `is_it` recognises, to be changed in place.
    pub(crate) fn get_mut(&mut self, hash: u64, is_it: impl Fn(&E) -> bool) -> Option<&mut E> {
        let (mut link, mut rest) = (&mut self.root, hash);
        loop {
            match link {
                Link::Empty => return None,
                Link::Leaf(leaf) => {
                    let at = leaf.iter().position(|entry| entry.hash == hash && is_it(&entry.value))?;
                    return Some(&mut Arc::make_mut(leaf)[at].value);
                }
                Link::Branch(branch) => {
                    link = &mut Arc::make_mut(branch).links[rest as usize % WIDTH];
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

impl<E: Clone> Link<E> {
    fn insert(&mut self, depth: u32, entry: Entry<E>, is_it: &impl Fn(&E) -> bool) -> Option<E> {
        match self {
            Link::Empty => {
                *self = Link::Leaf(Arc::new([entry]));
                None
            }
            Link::Leaf(leaf) => {
                if let Some(at) = leaf.iter().position(|other| other.hash == entry.hash && is_it(&other.value)) {
                    let place = &mut Arc::make_mut(leaf)[at];
                    return Some(std::mem::replace(&mut place.value, entry.value));
                }
                let full = leaf.len() >= LEAF && depth < DEPTH;
                *self = match full {
                    false => Link::Leaf(leaf.iter().cloned().chain([entry]).collect()),
                    true => Link::split(depth, leaf.iter().cloned().chain([entry])),
                };
                None
            }
            Link::Branch(branch) => {
                let at = slot(entry.hash, depth);
                Arc::make_mut(branch).links[at].insert(depth + 1, entry, is_it)
            }
        }
    }

    fn split(depth: u32, entries: impl Iterator<Item = Entry<E>>) -> Self {
        let mut parts: [Vec<Entry<E>>; WIDTH] = std::array::from_fn(|_| Vec::new());
        entries.for_each(|entry| parts[slot(entry.hash, depth)].push(entry));
        let links = parts.map(|part| match part.len() {
            0 => Link::Empty,
            count if count > LEAF && depth + 1 < DEPTH => Link::split(depth + 1, part.into_iter()),
            _ => Link::Leaf(part.into()),
        });
        Link::Branch(Arc::new(Branch { links }))
    }

    fn remove(&mut self, depth: u32, hash: u64, is_it: &impl Fn(&E) -> bool) -> Option<E> {
        match self {
            Link::Empty => None,
            Link::Leaf(leaf) => {
                let at = leaf.iter().position(|entry| entry.hash == hash && is_it(&entry.value))?;
                let removed = leaf[at].value.clone();
                let others = leaf.iter().enumerate().filter(|(other, _)| *other != at);
                *self = match leaf.len() {
                    1 => Link::Empty,
                    _ => Link::Leaf(others.map(|(_, entry)| entry.clone()).collect()),
                };
                Some(removed)
            }
            Link::Branch(branch) => {
                let removed = Arc::make_mut(branch).links[slot(hash, depth)].remove(depth + 1, hash, is_it);
                if let Some(link) = branch.folded() {
                    *self = link;
                }
                removed
            }
        }
    }
}

impl<E: Clone> Branch<E> {
    /// A leaf with all entries, if they have become few.
    fn folded(&self) -> Option<Link<E>> {
        let mut count = 0;
        for link in &self.links {
            match link {
                Link::Empty => {}
                Link::Leaf(leaf) => count += leaf.len(),
                Link::Branch(_) => return None,
            }
            if count >= LEAF / 2 {
                return None;
            }
        }
        if count == 0 {
            return Some(Link::Empty);
        }
        let leaves = self.links.iter().filter_map(|link| match link {
            Link::Leaf(leaf) => Some(leaf),
            _ => None,
        });
        Some(Link::Leaf(leaves.flat_map(|leaf| leaf.iter().cloned()).collect()))
    }
}

/// All entries of a trie.
pub(crate) struct Iter<'a, E> {
    stack: Vec<std::slice::Iter<'a, Link<E>>>,
    leaf: std::slice::Iter<'a, Entry<E>>,
}

impl<'a, E> Iter<'a, E> {
    fn enter(&mut self, link: &'a Link<E>) {
        match link {
            Link::Empty => {}
            Link::Leaf(leaf) => self.leaf = leaf.iter(),
            Link::Branch(branch) => self.stack.push(branch.links.iter()),
        }
    }
}

impl<'a, E> Iterator for Iter<'a, E> {
    type Item = &'a E;

    fn next(&mut self) -> Option<&'a E> {
        loop {
            if let Some(entry) = self.leaf.next() {
                return Some(&entry.value);
            }
            match self.stack.last_mut()?.next() {
                Some(link) => self.enter(link),
                None => drop(self.stack.pop()),
            }
        }
    }
}

impl<E> Trie<E> {
    /// Calls `visit` with the entries of one hash in `self` and in `other`, passing over what the two share.
    ///
    /// Entries of equal hash come in groups, first those of `self`, so that keys with equal hashes are told apart by who
    /// compares them. Takes as long as there are differences, not entries.
    pub(crate) fn differences<'a>(&'a self, other: &'a Trie<E>, visit: &mut impl FnMut(&[&'a E], &[&'a E])) {
        self.root.differences(&other.root, visit);
    }
}

impl<E> Link<E> {
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Link::Empty, Link::Empty) => true,
            (Link::Leaf(one), Link::Leaf(two)) => Arc::ptr_eq(one, two),
            (Link::Branch(one), Link::Branch(two)) => Arc::ptr_eq(one, two),
            _ => false,
        }
    }

    fn differences<'a>(&'a self, other: &'a Self, visit: &mut impl FnMut(&[&'a E], &[&'a E])) {
        if self.is_same(other) {
            return;
        }
        if let (Link::Branch(one), Link::Branch(two)) = (self, other) {
            one.links.iter().zip(&two.links).for_each(|(one, two)| one.differences(two, visit));
            return;
        }
        let (mut before, mut after) = (self.entries(), other.entries());
        before.sort_unstable_by_key(|entry| entry.hash);
        after.sort_unstable_by_key(|entry| entry.hash);
        let (mut before, mut after) = (&before[..], &after[..]);
        let first = |entries: &[&Entry<E>]| entries.first().map(|entry| entry.hash);
        while let Some(hash) = first(before).into_iter().chain(first(after)).min() {
            let one = take_while(&mut before, hash);
            let two = take_while(&mut after, hash);
            visit(&one, &two);
        }
    }

    fn entries(&self) -> Vec<&Entry<E>> {
        match self {
            Link::Empty => Vec::new(),
            Link::Leaf(leaf) => leaf.iter().collect(),
            Link::Branch(branch) => branch.links.iter().flat_map(Link::entries).collect(),
        }
    }
}

/// Takes the entries of `hash` from the front.
fn take_while<'a, E>(entries: &mut &[&'a Entry<E>], hash: u64) -> Vec<&'a E> {
    let count = entries.iter().take_while(|entry| entry.hash == hash).count();
    let (taken, rest) = entries.split_at(count);
    *entries = rest;
    taken.iter().map(|entry| &entry.value).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn hash_of(key: u16, collide: bool) -> u64 {
        let spread = u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        if collide { u64::from(key % 7) } else { spread }
    }

    fn contents(trie: &Trie<(u16, u32)>) -> BTreeMap<u16, u32> {
        trie.iter().copied().collect()
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_plain_map_and_copies_stay_as_they_were(
            writes in vec((0..400u16, any::<bool>()), 0..1500), copy_at in 0..1500usize, collide in any::<bool>(),
        ) {
            let (mut trie, mut model) = (Trie::default(), BTreeMap::new());
            let mut copy = None;
            for (at, &(key, put)) in writes.iter().enumerate() {
                if at == copy_at {
                    copy = Some((trie.clone(), model.clone()));
                }
                let hash = hash_of(key, collide);
                let is_it = |entry: &(u16, u32)| entry.0 == key;
                if put {
                    let value = at as u32;
                    let previous = trie.insert(hash, (key, value), is_it);
                    prop_assert_eq!(previous.map(|entry| entry.1), model.insert(key, value));
                } else {
                    let removed = trie.remove(hash, is_it);
                    prop_assert_eq!(removed.map(|entry| entry.1), model.remove(&key));
                }
                prop_assert_eq!(trie.len(), model.len());
                prop_assert_eq!(trie.get(hash, is_it).map(|entry| entry.1), model.get(&key).copied());
            }
            prop_assert_eq!(contents(&trie), model.clone());
            if let Some((copy, then)) = copy {
                prop_assert_eq!(contents(&copy), then.clone());
                let (mut gone, mut come) = (BTreeMap::new(), BTreeMap::new());
                copy.differences(&trie, &mut |before, after| {
                    gone.extend(before.iter().map(|entry| **entry));
                    come.extend(after.iter().map(|entry| **entry));
                });
                let mut patched = then;
                gone.keys().for_each(|key| { patched.remove(key); });
                patched.extend(come);
                prop_assert_eq!(patched, model);
            }
        }
    }

    #[test]
    fn what_two_copies_share_is_not_compared() {
        let mut trie = Trie::default();
        for key in 0..10_000u16 {
            trie.insert(hash_of(key, false), (key, 0u32), |entry| entry.0 == key);
        }
        let mut changed = trie.clone();
        changed.insert(hash_of(7, false), (7, 1), |entry| entry.0 == 7);
        let mut visits = 0;
        trie.differences(&changed, &mut |_, _| visits += 1);
        assert!(visits <= LEAF, "{visits}");
    }
}
