//! Named indices, which map values to objects.

use std::fmt;
use std::sync::Arc;

use kubewright_core::{Object, Str, hash};

use super::trie::Trie;

/// The name of the index by namespace, which listers use.
#[doc(alias = "NamespaceIndex")]
pub const NAMESPACE_INDEX: &str = "namespace";

type Function<T> = Arc<dyn Fn(&T, &mut dyn FnMut(Str)) + Send + Sync>;

/// Index functions by name.
///
/// A function returns any number of values of an object, or none. The writer of the store calls it,
/// so it should be fast. If it panics, the write is discarded.
///
/// ```
/// use kubewright_cache::Indexers;
/// use kubewright_core::{DynamicObject, Object, Str};
/// let indexers = Indexers::<DynamicObject>::by_namespace()
///     .with("owner", |object: &DynamicObject| object.owner_references().iter().map(|o| o.uid.clone()).collect::<Vec<Str>>());
/// assert_eq!(indexers.names().collect::<Vec<_>>(), ["namespace", "owner"]);
/// ```
#[doc(alias = "IndexFunc")]
pub struct Indexers<T> {
    functions: Vec<(Str, Function<T>)>,
}

impl<T> Clone for Indexers<T> {
    fn clone(&self) -> Self {
        Indexers { functions: self.functions.clone() }
    }
}

impl<T> Indexers<T> {
    /// No indices.
    #[must_use]
    pub fn new() -> Self {
        Indexers { functions: Vec::new() }
    }

    /// The index by namespace, which informers have by default.
    #[must_use]
    #[doc(alias = "MetaNamespaceIndexFunc")]
    pub fn by_namespace() -> Self
    where
        T: Object,
    {
        Self::new().with(NAMESPACE_INDEX, |object: &T| [Str::from(object.namespace())])
    }

    /// Adds an index. It replaces an index with the same name.
    #[must_use]
    pub fn with<I, V>(mut self, name: impl Into<Str>, values: impl Fn(&T) -> I + Send + Sync + 'static) -> Self
    where
        I: IntoIterator<Item = V>,
        V: Into<Str>,
    {
        let name = name.into();
        self.functions.retain(|(other, _)| *other != name);
        let function: Function<T> =
            Arc::new(move |object, give| values(object).into_iter().for_each(|value| give(value.into())));
        self.functions.push((name, function));
        self
    }

    /// Adds the indices of `others`. They replace indices with the same names.
    pub(crate) fn and(mut self, others: Self) -> Self {
        self.functions.retain(|(name, _)| !others.names().any(|other| other == name));
        self.functions.extend(others.functions);
        self
    }

    /// The names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.functions.iter().map(|(name, _)| name.as_str())
    }

    pub(super) fn into_indices(self) -> impl Iterator<Item = Index<T>> {
        self.functions.into_iter().map(|(name, function)| Index { name, function, buckets: Trie::default() })
    }
}

impl<T> Default for Indexers<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for Indexers<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

/// There is no index of this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("index with name {name} does not exist")]
pub struct UnknownIndex {
    pub(super) name: Str,
}

/// Indices with these names exist already. No index was added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("indexer conflict: {}", .names.join(", "))]
pub struct IndexerConflict {
    pub(super) names: Vec<String>,
}

/// One index: the slots of the objects under each value.
pub(super) struct Index<T> {
    pub(super) name: Str,
    function: Function<T>,
    /// By the hash of the value. Invariant: no bucket is empty.
    buckets: Trie<Bucket>,
}

#[derive(Clone)]
struct Bucket {
    value: Str,
    members: Trie<()>,
}

impl<T> Clone for Index<T> {
    fn clone(&self) -> Self {
        Index { name: self.name.clone(), function: self.function.clone(), buckets: self.buckets.clone() }
    }
}

impl<T> Index<T> {
    /// The values of an object, sorted and without duplicates.
    pub(super) fn values(&self, object: &T) -> Vec<Str> {
        let mut values = Vec::new();
        (self.function)(object, &mut |value| values.push(value));
        values.sort_unstable();
        values.dedup();
        values
    }

    /// Whether two versions of an object have the same value, or none. False if there are several,
    /// which only [`values`](Self::values) compares.
    pub(super) fn has_same_value(&self, old: &T, new: &T) -> bool {
        let value = |object| {
            let (mut value, mut count) = (None, 0);
            (self.function)(object, &mut |next| (value, count) = (Some(next), count + 1));
            (count < 2).then_some(value)
        };
        value(old).is_some_and(|old| value(new) == Some(old))
    }

    /// The slots of the objects with this value.
    pub(super) fn members(&self, value: &str) -> Option<&Trie<()>> {
        self.buckets.find(hash::text(value), |bucket| bucket.value == *value).map(|bucket| &bucket.members)
    }

    /// All values that objects have.
    pub(super) fn all_values(&self) -> impl Iterator<Item = &Str> {
        self.buckets.iter().map(|(_, bucket)| &bucket.value)
    }

    /// Moves an object from its old values to its new ones.
    pub(super) fn update(&mut self, slot: u32, old: &[Str], new: &[Str]) {
        old.iter().filter(|value| !new.contains(value)).for_each(|value| self.remove(value, slot));
        new.iter().filter(|value| !old.contains(value)).for_each(|value| self.insert(value, slot));
    }

    fn insert(&mut self, value: &Str, slot: u32) {
        let hash = hash::text(value);
        match self.buckets.get_mut(hash, |bucket| bucket.value == *value) {
            Some(bucket) => bucket.members.insert(slot, ()),
            None => {
                let mut members = Trie::default();
                members.insert(slot, ());
                self.buckets.insert(hash, Bucket { value: value.clone(), members });
            }
        }
    }

    fn remove(&mut self, value: &Str, slot: u32) {
        let hash = hash::text(value);
        let has_value = |bucket: &Bucket| bucket.value == *value;
        let Some(bucket) = self.buckets.get_mut(hash, has_value) else { return };
        bucket.members.remove(slot, |()| true);
        if bucket.members.len() == 0 {
            self.buckets.remove(hash, has_value);
        }
    }

    /// The same index without objects.
    pub(super) fn emptied(&self) -> Self {
        Index { name: self.name.clone(), function: self.function.clone(), buckets: Trie::default() }
    }
}
