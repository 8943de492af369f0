//! A persistent radix trie: a multimap from `u32` whose clone is O(1) and shares all nodes.
//!
//! Keys are hashes, or the numbers of slots. A branch consumes three bits of the key. The root
//! covers only as many bits as the largest key has, so small numbers make a low trie. Entries are
//! in leaves that are sorted by key. A write copies the nodes from the root to the leaf unless the
//! trie is their only owner. Copying a node increments the reference count of each child, so nodes
//! are narrow.

use std::sync::Arc;
use std::{array, iter, mem, slice};

/// Bits of the key that select a child of a branch.
const BITS: u32 = 3;
/// Children of a branch.
const WIDTH: usize = 1 << BITS;
/// A leaf with more entries becomes a branch. A branch with half as many becomes a leaf again.
const LEAF: usize = 16;

/// A map from `u32` to any number of values, which callers find by their content.
#[derive(Clone)]
pub(crate) struct Trie<V> {
    root: TrieNode<V>,
    /// The level of the root. A branch at level 0 selects by the lowest bits.
    top: u32,
    len: usize,
}

#[derive(Clone)]
enum TrieNode<V> {
    Empty,
    /// Sorted by key, and never empty. Entries of one key share a leaf.
    Leaf(Arc<[(u32, V)]>),
    Branch(Arc<[TrieNode<V>; WIDTH]>),
}

impl<V> Default for Trie<V> {
    fn default() -> Self {
        Trie { root: TrieNode::Empty, top: 0, len: 0 }
    }
}

/// The index of the child that leads to `key`, in a branch at this level.
fn child_index(key: u32, level: u32) -> usize {
    (key >> (BITS * level)) as usize % WIDTH
}

impl<V> Trie<V> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// A value of this key.
    pub(crate) fn get(&self, key: u32) -> Option<&V> {
        self.find(key, |_| true)
    }

    /// The value of this key that `matches` accepts.
    pub(crate) fn find(&self, key: u32, matches: impl Fn(&V) -> bool) -> Option<&V> {
        if !self.covers(key) {
            return None;
        }
        let (mut node, mut level) = (&self.root, self.top);
        loop {
            match node {
                TrieNode::Empty => return None,
                TrieNode::Leaf(entries) => return Some(&entries[position(entries, key, matches)?].1),
                TrieNode::Branch(children) => node = &children[child_index(key, level)],
            }
            level = level.wrapping_sub(1);
        }
    }

    /// Whether the root has bits enough for `key`.
    fn covers(&self, key: u32) -> bool {
        u64::from(key) >> (BITS * (self.top + 1)) == 0
    }

    /// All entries in the order of their keys.
    pub(crate) fn iter(&self) -> Iter<'_, V> {
        Iter::new(&self.root)
    }

    /// The entries with this key or a higher one.
    pub(crate) fn iter_from(&self, from: u32) -> Iter<'_, V> {
        let mut iter = Iter::new(&TrieNode::Empty);
        if self.covers(from) {
            let (mut node, mut level) = (&self.root, self.top);
            while let TrieNode::Branch(children) = node {
                let (_, rest) = children.split_at(child_index(from, level));
                iter.branches.push(rest[1..].iter());
                (node, level) = (&rest[0], level.wrapping_sub(1));
            }
            if let TrieNode::Leaf(entries) = node {
                iter.leaf = entries[entries.partition_point(|entry| entry.0 < from)..].iter();
            }
        }
        iter
    }

    /// Calls `visit` with the values of each key in two tries of unique keys, except those in
    /// shared nodes. Two clones of one trie share all nodes that were not written since, unless one
    /// of them has grown higher.
    pub(crate) fn differences<'a>(&'a self, other: &'a Trie<V>, visit: &mut impl FnMut(Option<&'a V>, Option<&'a V>)) {
        if self.top == other.top {
            differences(&self.root, &other.root, visit);
        } else {
            merge(&self.root, &other.root, visit);
        }
    }
}

/// The position of the entry of this key that `matches` accepts.
fn position<V>(entries: &[(u32, V)], key: u32, matches: impl Fn(&V) -> bool) -> Option<usize> {
    let matches = |(other, value): &(u32, V)| *other == key && matches(value);
    // Slot numbers are mostly consecutive, and then the low bits of the key are its position.
    let guess = child_index(key, 0);
    if entries.get(guess).is_some_and(matches) { Some(guess) } else { entries.iter().position(matches) }
}

