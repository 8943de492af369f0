//! Iterates over the objects of a snapshot.

use std::fmt;
use std::hint::black_box;
use std::sync::Arc;

use super::trie::{Iter, Trie};

/// Number of objects whose counts are read before they are incremented.
const GROUP: usize = 64;

/// Objects of a snapshot.
pub struct Objects<'a, T> {
    objects: &'a Trie<Arc<T>>,
    selection: Selection<'a, T>,
    remaining: usize,
}

enum Selection<'a, T> {
    All(Iter<'a, Arc<T>>),
    Members(Iter<'a, ()>),
    None,
}

impl<'a, T> Objects<'a, T> {
    pub(super) fn all(objects: &'a Trie<Arc<T>>) -> Self {
        Objects { objects, selection: Selection::All(objects.iter()), remaining: objects.len() }
    }

    /// The objects in these slots.
    pub(super) fn members(objects: &'a Trie<Arc<T>>, members: Option<&'a Trie<()>>) -> Self {
        let selection = members.map_or(Selection::None, |members| Selection::Members(members.iter()));
        Objects { objects, selection, remaining: members.map_or(0, Trie::len) }
    }

    /// The remaining objects as a list; the same as `cloned().collect()`.
    pub fn to_vec(self) -> Vec<Arc<T>> {
        // An atomic increment does not overlap with later reads. So all look-ups come first, and
        // plain reads of the counts, which overlap, fetch each group into the processor's cache.
        let found: Vec<&Arc<T>> = self.collect();
        let mut objects = Vec::with_capacity(found.len());
        for group in found.chunks(GROUP) {
            black_box(group.iter().map(|object| Arc::strong_count(object)).sum::<usize>());
            objects.extend(group.iter().copied().cloned());
        }
        objects
    }
}

impl<'a, T> Iterator for Objects<'a, T> {
    type Item = &'a Arc<T>;

    fn next(&mut self) -> Option<&'a Arc<T>> {
        let next = match &mut self.selection {
            Selection::All(entries) => entries.next().map(|(_, object)| object),
            Selection::Members(slots) => slots.next().and_then(|(slot, ())| self.objects.get(slot)),
            Selection::None => None,
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
