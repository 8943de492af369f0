//! The whole store at one moment.

use std::fmt;
use std::sync::Arc;

use kubewright_core::{Object, ObjectKey, ResourceVersion, Str};

use super::hash::Hasher;
use super::index::{Index, UnknownIndex, same_key};
use super::query::Query;
use super::steps::{Log, Step};
use super::trie::{Element, Iter, Trie};

/// All objects and indices of a store at one version; making one costs nothing, and it never changes.
///
/// Objects are shared, not copied. A snapshot keeps alive what it holds: let go of it when it is old.
pub struct Snapshot<T> {
    pub(super) state: Arc<State<T>>,
}

impl<T> Clone for Snapshot<T> {
    fn clone(&self) -> Self {
        Snapshot { state: self.state.clone() }
    }
}

pub(super) struct State<T> {
    pub(super) hasher: Hasher,
    pub(super) objects: Trie<Arc<T>>,
    pub(super) indices: Vec<Index<T>>,
    pub(super) version: ResourceVersion,
}

impl<T> Clone for State<T> {
    fn clone(&self) -> Self {
        State {
            hasher: self.hasher,
            objects: self.objects.clone(),
            indices: self.indices.clone(),
            version: self.version.clone(),
        }
    }
}

impl<T: Object> State<T> {
    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<&Arc<T>> {
        let hash = self.hasher.key(namespace, name);
        self.objects.get(hash, |object| {
            // Who gets it will count a reference: that line of memory is waited for together with the one of the key.
            object.touch();
            object.name() == name && object.namespace() == namespace
        })
    }

    pub(super) fn put(&mut self, object: Arc<T>, log: &mut Log<T>) -> Option<Arc<T>> {
        let hash = self.hasher.object(&*object);
        let old = log.apply(self, Step::Put { hash, object: object.clone() });
        for index in 0..self.indices.len() {
            self.reindex(index, hash, old.as_ref(), Some(&object), log);
        }
        old
    }

    pub(super) fn remove(&mut self, namespace: &str, name: &str, log: &mut Log<T>) -> Option<Arc<T>> {
        let hash = self.hasher.key(namespace, name);
        let object = self.get(namespace, name)?.clone();
        let old = log.apply(self, Step::Remove { hash, object });
        for index in 0..self.indices.len() {
            self.reindex(index, hash, old.as_ref(), None, log);
        }
        old
    }

    /// Lets an index follow a change of the object whose key has this hash.
    pub(super) fn reindex(
        &mut self,
        index: usize,
        hash: u64,
        old: Option<&Arc<T>>,
        new: Option<&Arc<T>>,
        log: &mut Log<T>,
    ) {
        let old_values = old.map(|old| self.indices[index].values(old)).unwrap_or_default();
        let new_values = new.map(|new| self.indices[index].values(new)).unwrap_or_default();
        for (value, object) in old_values.iter().filter(|value| !new_values.has(value)).zip(old.into_iter().cycle()) {
            log.apply(self, Step::Leave { index, value: value.clone(), hash, object: object.clone() });
        }
        for (value, object) in new_values.iter().zip(new.into_iter().cycle()) {
            log.apply(self, Step::Enter { index, value: value.clone(), hash, object: object.clone() });
        }
    }

    pub(super) fn index(&self, name: &str) -> Result<&Index<T>, UnknownIndex> {
        self.indices.iter().find(|index| index.name == *name).ok_or_else(|| UnknownIndex { name: name.into() })
    }

