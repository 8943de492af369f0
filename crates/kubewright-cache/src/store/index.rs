//! Named indices: which objects have which value.

use std::fmt;
use std::sync::Arc;

use kubewright_core::{Object, Str};

use super::buckets::Buckets;

/// The name of the index by namespace, which listers use.
#[doc(alias = "NamespaceIndex")]
pub const NAMESPACE_INDEX: &str = "namespace";

type Function<T> = Arc<dyn Fn(&T, &mut dyn FnMut(Str)) + Send + Sync>;

/// Index functions by name.
///
/// A function gives 0 to n values for an object. It cannot fail: an object that has no sensible value has none. It is
/// called by the writer of the store, so it should be quick; if it panics, the write has not happened.
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
    /// None.
    #[must_use]
    pub fn new() -> Self {
        Indexers { functions: Vec::new() }
    }

    /// One, by namespace, as informers have it.
    #[must_use]
    #[doc(alias = "MetaNamespaceIndexFunc")]
    pub fn by_namespace() -> Self
    where
        T: Object,
    {
        Self::new().with(NAMESPACE_INDEX, |object: &T| [Str::from(object.namespace())])
    }

    /// Adds an index; of two with one name the last counts.
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

    /// These and those of `others`; of two with one name the other one counts.
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
        self.functions.into_iter().map(|(name, function)| Index { name, function, buckets: Buckets::default() })
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

/// An index of this name exists already; none was added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("indexer conflict: {}", .names.join(", "))]
pub struct IndexerConflict {
    pub(super) names: Vec<String>,
}

/// One index: the slots of objects under each value.
pub(super) struct Index<T> {
    pub(super) name: Str,
    function: Function<T>,
    pub(super) buckets: Buckets,
}

impl<T> Clone for Index<T> {
    fn clone(&self) -> Self {
        Index { name: self.name.clone(), function: self.function.clone(), buckets: self.buckets.clone() }
    }
}

impl<T> Index<T> {
    /// The values of an object, each once.
    pub(super) fn values(&self, object: &T) -> Values {
        let mut values = Values::default();
        (self.function)(object, &mut |value| values.push(value));
        values
    }
}

/// The values of one object in one index; most have one at most, which takes no allocation.
#[derive(Default)]
pub(super) struct Values {
    first: Option<Str>,
    rest: Vec<Str>,
}

impl Values {
    fn push(&mut self, value: Str) {
        if self.first.is_none() {
            self.first = Some(value);
        } else if !self.has(&value) {
            self.rest.push(value);
        }
    }

    pub(super) fn has(&self, value: &Str) -> bool {
        self.iter().any(|other| other == value)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Str> {
        self.first.iter().chain(&self.rest)
    }
}
