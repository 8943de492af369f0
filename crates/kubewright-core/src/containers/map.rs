//! The map of all API types: string keys, a sorted vector inside.

use std::collections::BTreeMap;
use std::fmt;

use crate::{List, Str};

/// Maps up to this length are searched linearly: most keys already differ in length.
const SCANNED: usize = 12;

/// After this many out-of-order keys a [`MapBuilder`] stops moving entries.
const MAX_OUT_OF_ORDER: usize = 64;

/// A map with string keys, stored as a vector sorted by key.
///
/// Labels, annotations and data have few keys and are read far more often than written. A map needs
/// one allocation, and iterates in the order in which Kubernetes prints it.
///
/// ```
/// use kubewright_core::Map;
/// let mut labels: Map<&str> = [("tier", "web"), ("app", "shop")].into();
/// assert_eq!(labels.get("app"), Some(&"shop"));
/// assert_eq!(labels.keys().collect::<Vec<_>>(), ["app", "tier"]);
/// assert_eq!(labels.insert("app", "cart"), Some("shop"));
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Map<V> {
    /// Invariant: sorted by key, without duplicates.
    entries: List<(Str, V)>,
}

impl<V> Map<V> {
    /// An empty map.
    pub const fn new() -> Self {
        Map { entries: List::new() }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&V> {
        self.find(key).map(|at| &self.entries[at].1)
    }

    /// Whether the map contains `key`.
    pub fn contains_key(&self, key: &str) -> bool {
        self.find(key).is_some()
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// Key and value at `index` in key order.
    ///
    /// # Panics
    /// If `index` is out of bounds.
    pub fn at(&self, index: usize) -> (&Str, &V) {
        let (key, value) = &self.entries[index];
        (key, value)
    }

    /// Keys and values in key order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Str, &V)> + DoubleEndedIterator {
        self.entries.iter().map(|(key, value)| (key, value))
    }

    /// Keys in order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &Str> + DoubleEndedIterator {
        self.entries.iter().map(|(key, _)| key)
    }

    /// Values in key order.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &V> + DoubleEndedIterator {
        self.entries.iter().map(|(_, value)| value)
    }

    /// Releases unused capacity.
    pub fn shrink_to_fit(&mut self) {
        self.entries.shrink_to_fit();
    }

    /// Makes clones share the entries.
    pub(crate) fn share(&mut self) {
        self.entries.share();
    }

    fn find(&self, key: &str) -> Option<usize> {
        match self.entries.len() {
            ..=SCANNED => self.entries.iter().position(|(have, _)| have.as_str() == key),
            _ => self.position(key).ok(),
        }
    }

    fn position(&self, key: &str) -> Result<usize, usize> {
        // Most inputs have sorted keys, so appending is the common case.
        match self.entries.last() {
            Some((last, _)) if last.as_str() < key => Err(self.entries.len()),
            _ => self.entries.binary_search_by(|(have, _)| have.as_str().cmp(key)),
        }
    }
}

impl<V: Clone> Map<V> {
    /// The value of `key`, mutable.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut V> {
        self.find(key).map(|at| &mut self.entries[at].1)
    }

    /// Sets the value of `key` and returns the previous one.
    pub fn insert(&mut self, key: impl Into<Str>, value: V) -> Option<V> {
        let key = key.into();
        match self.position(&key) {
            Ok(at) => Some(std::mem::replace(&mut self.entries[at].1, value)),
            Err(at) if at == self.entries.len() => {
                self.entries.push((key, value));
                None
            }
            Err(at) => {
                self.entries.insert(at, (key, value));
                None
            }
        }
    }

    /// The value of `key`, set to `make()` if absent.
    pub fn get_or_insert_with(&mut self, key: impl Into<Str>, make: impl FnOnce() -> V) -> &mut V {
        let key = key.into();
        let at = match self.position(&key) {
            Ok(at) => at,
            Err(at) => {
                self.entries.insert(at, (key, make()));
                at
            }
        };
        &mut self.entries[at].1
    }

    /// Removes `key` and returns its value.
    pub fn remove(&mut self, key: &str) -> Option<V> {
        self.find(key).map(|at| self.entries.remove(at).1)
    }

    /// Keeps only the entries for which `keep` returns true.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &V) -> bool) {
        self.entries.retain(|(key, value)| keep(key, value));
    }

    /// Keys and mutable values in key order.
    pub fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = (&Str, &mut V)> + DoubleEndedIterator {
        self.entries.iter_mut().map(|(key, value)| (&*key, value))
    }

    /// Reserves capacity for exactly `additional` more entries.
    pub fn reserve_exact(&mut self, additional: usize) {
        self.entries.reserve_exact(additional);
    }
}