    pub(super) fn by_index(&self, name: &str, value: &str) -> Result<Objects<'_, T>, UnknownIndex> {
        let bucket = self.index(name)?.bucket(self.hasher, value);
        Ok(Objects { entries: bucket.map(Trie::iter), remaining: bucket.map_or(0, Trie::len) })
    }

    fn bucket(&self, name: &str, value: &str) -> Option<&Trie<Arc<T>>> {
        self.index(name).ok()?.bucket(self.hasher, value)
    }

    /// At most how many objects a query selects.
    fn bound(&self, query: &Query) -> usize {
        match query {
            Query::Index { name, value } => self.bucket(name, value).map_or(0, Trie::len),
            Query::All(queries) => queries.iter().map(|query| self.bound(query)).min().unwrap_or(self.objects.len()),
            Query::Any(queries) => queries.iter().map(|query| self.bound(query)).sum(),
        }
    }

    fn matches(&self, query: &Query, object: &T) -> bool {
        match query {
            Query::Index { name, value } => {
                let hash = self.hasher.object(object);
                self.bucket(name, value)
                    .is_some_and(|bucket| bucket.get(hash, |other| same_key(&**other, object)).is_some())
            }
            Query::All(queries) => queries.iter().all(|query| self.matches(query, object)),
            Query::Any(queries) => queries.iter().any(|query| self.matches(query, object)),
        }
    }

    /// Gives each selected object once: of an intersection the smallest part is walked, of a union each part in turn.
    fn walk<'a>(&'a self, query: &Query, give: &mut dyn FnMut(&'a Arc<T>)) {
        match query {
            Query::Index { name, value } => {
                self.bucket(name, value).into_iter().flat_map(Trie::iter).for_each(give);
            }
            Query::All(queries) => {
                let Some(at) = (0..queries.len()).min_by_key(|&at| self.bound(&queries[at])) else {
                    return self.objects.iter().for_each(give);
                };
                let others = queries.iter().enumerate().filter(|(other, _)| *other != at);
                self.walk(&queries[at], &mut |object| {
                    if others.clone().all(|(_, query)| self.matches(query, object)) {
                        give(object);
                    }
                });
            }
            Query::Any(queries) => {
                for (at, query) in queries.iter().enumerate() {
                    self.walk(query, &mut |object| {
                        if !queries[..at].iter().any(|earlier| self.matches(earlier, object)) {
                            give(object);
                        }
                    });
                }
            }
        }
    }
}

impl<T: Object> Snapshot<T> {
    /// The object of this key.
    #[doc(alias = "GetByKey")]
    pub fn get_by_key(&self, key: &ObjectKey) -> Option<&Arc<T>> {
        self.state.get(&key.namespace, &key.name)
    }

    /// The object of this namespace, empty for objects of the cluster, and name.
    pub fn get(&self, namespace: &str, name: &str) -> Option<&Arc<T>> {
        self.state.get(namespace, name)
    }

    /// All objects, in no order that means anything.
    #[doc(alias = "List")]
    pub fn iter(&self) -> Objects<'_, T> {
        Objects { entries: Some(self.state.objects.iter()), remaining: self.len() }
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.state.objects.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The keys of all objects.
    #[doc(alias = "ListKeys")]
    pub fn keys(&self) -> impl Iterator<Item = ObjectKey> {
        self.iter().map(|object| object.key())
    }

    /// All objects as a list of one's own.
    pub fn to_vec(&self) -> Vec<Arc<T>> {
        self.iter().to_vec()
    }

    /// The version of the last change, list or bookmark that is part of this; empty if none had one.
    #[doc(alias = "LastStoreSyncResourceVersion")]
    pub fn resource_version(&self) -> &ResourceVersion {
        &self.state.version
    }