impl<V: Clone> Trie<V> {
    /// Adds an entry.
    pub(crate) fn insert(&mut self, key: u32, value: V) {
        while !self.covers(key) {
            self.top += 1;
            if let TrieNode::Branch(_) = self.root {
                let mut children = [const { TrieNode::Empty }; WIDTH];
                children[0] = mem::replace(&mut self.root, TrieNode::Empty);
                self.root = TrieNode::Branch(Arc::new(children));
            }
        }
        self.len += 1;
        let (mut node, mut level) = (&mut self.root, self.top);
        while let TrieNode::Branch(children) = node {
            node = &mut Arc::make_mut(children)[child_index(key, level)];
            level = level.wrapping_sub(1);
        }
        let entries = match node {
            TrieNode::Leaf(entries) => &**entries,
            _ => &[],
        };
        let (lower, higher) = entries.split_at(entries.partition_point(|entry| entry.0 < key));
        let all = lower.iter().cloned().chain(iter::once((key, value))).chain(higher.iter().cloned());
        *node = TrieNode::of(all.collect(), Some(level).filter(|level| *level <= self.top));
    }

    /// A mutable reference to the value of this key that `matches` accepts. A miss copies nodes.
    pub(crate) fn get_mut(&mut self, key: u32, matches: impl Fn(&V) -> bool) -> Option<&mut V> {
        if !self.covers(key) {
            return None;
        }
        let (mut node, mut level) = (&mut self.root, self.top);
        loop {
            match node {
                TrieNode::Empty => return None,
                TrieNode::Leaf(entries) => {
                    let at = position(entries, key, matches)?;
                    return Some(&mut Arc::make_mut(entries)[at].1);
                }
                TrieNode::Branch(children) => node = &mut Arc::make_mut(children)[child_index(key, level)],
            }
            level = level.wrapping_sub(1);
        }
    }

    /// Removes the value of this key that `matches` accepts.
    pub(crate) fn remove(&mut self, key: u32, matches: impl Fn(&V) -> bool) -> Option<V> {
        self.find(key, &matches)?;
        self.len -= 1;
        self.root.remove(key, self.top, &matches)
    }
}

impl<V: Clone> TrieNode<V> {
    /// A leaf, or a branch at this level if there are too many entries for a leaf. Without a level,
    /// all entries have the same key.
    fn of(entries: Arc<[(u32, V)]>, level: Option<u32>) -> Self {
        let Some(level) = level.filter(|_| entries.len() > LEAF) else { return TrieNode::Leaf(entries) };
        let mut rest = &*entries;
        TrieNode::Branch(Arc::new(array::from_fn(|child| {
            let (here, higher) = rest.split_at(rest.partition_point(|entry| child_index(entry.0, level) <= child));
            rest = higher;
            if here.is_empty() { TrieNode::Empty } else { TrieNode::of(here.into(), level.checked_sub(1)) }
        })))
    }

    fn remove(&mut self, key: u32, level: u32, matches: &impl Fn(&V) -> bool) -> Option<V> {
        match self {
            TrieNode::Empty => None,
            TrieNode::Leaf(entries) => {
                let at = position(entries, key, matches)?;
                let removed = entries[at].1.clone();
                let others = entries[..at].iter().chain(&entries[at + 1..]).cloned();
                *self = if entries.len() == 1 { TrieNode::Empty } else { TrieNode::Leaf(others.collect()) };
                Some(removed)
            }
            TrieNode::Branch(children) => {
                let child = &mut Arc::make_mut(children)[child_index(key, level)];
                let removed = child.remove(key, level.wrapping_sub(1), matches);
                if let Some(leaf) = TrieNode::merged(children) {
                    *self = leaf;
                }
                removed
            }
        }
    }

    /// One leaf with the entries of all children, if they are few.
    fn merged(children: &[TrieNode<V>; WIDTH]) -> Option<Self> {
        let len = |child: &TrieNode<V>| match child {
            TrieNode::Empty => Some(0),
            TrieNode::Leaf(entries) => Some(entries.len()),
            TrieNode::Branch(_) => None,
        };
        let entries = || children.iter().flat_map(Iter::new).map(|(key, value)| (key, value.clone()));
        match children.iter().map(len).sum::<Option<usize>>()? {
            0 => Some(TrieNode::Empty),
            count => (count <= LEAF / 2).then(|| TrieNode::Leaf(entries().collect())),
        }
    }
}

fn differences<'a, V>(
    one: &'a TrieNode<V>,
    other: &'a TrieNode<V>,
    visit: &mut impl FnMut(Option<&'a V>, Option<&'a V>),
) {
    match (one, other) {
        (TrieNode::Leaf(one), TrieNode::Leaf(other)) if Arc::ptr_eq(one, other) => {}
        (TrieNode::Branch(one), TrieNode::Branch(other)) if Arc::ptr_eq(one, other) => {}
        (TrieNode::Branch(one), TrieNode::Branch(other)) => {
            iter::zip(&**one, &**other).for_each(|(one, other)| differences(one, other, visit));
        }
        _ => merge(one, other, visit),
    }
}