impl<V> Default for Map<V> {
    fn default() -> Self {
        Map::new()
    }
}

impl<V: fmt::Debug> fmt::Debug for Map<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Builds a [`Map`] from many entries in any order.
///
/// Inserting into a sorted vector moves all entries behind the new one. A builder does so only for
/// the first few out-of-order keys, then switches to a tree. Building is `O(n log n)` for any
/// order.
///
/// ```
/// use kubewright_core::MapBuilder;
/// let mut labels = MapBuilder::new();
/// assert_eq!(labels.insert("tier", "web"), None);
/// assert_eq!(labels.insert("app", "shop"), None);
/// assert_eq!(labels.insert("app", "cart"), Some("shop"));
/// assert_eq!(labels.finish().keys().collect::<Vec<_>>(), ["app", "tier"]);
/// ```
#[derive(Debug, Clone)]
pub struct MapBuilder<V> {
    /// Invariant: empty once `tree` has entries.
    map: Map<V>,
    tree: BTreeMap<Str, V>,
    /// Number of keys inserted before the end of `map`.
    out_of_order: usize,
}

impl<V> MapBuilder<V> {
    /// An empty builder.
    pub const fn new() -> Self {
        MapBuilder { map: Map::new(), tree: BTreeMap::new(), out_of_order: 0 }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.map.len() + self.tree.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<V: Clone> MapBuilder<V> {
    /// Reserves capacity for exactly `additional` more entries.
    pub fn reserve_exact(&mut self, additional: usize) {
        self.map.reserve_exact(additional);
    }

    /// Sets the value of `key` and returns the previous one.
    pub fn insert(&mut self, key: impl Into<Str>, value: V) -> Option<V> {
        let key = key.into();
        if self.uses_tree_for(&key) { self.tree.insert(key, value) } else { self.map.insert(key, value) }
    }

    /// The value of `key`, set to `make()` if absent.
    pub fn get_or_insert_with(&mut self, key: impl Into<Str>, make: impl FnOnce() -> V) -> &mut V {
        let key = key.into();
        if self.uses_tree_for(&key) {
            self.tree.entry(key).or_insert_with(make)
        } else {
            self.map.get_or_insert_with(key, make)
        }
    }

    /// The resulting map.
    pub fn finish(mut self) -> Map<V> {
        if self.tree.is_empty() {
            self.map.shrink_to_fit();
            return self.map;
        }
        Map { entries: self.tree.into_iter().collect() }
    }

    /// Whether `key` belongs into the tree. Moves all entries there after too many out-of-order
    /// keys.
    fn uses_tree_for(&mut self, key: &str) -> bool {
        if !self.tree.is_empty() {
            return true;
        }
        if self.map.entries.last().is_none_or(|(last, _)| last.as_str() < key) {
            return false;
        }
        self.out_of_order += 1;
        if self.out_of_order <= MAX_OUT_OF_ORDER {
            return false;
        }
        self.tree = std::mem::take(&mut self.map).into_iter().collect();
        true
    }
}

impl<V> Default for MapBuilder<V> {
    fn default() -> Self {
        MapBuilder::new()
    }
}

/// Continues with the entries of a map.
impl<V> From<Map<V>> for MapBuilder<V> {
    fn from(map: Map<V>) -> Self {
        MapBuilder { map, tree: BTreeMap::new(), out_of_order: 0 }
    }
}

impl<K: Into<Str>, V: Clone> FromIterator<(K, V)> for Map<V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = MapBuilder::new();
        for (key, value) in entries {
            map.insert(key, value);
        }
        map.finish()
    }
}

