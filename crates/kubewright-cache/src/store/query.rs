//! Queries over several indices.

use kubewright_core::Str;

/// Selects objects by their values in indices.
///
/// ```
/// use kubewright_cache::{Indexers, Query, Store};
/// use kubewright_core::{DynamicObject, Object, Str};
/// let indexers = Indexers::by_namespace()
///     .with("app", |object: &DynamicObject| object.labels().get("app").map(Str::from));
/// let store = Store::new(indexers);
/// let web: DynamicObject = r#"{"metadata": {"namespace": "a", "name": "web", "labels": {"app": "web"}}}"#.parse()?;
/// store.add(web);
/// let query = Query::index("app", "web").or(Query::index("app", "shop")).and(Query::index("namespace", "a"));
/// assert_eq!(store.select(&query)?.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Query {
    /// Objects with this value in this index.
    Index {
        /// The name of the index.
        name: Str,
        /// The value.
        value: Str,
    },
    /// The intersection of these queries. All objects if there are none.
    All(Vec<Query>),
    /// The union of these queries.
    Any(Vec<Query>),
}

impl Query {
    /// Objects with this value in this index.
    #[must_use]
    pub fn index(name: impl Into<Str>, value: impl Into<Str>) -> Self {
        Query::Index { name: name.into(), value: value.into() }
    }

    /// The intersection.
    #[must_use]
    pub fn and(self, other: Query) -> Self {
        Query::All(vec![self, other])
    }

    /// The union.
    #[must_use]
    pub fn or(self, other: Query) -> Self {
        Query::Any(vec![self, other])
    }

    /// The names of all indices in the query.
    pub(super) fn names(&self) -> Vec<&Str> {
        match self {
            Query::Index { name, .. } => vec![name],
            Query::All(queries) | Query::Any(queries) => queries.iter().flat_map(Query::names).collect(),
        }
    }
}
