//! The list of all API types: no allocation while empty, shared between objects with equal content.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::{Deref, DerefMut};

use thin_vec::ThinVec;
use triomphe::Arc;

/// A growable list that allocates nothing while it is empty, as most lists of an object are.
///
/// An empty list is not serialised. It dereferences to a slice. Lists in a cache may share their
/// items: cloning such a list is O(1), and it is copied on the first change.
///
/// ```
/// use kubewright_core::List;
/// let mut args: List<&str> = ["--listen=:8080"].into();
/// args.push("--verbose");
/// assert_eq!(args.iter().copied().collect::<Vec<_>>(), ["--listen=:8080", "--verbose"]);
/// ```
pub struct List<T>(Items<T>);

/// Two words. Sharing wraps the vector instead of converting it, because a conversion would be
/// compiled for each item type.
enum Items<T> {
    /// Items of this list alone; also the form of an empty list.
    Own(ThinVec<T>),
    /// Items that other lists may share.
    Shared(Arc<ThinVec<T>>),
}

impl<T> List<T> {
    /// An empty list.
    pub const fn new() -> Self {
        List(Items::Own(ThinVec::new()))
    }

    /// Removes all items.
    pub fn clear(&mut self) {
        match &mut self.0 {
            Items::Own(items) => items.clear(),
            Items::Shared(_) => *self = List::new(),
        }
    }

    /// Makes clones share the items.
    pub(crate) fn share(&mut self) {
        if let Items::Own(items) = &mut self.0 {
            self.0 = Items::Shared(Arc::new(std::mem::take(items)));
        }
    }

    /// Releases unused capacity.
    pub fn shrink_to_fit(&mut self) {
        if let Items::Own(items) = &mut self.0
            && items.capacity() > items.len()
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

    /// Appends a default item and returns it, to be filled in place.
    pub(crate) fn push_default(&mut self) -> &mut T
    where
        T: Default,
    {
        let items = self.room_for_one();
        items.push(T::default());
        items.last_mut().expect("pushed the line before")
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

    /// Keeps only the items for which `keep` returns true.
    pub fn retain(&mut self, keep: impl FnMut(&T) -> bool) {
        self.own().retain(keep);
    }

    /// Reserves capacity for exactly `additional` more items.
    pub fn reserve_exact(&mut self, additional: usize) {
        self.own().reserve_exact(additional);
    }

    /// The items for modification; copies shared ones.
    fn own(&mut self) -> &mut ThinVec<T> {
        if let Items::Shared(items) = &self.0 {
            self.0 = Items::Own((**items).clone());
        }
        match &mut self.0 {
            Items::Own(items) => items,
            Items::Shared(_) => unreachable!("made its own above"),
        }
    }

    fn room_for_one(&mut self) -> &mut ThinVec<T> {
        let items = self.own();
        // Starts with a capacity of one: after empty lists, lists of one item are the most common.
        if items.len() == items.capacity() {
            items.reserve_exact(items.len().max(1));
        }
        items
    }
}

impl<T: Clone> Clone for List<T> {
    fn clone(&self) -> Self {
        List(match &self.0 {
            Items::Own(items) => Items::Own(items.clone()),
            Items::Shared(items) => Items::Shared(Arc::clone(items)),
        })
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
    fn deref(&self) -> &[T] {
        match &self.0 {
            Items::Own(items) => items,
            Items::Shared(items) => items,
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
        let mut list = List(Items::Own(items.into_iter().collect()));
        list.shrink_to_fit();
        list
    }
}

impl<T: Clone> Extend<T> for List<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        self.own().extend(items);
    }
}

impl<T: Clone> IntoIterator for List<T> {
    type Item = T;
    type IntoIter = thin_vec::IntoIter<T>;
    fn into_iter(mut self) -> Self::IntoIter {
        std::mem::take(self.own()).into_iter()
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

#[cfg(feature = "serde")]
impl<T: serde_core::Serialize> serde_core::Serialize for List<T> {
    fn serialize<S: serde_core::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self)
    }
}

/// Accepts a list; `null` is the empty list.
#[cfg(feature = "serde")]
impl<'de, T: serde_core::Deserialize<'de>> serde_core::Deserialize<'de> for List<T> {
    fn deserialize<D: serde_core::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::<Vec<T>>::deserialize(deserializer)?.unwrap_or_default().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_two_words() {
        assert_eq!(size_of::<List<u64>>(), 2 * size_of::<usize>());
    }

    #[test]
    fn a_shared_list_is_copied_by_its_first_change() {
        let mut list: List<u8> = [1, 2].into();
        list.share();
        let mut other = list.clone();
        assert_eq!(list.as_ptr(), other.as_ptr());
        other.push(3);
        other[0] = 7;
        assert_eq!((&list[..], &other[..]), (&[1, 2][..], &[7, 2, 3][..]));
        assert_eq!(list.into_iter().collect::<Vec<_>>(), [1, 2]);
    }

    #[cfg(feature = "serde")]
    #[test]
    fn serde_takes_null_for_an_empty_list() {
        let list: List<u8> = serde_json::from_str("[1,2]").unwrap();
        assert_eq!(serde_json::to_string(&list).unwrap(), "[1,2]");
        assert_eq!(serde_json::from_str::<List<u8>>("null").unwrap(), List::new());
    }
}
