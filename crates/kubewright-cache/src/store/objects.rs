//! Iterates over the objects of a snapshot.

use std::fmt;
use std::sync::Arc;

use super::trie::{Iter, Trie};

/// Objects of a snapshot.
pub struct Objects<'a, T> {
    objects: &'a Trie<Arc<T>>,
    selection: ObjectSelection<'a, T>,
    remaining: usize,
}

enum ObjectSelection<'a, T> {
    All(Iter<'a, Arc<T>>),
    /// `None` if the index lacks the value.
    Members(Option<Iter<'a, ()>>),
}

impl<'a, T> Objects<'a, T> {
    pub(super) fn all(objects: &'a Trie<Arc<T>>) -> Self {
        Objects { objects, selection: ObjectSelection::All(objects.iter()), remaining: objects.len() }
    }

    /// The objects in these slots.
    pub(super) fn members(objects: &'a Trie<Arc<T>>, members: Option<&'a Trie<()>>) -> Self {
        let selection = ObjectSelection::Members(members.map(Trie::iter));
        Objects { objects, selection, remaining: members.map_or(0, Trie::len) }
    }

    /// The remaining objects as a list; the same as `cloned().collect()`.
    pub fn to_vec(self) -> Vec<Arc<T>> {
        // Look-ups first: they overlap in the processor, unless atomic increments lie between them.
        let found: Vec<&Arc<T>> = self.collect();
        found.into_iter().cloned().collect()
    }
}

impl<'a, T> Iterator for Objects<'a, T> {
    type Item = &'a Arc<T>;

    fn next(&mut self) -> Option<&'a Arc<T>> {
        let next = match &mut self.selection {
            ObjectSelection::All(entries) => entries.next().map(|(_, object)| object),
            ObjectSelection::Members(slots) => self.objects.get(slots.as_mut()?.next()?.0),
        };
        self.remaining -= usize::from(next.is_some());
        next
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.remaining, Some(self.remaining))
    }
}

impl<T> ExactSizeIterator for Objects<'_, T> {}

impl<T> fmt::Debug for Objects<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Objects").field("remaining", &self.remaining).finish()
    }
}
