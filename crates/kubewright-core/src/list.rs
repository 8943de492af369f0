//! The list of all API types: no allocation while empty, shared between objects that were decoded alike.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::{Deref, DerefMut};

use triomphe::Arc;

/// A growable list that allocates nothing while it is empty, as most lists of an object are.
///
/// An empty list is not serialised. It dereferences to a slice; what changes its length is here. Clones share their items: a
/// clone costs nothing, and the first change gives it items of its own.
///
/// ```
/// use kubewright_core::List;
/// let mut args: List<&str> = ["--listen=:8080"].into();
/// args.push("--verbose");
/// assert_eq!(args.iter().copied().collect::<Vec<_>>(), ["--listen=:8080", "--verbose"]);
/// ```
///
/// One word, because a type has many lists and an object few of them. Inside is a plain `Vec`, the list whose code is the
/// least for each type of items: there are hundreds, and all of them are compiled.
pub struct List<T>(Option<Arc<Vec<T>>>);

impl<T> List<T> {
    /// An empty list.
    pub const fn new() -> Self {
        List(None)
    }

    /// Removes all items.
    pub fn clear(&mut self) {
        self.0 = None;
    }

    /// Gives back memory that holds no item.
    pub fn shrink_to_fit(&mut self) {
        if let Some(items) = &mut self.0
            && let Some(items) = Arc::get_mut(items)
        {
            items.shrink_to_fit();
        }
    }
}

impl<T: Clone> List<T> {
    /// Appends an item.
    pub fn push(&mut self, item: T) {
        self.room_for_one().push(item);
    }

    /// Inserts an item before `index`.
    ///
    /// # Panics
    /// When `index` is beyond the end.
    pub fn insert(&mut self, index: usize, item: T) {
        self.room_for_one().insert(index, item);
    }

    /// Removes and returns the last item.
    pub fn pop(&mut self) -> Option<T> {
        self.own().pop()
    }

    /// Removes and returns the item at `index`.
    ///
    /// # Panics
    /// When there is no such item.
    pub fn remove(&mut self, index: usize) -> T {
        self.own().remove(index)
    }

    /// Keeps only the items that `keep` is true for.
    pub fn retain(&mut self, keep: impl FnMut(&T) -> bool) {
        self.own().retain(keep);
    }

    /// Makes room for exactly `additional` more items.
    pub fn reserve_exact(&mut self, additional: usize) {
        self.own().reserve_exact(additional);
    }

    /// The items, of this list alone.
    ///
    /// Spelt out, here and elsewhere in this file, because what the standard library has for it is ten times the code, which
    /// is compiled for each type of items.
    fn own(&mut self) -> &mut Vec<T> {
        let shared = match &self.0 {
            Some(items) => !items.is_unique(),
            None => true,
        };
        if shared {
            let mut copy = Vec::with_capacity(self.len());
            for item in self.iter() {
                copy.push(item.clone());
            }
            self.0 = Some(Arc::new(copy));
        }
        self.0.as_mut().and_then(Arc::get_mut).expect("made its own above")
    }

    fn room_for_one(&mut self) -> &mut Vec<T> {
        let items = self.own();
        // The first room is for one: lists of one item are the most common after empty ones.
        if items.len() == items.capacity() {
            items.reserve_exact(items.len().max(1));
        }
        items
    }
}

impl<T> Clone for List<T> {
    fn clone(&self) -> Self {
        List(self.0.clone())
    }
}

impl<T: PartialEq> PartialEq for List<T> {
    fn eq(&self, other: &Self) -> bool {
        self[..] == other[..]
    }
}

impl<T: Eq> Eq for List<T> {}

impl<T: PartialOrd> PartialOrd for List<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        self[..].partial_cmp(&other[..])
    }
}

impl<T: Ord> Ord for List<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self[..].cmp(&other[..])
    }
}

impl<T: Hash> Hash for List<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self[..].hash(state);
    }
}

impl<T> Default for List<T> {
    fn default() -> Self {
        List::new()
    }
}

impl<T> Deref for List<T> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        match &self.0 {
            Some(items) => items,
            None => &[],
        }
    }
}

impl<T: Clone> DerefMut for List<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.own()
    }
}

impl<T: fmt::Debug> fmt::Debug for List<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<T> From<Vec<T>> for List<T> {
    fn from(items: Vec<T>) -> Self {
        List((!items.is_empty()).then(|| Arc::new(items)))
    }
}

impl<T, const N: usize> From<[T; N]> for List<T> {
    fn from(items: [T; N]) -> Self {
        List::from(Vec::from(items))
    }
}

impl<T> FromIterator<T> for List<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut items = Vec::from_iter(items);
        items.shrink_to_fit();
        List::from(items)
    }
}

impl<T: Clone> Extend<T> for List<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        self.own().extend(items);
    }
}

impl<T: Clone> IntoIterator for List<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.map(Arc::unwrap_or_clone).unwrap_or_default().into_iter()
    }
}

impl<'a, T> IntoIterator for &'a List<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a, T: Clone> IntoIterator for &'a mut List<T> {
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
    fn a_list_is_one_word() {
        assert_eq!(size_of::<List<u64>>(), size_of::<usize>());
    }

    #[test]
    fn a_shared_list_is_copied_by_its_first_change() {
        let list: List<u8> = [1, 2].into();
        let mut other = list.clone();
        assert_eq!(list.as_ptr(), other.as_ptr());
        other.push(3);
        other[0] = 7;
        assert_eq!((&list[..], &other[..]), (&[1, 2][..], &[7, 2, 3][..]));
        assert_eq!(list.into_iter().collect::<Vec<_>>(), [1, 2]);
    }
}