fn merge<'a, V>(one: &'a TrieNode<V>, other: &'a TrieNode<V>, visit: &mut impl FnMut(Option<&'a V>, Option<&'a V>)) {
    let (mut one, mut other) = (Iter::new(one).peekable(), Iter::new(other).peekable());
    while let Some(key) = one.peek().into_iter().chain(other.peek()).map(|entry| entry.0).min() {
        let one = one.next_if(|entry| entry.0 == key).map(|entry| entry.1);
        visit(one, other.next_if(|entry| entry.0 == key).map(|entry| entry.1));
    }
}

/// Iterates over entries in the order of their keys.
pub(crate) struct Iter<'a, V> {
    /// The children that remain of each branch on the path to `leaf`.
    branches: Vec<slice::Iter<'a, TrieNode<V>>>,
    leaf: slice::Iter<'a, (u32, V)>,
}

impl<'a, V> Iter<'a, V> {
    fn new(node: &'a TrieNode<V>) -> Self {
        let mut iter = Iter { branches: Vec::new(), leaf: [].iter() };
        iter.enter(node);
        iter
    }

    fn enter(&mut self, node: &'a TrieNode<V>) {
        match node {
            TrieNode::Empty => {}
            TrieNode::Leaf(entries) => self.leaf = entries.iter(),
            TrieNode::Branch(children) => self.branches.push(children.iter()),
        }
    }
}

impl<'a, V> Iterator for Iter<'a, V> {
    type Item = (u32, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((key, value)) = self.leaf.next() {
                return Some((*key, value));
            }
            match self.branches.last_mut()?.next() {
                Some(node) => self.enter(node),
                None => drop(self.branches.pop()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::{collection::vec, prelude::*};

    use super::*;

    /// Values and the step that wrote them, by key and name.
    type Model = BTreeMap<(u32, u16), usize>;

    fn contents(trie: &Trie<(u16, usize)>) -> Model {
        trie.iter().map(|(key, (name, step))| ((key, *name), *step)).collect()
    }

    /// `before` after the differences to `after`.
    fn patched(before: &Trie<(u16, usize)>, after: &Trie<(u16, usize)>) -> Vec<(u16, usize)> {
        let mut patched: Vec<_> = before.iter().map(|(_, value)| *value).collect();
        before.differences(after, &mut |old, new| {
            patched.retain(|value| Some(value) != old);
            patched.extend(new);
        });
        patched.sort_unstable();
        patched
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_plain_map_and_clones_never_change(
            writes in vec((0..900u16, 0..5u8), 0..4000), clone_at in 0..4000usize, spread in 0..3u8,
            from in any::<u32>(),
        ) {
            // Small numbers, hashes, and hashes that collide.
            let key = |name: u16| match spread {
                0 => u32::from(name),
                1 => u32::from(name).wrapping_mul(0x9e37_79b9),
                _ => u32::from(name % 7) << 17,
            };
            let (mut trie, mut model) = (Trie::default(), Model::new());
            let mut clone = None;
            for (at, &(name, action)) in writes.iter().enumerate() {
                if at == clone_at {
                    clone = Some((trie.clone(), model.clone()));
                }
                let (key, matches) = (key(name), |value: &(u16, usize)| value.0 == name);
                prop_assert_eq!(trie.find(key, matches).map(|value| &value.1), model.get(&(key, name)));
                if action < 3 {
                    match trie.get_mut(key, matches) {
                        Some(value) => value.1 = at,
                        None => trie.insert(key, (name, at)),
                    }
                    model.insert((key, name), at);
                } else {
                    prop_assert_eq!(trie.remove(key, matches).map(|value| value.1), model.remove(&(key, name)));
                }
                prop_assert_eq!(trie.len(), model.len());
            }
            prop_assert_eq!(contents(&trie), model.clone());
            let from = if spread == 0 { from % 1000 } else { from };
            let keys = trie.iter_from(from).map(|entry| entry.0);
            prop_assert!(keys.eq(model.range((from, 0)..).map(|entry| entry.0.0)));
            trie.differences(&trie.clone(), &mut |_, _| panic!("clones share all nodes"));
            if let Some((clone, then)) = clone {
                prop_assert_eq!(contents(&clone), then);
                if spread < 2 {
                    prop_assert_eq!(patched(&clone, &trie), patched(&trie, &trie));
                    prop_assert_eq!(patched(&trie, &clone), patched(&clone, &clone));
                }
            }
            for (key, name) in model.into_keys() {
                trie.remove(key, |value| value.0 == name);
            }
            prop_assert!(matches!(trie.root, TrieNode::Empty));
        }
    }
}