    /// Objects with this value in an index. Takes as long as there are hits.
    ///
    /// # Errors
    /// If there is no such index.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Objects<'_, T>, UnknownIndex> {
        self.state.by_index(name, value)
    }

    /// Objects that have a value in common with `object` in an index, each once; `object` need not be in the store.
    ///
    /// # Errors
    /// If there is no such index.
    pub fn index(&self, name: &str, object: &T) -> Result<Vec<Arc<T>>, UnknownIndex> {
        let values = self.state.index(name)?.values(object);
        let query = Query::Any(values.iter().map(|value| Query::index(name, value)).collect());
        self.select(&query)
    }

    /// The values of an object, stored or not, in an index.
    ///
    /// # Errors
    /// If there is no such index.
    pub fn values(&self, name: &str, object: &T) -> Result<Vec<Str>, UnknownIndex> {
        Ok(self.state.index(name)?.values(object).iter().cloned().collect())
    }

    /// The keys of objects with this value in an index, sorted.
    ///
    /// # Errors
    /// If there is no such index.
    pub fn index_keys(&self, name: &str, value: &str) -> Result<Vec<ObjectKey>, UnknownIndex> {
        let mut keys: Vec<ObjectKey> = self.by_index(name, value)?.map(|object| object.key()).collect();
        keys.sort();
        Ok(keys)
    }

    /// All values that objects have in an index; none if there is no such index.
    pub fn list_index_func_values(&self, name: &str) -> Vec<Str> {
        let index = self.state.index(name);
        index.map_or_else(|_| Vec::new(), |index| index.buckets.iter().map(|bucket| bucket.value.clone()).collect())
    }

    /// The names of all indices.
    #[doc(alias = "GetIndexers")]
    pub fn indexers(&self) -> impl Iterator<Item = &str> {
        self.state.indices.iter().map(|index| index.name.as_str())
    }

    /// Objects that a question over several indices selects, each once.
    ///
    /// # Errors
    /// If there is no such index.
    pub fn select(&self, query: &Query) -> Result<Vec<Arc<T>>, UnknownIndex> {
        query.names().into_iter().try_for_each(|name| self.state.index(name).map(drop))?;
        let mut selected = Vec::new();
        self.state.walk(query, &mut |object| selected.push(object.clone()));
        Ok(selected)
    }

    /// What leads from this snapshot to `later`, a snapshot of the same store. Takes as long as there are changes.
    pub fn changes<'a>(&'a self, later: &'a Snapshot<T>) -> Vec<Change<'a, T>> {
        let mut changes = Vec::new();
        let same = |one: &Arc<T>, two: &Arc<T>| same_key(&**one, &**two);
        self.state.objects.differences(&later.state.objects, &mut |before, after| {
            for old in before {
                match after.iter().find(|new| same(new, old)) {
                    Some(new) if Arc::ptr_eq(old, new) => {}
                    Some(new) => changes.push(Change::Updated { old, new }),
                    None => changes.push(Change::Removed(old)),
                }
            }
            let is_new = |new: &&&Arc<T>| !before.iter().any(|old| same(old, new));
            changes.extend(after.iter().filter(is_new).map(|new| Change::Added(new)));
        });
        changes
    }
}

/// One difference between two snapshots.
#[derive(Debug)]
pub enum Change<'a, T> {
    /// Only the later one has it.
    Added(&'a Arc<T>),
    /// Both have one of this key, and not the same.
    Updated {
        /// The earlier one's.
        old: &'a Arc<T>,
        /// The later one's.
        new: &'a Arc<T>,
    },
    /// Only the earlier one has it.
    Removed(&'a Arc<T>),
}

impl<T: Object> fmt::Debug for Snapshot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.resource_version();
        f.debug_struct("Snapshot").field("objects", &self.len()).field("version", &version.as_str()).finish()
    }
}

impl<'a, T: Object> IntoIterator for &'a Snapshot<T> {
    type Item = &'a Arc<T>;
    type IntoIter = Objects<'a, T>;

    fn into_iter(self) -> Objects<'a, T> {
        self.iter()
    }
}

/// Objects of a snapshot.
pub struct Objects<'a, T> {
    entries: Option<Iter<'a, Arc<T>>>,
    remaining: usize,
}

impl<'a, T> Objects<'a, T> {
    /// All that are left, as a list of one's own.
    ///
    /// The same as `cloned().collect()`, and faster: memory is asked for the counts of several objects at a time.
    pub fn to_vec(mut self) -> Vec<Arc<T>> {
        let mut objects = Vec::with_capacity(self.remaining);
        let mut ahead: Vec<&Arc<T>> = Vec::with_capacity(AHEAD);
        loop {
            ahead.extend(self.by_ref().take(AHEAD).inspect(|object| object.touch()));
            if ahead.is_empty() {
                return objects;
            }
            objects.extend(ahead.drain(..).cloned());
        }
    }
}

/// As many reads as a processor has under way.
const AHEAD: usize = 16;

impl<'a, T> Iterator for Objects<'a, T> {
    type Item = &'a Arc<T>;

    fn next(&mut self) -> Option<&'a Arc<T>> {
        let next = self.entries.as_mut()?.next()?;
        self.remaining -= 1;
        Some(next)
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