impl<K: Into<Str>, V: Clone> Extend<(K, V)> for Map<V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        let mut map = MapBuilder::from(std::mem::take(self));
        for (key, value) in entries {
            map.insert(key, value);
        }
        *self = map.finish();
    }
}

impl<K: Into<Str>, V: Clone, const N: usize> From<[(K, V); N]> for Map<V> {
    fn from(entries: [(K, V); N]) -> Self {
        entries.into_iter().collect()
    }
}

impl<V: Clone> IntoIterator for Map<V> {
    type Item = (Str, V);
    type IntoIter = <List<(Str, V)> as IntoIterator>::IntoIter;
    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}

impl<'a, V> IntoIterator for &'a Map<V> {
    type Item = &'a (Str, V);
    type IntoIter = std::slice::Iter<'a, (Str, V)>;
    fn into_iter(self) -> Self::IntoIter {
        self.entries.iter()
    }
}

#[cfg(feature = "serde")]
impl<V: serde_core::Serialize> serde_core::Serialize for Map<V> {
    fn serialize<S: serde_core::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

/// Accepts a map; `null` is the empty map.
#[cfg(feature = "serde")]
impl<'de, V: serde_core::Deserialize<'de> + Clone> serde_core::Deserialize<'de> for Map<V> {
    fn deserialize<D: serde_core::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let entries = Option::<std::collections::BTreeMap<String, V>>::deserialize(deserializer)?;
        Ok(entries.unwrap_or_default().into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_behaves_as_a_sorted_map(writes in proptest::collection::vec(("[a-d]{1,2}", proptest::option::of(0..9u8)), 0..60)) {
            let (mut map, mut model) = (Map::new(), BTreeMap::new());
            for (key, value) in writes {
                match value {
                    Some(value) => prop_assert_eq!(map.insert(key.as_str(), value), model.insert(key, value)),
                    None => prop_assert_eq!(map.remove(&key), model.remove(&key)),
                }
            }
            prop_assert!(map.iter().map(|(k, v)| (k.as_str(), v)).eq(model.iter().map(|(k, v)| (k.as_str(), v))));
        }
    }

    proptest! {
        #[test]
        fn a_builder_behaves_as_a_sorted_map(writes in proptest::collection::vec(("[a-d]{1,4}", 0..9u8), 0..400)) {
            let (mut builder, mut model) = (MapBuilder::new(), BTreeMap::new());
            for (index, (key, value)) in writes.into_iter().enumerate() {
                if index % 2 == 0 {
                    prop_assert_eq!(builder.insert(key.as_str(), value), model.insert(key, value));
                } else {
                    prop_assert_eq!(*builder.get_or_insert_with(key.as_str(), || value), *model.entry(key).or_insert(value));
                }
                prop_assert_eq!(builder.len(), model.len());
            }
            let map = builder.finish();
            prop_assert!(map.iter().map(|(k, v)| (k.as_str(), v)).eq(model.iter().map(|(k, v)| (k.as_str(), v))));
        }
    }

    #[cfg(feature = "serde")]
    #[test]
    fn serde_takes_null_for_an_empty_map() {
        let map: Map<u8> = serde_json::from_str(r#"{"b":2,"a":1}"#).unwrap();
        assert_eq!(serde_json::to_string(&map).unwrap(), r#"{"a":1,"b":2}"#);
        assert!(serde_json::from_str::<Map<u8>>("null").unwrap().is_empty());
    }
}
