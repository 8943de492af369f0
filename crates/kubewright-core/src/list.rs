//! The list of all API types: one word, no allocation while empty.

use std::fmt;
use std::ops::{Deref, DerefMut};

use thin_vec::ThinVec;

/// A growable list that takes one word where it is empty, as most lists of an object are.
///
/// An empty list is not serialised. It dereferences to a slice; what changes its length is here.
///
/// ```
/// use kubewright_core::List;
/// let mut args: List<&str> = ["--listen=:8080"].into();
/// args.push("--verbose");
/// assert_eq!(args.iter().copied().collect::<Vec<_>>(), ["--listen=:8080", "--verbose"]);
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct List<T>(ThinVec<T>);

impl<T> List<T> {
    /// An empty list.
    pub fn new() -> Self {
        List(ThinVec::new())
    }

    /// Appends an item.
    pub fn push(&mut self, item: T) {
        // The first room is for one: lists of one item are the most common after empty ones.
        if self.0.len() == self.0.capacity() {
            self.0.reserve_exact(self.0.len().max(1));
        }
        self.0.push(item);
    }

    /// Inserts an item before `index`.
    ///
    /// # Panics
    /// When `index` is beyond the end.
    pub fn insert(&mut self, index: usize, item: T) {
        if self.0.len() == self.0.capacity() {
            self.0.reserve_exact(self.0.len().max(1));
        }
        self.0.insert(index, item);
    }

    /// Removes and returns the last item.
    pub fn pop(&mut self) -> Option<T> {
        self.0.pop()
    }

    /// Removes and returns the item at `index`.
    ///
    /// # Panics
    /// When there is no such item.
    pub fn remove(&mut self, index: usize) -> T {
        self.0.remove(index)
    }

    /// Keeps only the items that `keep` is true for.
    pub fn retain(&mut self, keep: impl FnMut(&T) -> bool) {
        self.0.retain(keep);
    }

    /// Removes all items.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Makes room for exactly `additional` more items.
    pub fn reserve_exact(&mut self, additional: usize) {
        self.0.reserve_exact(additional);
    }

    /// Gives back memory that holds no item.
    pub fn shrink_to_fit(&mut self) {
        if self.0.capacity() > self.0.len() {
            self.0.shrink_to_fit();
        }
    }
}

impl<T> Default for List<T> {
    fn default() -> Self {
        List::new()
    }
}

impl<T> Deref for List<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T> DerefMut for List<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

impl<T: fmt::Debug> fmt::Debug for List<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<T> From<Vec<T>> for List<T> {
    fn from(items: Vec<T>) -> Self {
        items.into_iter().collect()
    }
}

impl<T, const N: usize> From<[T; N]> for List<T> {
    fn from(items: [T; N]) -> Self {
        items.into_iter().collect()
    }
}

impl<T> FromIterator<T> for List<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut list = List(items.into_iter().collect());
        list.shrink_to_fit();
        list
    }
}

impl<T> Extend<T> for List<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        self.0.extend(items);
    }
}

impl<T> IntoIterator for List<T> {
    type Item = T;
    type IntoIter = thin_vec::IntoIter<T>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a, T> IntoIterator for &'a List<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a, T> IntoIterator for &'a mut List<T> {
    type Item = &'a mut T;
    type IntoIter = std::slice::IterMut<'a, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_list_is_one_word() {
        assert_eq!(size_of::<Option<List<u64>>>(), size_of::<usize>());
    }
}
