//! A persistent hash trie: a map whose copy costs nothing and shares all that stays the same.
//!
//! Each branch takes four bits of the hash; entries lie in leaves of 9 KB at most, half of it vacant (`leaf`). Branches are narrow because a
//! write copies those that others hold as well, and with each the counts of what it leads to, while reading the few
//! near the root costs next to nothing. Keys are not stored: whoever looks something up says how to recognise it. Nodes that
//! nobody else holds are changed in place.

mod leaf;

use std::sync::Arc;

use leaf::{Entry, Group, Leaf};

/// Bits of the hash for each branch.
const BITS: u32 = 4;
/// Links of a branch.
const WIDTH: usize = 1 << BITS;
/// Below this depth the hash has no bits left, and leaves grow as they must.
const DEPTH: u32 = 32 / BITS;

/// A leaf with more entries becomes a branch, a branch with fewer than half of them a leaf again.
const fn leaf_max<E>() -> usize {
    4096 / size_of::<(u32, Option<E>)>()
}

/// A map by hash. Cloning is O(1).
pub(super) struct Trie<E> {
    root: Node<E>,
}

enum Node<E> {
    Empty,
    /// How many entries, and where they lie.
    Leaf(u32, Leaf<E>),
    Branch(Arc<[Node<E>; WIDTH]>),
}

impl<E> Clone for Node<E> {
    fn clone(&self) -> Self {
        match self {
            Node::Empty => Node::Empty,
            Node::Leaf(count, leaf) => Node::Leaf(*count, leaf.clone()),
            Node::Branch(nodes) => Node::Branch(nodes.clone()),
        }
    }
}

impl<E> Clone for Trie<E> {
    fn clone(&self) -> Self {
        Trie { root: self.root.clone() }
    }
}

impl<E> Default for Trie<E> {
    fn default() -> Self {
        Trie { root: Node::Empty }
    }
}

impl<E> Trie<E> {
    /// What `look` makes of the entry of this hash that it recognises.
    pub(super) fn find<'a, R>(&'a self, hash: u32, look: impl FnMut(&'a E) -> Option<R>) -> Option<R> {
        self.leaf(hash)?.find(hash, look).map(|(_, found)| found)
    }

    /// An entry of this hash: the only one, as good as always.
    #[inline]
    pub(super) fn first(&self, hash: u32) -> Option<&E> {
        self.leaf(hash)?.first(hash)
    }

    #[inline]
    fn leaf(&self, hash: u32) -> Option<&Leaf<E>> {
        let (mut node, mut rest) = (&self.root, hash);
        loop {
            match node {
                Node::Empty => return None,
                Node::Leaf(_, leaf) => return Some(leaf),
                Node::Branch(nodes) => {
                    node = &nodes[rest as usize % WIDTH];
                    rest >>= BITS;
                }
            }
        }
    }

    /// All entries, in no order that means anything.
    pub(super) fn iter(&self) -> Iter<'_, E> {
        let mut iter = Iter { stack: Vec::new(), groups: [].iter(), group: [].iter() };
        iter.enter(&self.root);
        iter
    }
}

impl<E: Clone> Trie<E> {
    /// Adds an entry. There must be none that would be taken for it.
    pub(super) fn add(&mut self, hash: u32, value: E) {
        self.root.add(0, Entry { hash, value });
    }

    /// Takes the entry out that `is_it` recognises, if there is one; to ask for one that is not there may copy its way.
    pub(super) fn remove(&mut self, hash: u32, is_it: impl Fn(&E) -> bool) -> Option<E> {
        self.root.remove(0, hash, &is_it)
    }

    /// The entry that `is_it` recognises, to be changed in place.
    pub(super) fn get_mut(&mut self, hash: u32, is_it: impl Fn(&E) -> bool) -> Option<&mut E> {
        let (mut node, mut rest) = (&mut self.root, hash);
        loop {
            match node {
                Node::Empty => return None,
                Node::Leaf(_, leaf) => {
                    let (at, ()) = leaf.find(hash, |entry| is_it(entry).then_some(()))?;
                    return leaf.at_mut(at);
                }
                Node::Branch(nodes) => {
                    node = &mut Arc::make_mut(nodes)[rest as usize % WIDTH];
                    rest >>= BITS;
                }
            }
        }
    }
}

/// Which node below a branch at this depth a hash belongs to.
fn way(hash: u32, depth: u32) -> usize {
    (hash >> (depth * BITS)) as usize % WIDTH
}

impl<E: Clone> Node<E> {
    fn add(&mut self, depth: u32, entry: Entry<E>) {
        match self {
            Node::Empty => *self = Node::leaf(vec![entry]),
            Node::Leaf(count, leaf) => {
                let entries = *count as usize;
                if entries >= leaf_max::<E>() && depth < DEPTH {
                    let mut entries = std::mem::replace(leaf, Leaf::for_entries(0)).into_entries();
                    entries.push(entry);
                    *self = Node::split(depth, entries);
                    return;
                }
                if leaf.is_full(entries) {
                    leaf.resize(entries + 1);
                }
                leaf.add(entry);
                *count += 1;
            }
            Node::Branch(nodes) => Arc::make_mut(nodes)[way(entry.hash, depth)].add(depth + 1, entry),
        }
    }

