//! Some or all objects of a snapshot, one after another.

use std::fmt;
use std::sync::Arc;

use super::numbers::Numbers;
use super::slots::{Iter, Slots, touch};

/// As many reads as a processor has under way, and some more.
const AHEAD: usize = 32;

/// Objects of a snapshot.
pub struct Objects<'a, T> {
    slots: &'a Slots<T>,
    walk: Walk<'a, T>,
    remaining: usize,
}

enum Walk<'a, T> {
    All(Iter<'a, T>),
    /// The numbers that are left of one part, and all parts after it.
    Some(std::slice::Iter<'a, u32>, &'a [Arc<Vec<u32>>]),
}

impl<'a, T> Objects<'a, T> {
    pub(super) fn all(slots: &'a Slots<T>) -> Self {
        Objects { slots, walk: Walk::All(slots.iter()), remaining: slots.len() }
    }

    pub(super) fn some(slots: &'a Slots<T>, members: &'a Numbers) -> Self {
        let (part, rest) = members.split();
        Objects { slots, walk: Walk::Some(part.iter(), rest), remaining: members.len() }
    }

    pub(super) fn none(slots: &'a Slots<T>) -> Self {
        Objects { slots, walk: Walk::Some([].iter(), &[]), remaining: 0 }
    }

    /// All that are left, as a list of one's own.
    ///
    /// The same as `cloned().collect()`, and faster: memory is asked for the counts of several objects at a time.
    pub fn to_vec(self) -> Vec<Arc<T>> {
        let mut list = Vec::with_capacity(self.remaining);
        match self.walk {
            Walk::All(iter) => iter.copy_to(&mut list),
            Walk::Some(part, rest) => {
                copy(self.slots, part.as_slice(), &mut list);
                rest.iter().for_each(|part| copy(self.slots, part, &mut list));
            }
        }
        list
    }
}

/// Adds the objects of these slots to a list.
pub(super) fn copy<T>(slots: &Slots<T>, numbers: &[u32], list: &mut Vec<Arc<T>>) {
    for numbers in numbers.chunks(AHEAD) {
        numbers.iter().filter_map(|slot| slots.get(*slot)).for_each(touch);
        list.extend(numbers.iter().filter_map(|slot| slots.get(*slot)).cloned());
    }
}

impl<'a, T> Iterator for Objects<'a, T> {
    type Item = &'a Arc<T>;

    fn next(&mut self) -> Option<&'a Arc<T>> {
        let next = match &mut self.walk {
            Walk::All(iter) => iter.next(),
            Walk::Some(part, rest) => loop {
                if let Some(slot) = part.next() {
                    break self.slots.get(*slot);
                }
                let (first, others) = rest.split_first()?;
                (*part, *rest) = (first.iter(), others);
            },
        };
        self.remaining -= usize::from(next.is_some());
        next
    }

    // What `for_each` and others come to: a loop over each chunk, without a question after each object where it ends.
    fn fold<B, F: FnMut(B, &'a Arc<T>) -> B>(self, start: B, mut with: F) -> B {
        match self.walk {
            Walk::All(iter) => iter.fold(start, with),
            Walk::Some(part, rest) => part
                .chain(rest.iter().flat_map(|run| run.iter()))
                .filter_map(|slot| self.slots.get(*slot))
                .fold(start, &mut with),
        }
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
