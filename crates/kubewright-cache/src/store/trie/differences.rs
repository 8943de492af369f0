//! In what two copies of one trie are different.

use super::{Link, Node, Trie};

impl<E> Trie<E> {
    /// Calls `visit` with the entries of one hash in `self` and in `other`, passing over what no write has changed since.
    ///
    /// Entries of equal hash come in groups, first those of `self`, so that keys with equal hashes are told apart by who
    /// compares them. What both hold may be among them. Takes as long as there are differences, not entries.
    pub(crate) fn differences<'a>(&'a self, other: &'a Trie<E>, visit: &mut impl FnMut(&[&'a E], &[&'a E])) {
        self.root.differences(&other.root, visit);
    }
}

impl<E> Link<E> {
    fn differences<'a>(&'a self, other: &'a Self, visit: &mut impl FnMut(&[&'a E], &[&'a E])) {
        if self.write == other.write {
            return;
        }
        if let (Node::Branch(one), Node::Branch(two)) = (&self.node, &other.node) {
            one.iter().zip(two.iter()).for_each(|(one, two)| one.differences(two, visit));
            return;
        }
        let (mut before, mut after) = (self.entries(), other.entries());
        before.sort_unstable_by_key(|(hash, _)| *hash);
        after.sort_unstable_by_key(|(hash, _)| *hash);
        let (mut before, mut after) = (&before[..], &after[..]);
        let first = |entries: &[(u64, &E)]| entries.first().map(|(hash, _)| *hash);
        while let Some(hash) = first(before).into_iter().chain(first(after)).min() {
            let one = take_while(&mut before, hash);
            let two = take_while(&mut after, hash);
            visit(&one, &two);
        }
    }

    fn entries(&self) -> Vec<(u64, &E)> {
        match &self.node {
            Node::Empty => Vec::new(),
            Node::Leaf(_, slots) => slots.entries().collect(),
            Node::Branch(links) => links.iter().flat_map(Link::entries).collect(),
        }
    }
}

/// Takes the entries of `hash` from the front.
fn take_while<'a, E>(entries: &mut &[(u64, &'a E)], hash: u64) -> Vec<&'a E> {
    let count = entries.iter().take_while(|(other, _)| *other == hash).count();
    let (taken, rest) = entries.split_at(count);
    *entries = rest;
    taken.iter().map(|(_, value)| *value).collect()
}