    fn remove(&mut self, depth: u32, hash: u32, is_it: &impl Fn(&E) -> bool) -> Option<E> {
        match self {
            Node::Empty => None,
            Node::Leaf(count, leaf) => {
                let (at, ()) = leaf.find(hash, |entry| is_it(entry).then_some(()))?;
                *count -= 1;
                let removed = leaf.take(at, *count as usize);
                if *count == 0 {
                    *self = Node::Empty;
                }
                removed
            }
            Node::Branch(nodes) => {
                let removed = Arc::make_mut(nodes)[way(hash, depth)].remove(depth + 1, hash, is_it);
                if let Some(node) = Node::folded(nodes) {
                    *self = node;
                }
                removed
            }
        }
    }

    fn leaf(entries: Vec<Entry<E>>) -> Self {
        let mut leaf = Leaf::for_entries(entries.len());
        let count = entries.len() as u32;
        entries.into_iter().for_each(|entry| leaf.add(entry));
        Node::Leaf(count, leaf)
    }

    fn split(depth: u32, entries: Vec<Entry<E>>) -> Self {
        let mut parts: [Vec<Entry<E>>; WIDTH] = std::array::from_fn(|_| Vec::new());
        entries.into_iter().for_each(|entry| parts[way(entry.hash, depth)].push(entry));
        Node::Branch(Arc::new(parts.map(|part| match part.len() {
            0 => Node::Empty,
            count if count > leaf_max::<E>() && depth + 1 < DEPTH => Node::split(depth + 1, part),
            _ => Node::leaf(part),
        })))
    }

    /// A leaf with all entries of a branch, if they have become few.
    fn folded(nodes: &[Node<E>; WIDTH]) -> Option<Self> {
        let mut entries = 0;
        for node in nodes {
            match node {
                Node::Empty => {}
                Node::Leaf(count, _) => entries += *count as usize,
                Node::Branch(_) => return None,
            }
            if entries >= leaf_max::<E>() / 2 {
                return None;
            }
        }
        if entries == 0 {
            return Some(Node::Empty);
        }
        let leaves = nodes.iter().filter_map(|node| match node {
            Node::Leaf(_, leaf) => Some(leaf.clone().into_entries()),
            _ => None,
        });
        Some(Node::leaf(leaves.flatten().collect()))
    }
}

/// All entries of a trie.
pub(crate) struct Iter<'a, E> {
    stack: Vec<std::slice::Iter<'a, Node<E>>>,
    groups: std::slice::Iter<'a, Group<E>>,
    group: std::slice::Iter<'a, Option<E>>,
}

impl<'a, E> Iter<'a, E> {
    fn enter(&mut self, node: &'a Node<E>) {
        match node {
            Node::Empty => {}
            Node::Leaf(_, leaf) => self.groups = leaf.iter(),
            Node::Branch(nodes) => self.stack.push(nodes.iter()),
        }
    }
}

impl<'a, E> Iterator for Iter<'a, E> {
    type Item = &'a E;

    fn next(&mut self) -> Option<&'a E> {
        loop {
            if let Some(value) = self.group.by_ref().flatten().next() {
                return Some(value);
            }
            if let Some(group) = self.groups.next() {
                self.group = group.values();
                continue;
            }
            match self.stack.last_mut()?.next() {
                Some(node) => self.enter(node),
                None => drop(self.stack.pop()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::num::NonZeroU32;

    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn hash_of(key: u16, collide: bool) -> u32 {
        let spread = u32::from(key).wrapping_mul(0x9e37_79b9);
        if collide { u32::from(key % 7) << 17 } else { spread ^ spread >> 16 }
    }

    fn contents(trie: &Trie<(u16, u32)>) -> BTreeMap<u16, u32> {
        trie.iter().copied().collect()
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_plain_map_and_copies_stay_as_they_were(
            writes in vec((0..900u16, 0..5u8), 0..4000), copy_at in 0..4000usize, collide in any::<bool>(),
            emptied in any::<bool>(),
        ) {
            let (mut trie, mut model) = (Trie::default(), BTreeMap::new());
            let mut copy = None;
            for (at, &(key, what)) in writes.iter().enumerate() {
                if at == copy_at {
                    copy = Some((trie.clone(), model.clone()));
                }
                let (hash, value) = (hash_of(key, collide), at as u32);
                let is_it = |entry: &(u16, u32)| entry.0 == key;
                if what < 3 {
                    match trie.get_mut(hash, is_it) {
                        Some(entry) => entry.1 = value,
                        None => trie.add(hash, (key, value)),
                    }
                    model.insert(key, value);
                } else {
                    let removed = trie.remove(hash, is_it);
                    prop_assert_eq!(removed.map(|entry| entry.1), model.remove(&key));
                }
                let found = trie.find(hash, |entry| is_it(entry).then_some(entry.1));
                prop_assert_eq!(found, model.get(&key).copied());
            }
            prop_assert_eq!(contents(&trie), model.clone());
            for (key, value) in &model {
                let found = trie.find(hash_of(*key, collide), |entry| (entry.0 == *key).then_some(entry.1));
                prop_assert_eq!(found, Some(*value));
            }
            if let Some((copy, then)) = copy {
                prop_assert_eq!(contents(&copy), then);
            }
            if emptied {
                for key in model.keys() {
                    prop_assert!(trie.remove(hash_of(*key, collide), |entry| entry.0 == *key).is_some());
                }
                prop_assert!(matches!(trie.root, Node::Empty));
            }
        }
    }

    #[test]
    fn nodes_and_groups_stay_small() {
        assert_eq!(size_of::<Node<NonZeroU32>>(), 24);
        assert_eq!(size_of::<Group<NonZeroU32>>(), 64);
    }
}
