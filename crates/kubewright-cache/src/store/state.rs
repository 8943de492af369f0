//! What a store holds at one moment, and how it changes.

use std::sync::Arc;

use kubewright_core::{Object, ObjectKey, hash};

use super::index::{Index, UnknownIndex};
use super::marks::Marks;
use super::numbers::Numbers;
use super::objects::Objects;
use super::query::Query;
use super::slots::{Slots, touch};
use super::steps::{Log, Step};
use super::table::Table;
use super::versions::Versions;

/// Invariant: `table` has one entry for each object, and an index has its slot under each of its values.
pub(super) struct State<T> {
    pub(super) table: Table,
    pub(super) slots: Slots<T>,
    pub(super) indices: Vec<Index<T>>,
    pub(super) versions: Versions,
    pub(super) marks: Marks,
}

impl<T> Clone for State<T> {
    fn clone(&self) -> Self {
        State {
            table: self.table.clone(),
            slots: self.slots.clone(),
            indices: self.indices.clone(),
            versions: self.versions.clone(),
            marks: self.marks.clone(),
        }
    }
}

impl<T: Object> State<T> {
    pub(super) fn new(indices: Vec<Index<T>>) -> Self {
        State {
            table: Table::default(),
            slots: Slots::default(),
            indices,
            versions: Versions::default(),
            marks: Marks::default(),
        }
    }

    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<&Arc<T>> {
        self.find(hash::key(namespace, name), namespace, name).map(|(_, object)| object)
    }

    pub(super) fn get_by_key(&self, key: &ObjectKey) -> Option<&Arc<T>> {
        self.find(key.hash_code(), key.namespace(), key.name()).map(|(_, object)| object)
    }

    /// The object of a key with this hash, and its slot.
    // To call it, and `recognise`, took a seventh of a look-up.
    #[inline(always)]
    fn find(&self, hash: u32, namespace: &str, name: &str) -> Option<(u32, &Arc<T>)> {
        let first = self.table.first(hash)?;
        match self.recognise(first, namespace, name) {
            Some(object) => Some((first, object)),
            None => self.find_another(hash, namespace, name),
        }
    }

    /// The same where keys have the same hash.
    #[cold]
    fn find_another(&self, hash: u32, namespace: &str, name: &str) -> Option<(u32, &Arc<T>)> {
        let slot = self.table.find(hash, &|slot| self.recognise(slot, namespace, name).is_some())?;
        Some((slot, self.slots.get(slot)?))
    }

    /// The object in a slot, if this is its key.
    #[inline(always)]
    fn recognise(&self, slot: u32, namespace: &str, name: &str) -> Option<&Arc<T>> {
        let object = self.slots.get(slot)?;
        // Who gets it will count a reference: that line of memory is waited for together with the one of the key.
        touch(object);
        (same(object.name(), name) && same(object.namespace(), namespace)).then_some(object)
    }

    pub(super) fn put(&mut self, object: Arc<T>, log: &mut Log<T>) -> Option<Arc<T>> {
        let hash = hash::key(object.namespace(), object.name());
        let found = self.find(hash, object.namespace(), object.name()).map(|(slot, _)| slot);
        let slot = found.unwrap_or_else(|| self.slots.next());
        let step = match found {
            Some(slot) => Step::Set { slot, object: object.clone() },
            None => Step::Add { hash, slot, object: object.clone() },
        };
        let old = log.apply(self, step);
        for index in 0..self.indices.len() {
            self.reindex(index, slot, old.as_deref(), Some(&object), log);
        }
        old
    }

    pub(super) fn remove(&mut self, namespace: &str, name: &str, log: &mut Log<T>) -> Option<Arc<T>> {
        let hash = hash::key(namespace, name);
        let (slot, _) = self.find(hash, namespace, name)?;
        let old = log.apply(self, Step::Remove { hash, slot });
        for index in 0..self.indices.len() {
            self.reindex(index, slot, old.as_deref(), None, log);
        }
        old
    }

    /// Lets an index follow a change of the object in a slot. It is not touched where values stay the same.
    pub(super) fn reindex(&mut self, index: usize, slot: u32, old: Option<&T>, new: Option<&T>, log: &mut Log<T>) {
        let values = |object: Option<&T>| object.map(|object| self.indices[index].values(object)).unwrap_or_default();
        let (old, new) = (values(old), values(new));
        for value in old.iter().filter(|value| !new.has(value)) {
            log.apply(self, Step::Leave { index, value: value.clone(), slot });
        }
        for value in new.iter().filter(|value| !old.has(value)) {
            log.apply(self, Step::Enter { index, value: value.clone(), slot });
        }
    }

    pub(super) fn index(&self, name: &str) -> Result<&Index<T>, UnknownIndex> {
        self.indices.iter().find(|index| index.name == *name).ok_or_else(|| UnknownIndex { name: name.into() })
    }

    pub(super) fn by_index(&self, name: &str, value: &str) -> Result<Objects<'_, T>, UnknownIndex> {
        Ok(match self.index(name)?.buckets.members(value) {
            Some(members) => Objects::some(&self.slots, members),
            None => Objects::none(&self.slots),
        })
    }

    fn members(&self, name: &str, value: &str) -> Option<&Numbers> {
        self.index(name).ok()?.buckets.members(value)
    }

    /// At most how many objects a query selects.
    fn bound(&self, query: &Query) -> usize {
        match query {
            Query::Index { name, value } => self.members(name, value).map_or(0, Numbers::len),
            Query::All(queries) => queries.iter().map(|query| self.bound(query)).min().unwrap_or(self.slots.len()),
            Query::Any(queries) => queries.iter().map(|query| self.bound(query)).sum(),
        }
    }

    fn matches(&self, query: &Query, slot: u32) -> bool {
        match query {
            Query::Index { name, value } => self.members(name, value).is_some_and(|members| members.has(slot)),
            Query::All(queries) => queries.iter().all(|query| self.matches(query, slot)),
            Query::Any(queries) => queries.iter().any(|query| self.matches(query, slot)),
        }
    }

    /// Gives the slot of each selected object once: of an intersection the smallest part is walked, of a union each part in
    /// turn.
    pub(super) fn walk(&self, query: &Query, give: &mut dyn FnMut(u32)) {
        match query {
            Query::Index { name, value } => {
                self.members(name, value).into_iter().flat_map(Numbers::parts).flatten().for_each(|slot| give(*slot));
            }
            Query::All(queries) => {
                let Some(at) = (0..queries.len()).min_by_key(|&at| self.bound(&queries[at])) else {
                    return self.slots.entries().for_each(|(slot, _)| give(slot));
                };
                let others = queries.iter().enumerate().filter(|(other, _)| *other != at);
                self.walk(&queries[at], &mut |slot| {
                    if others.clone().all(|(_, query)| self.matches(query, slot)) {
                        give(slot);
                    }
                });
            }
            Query::Any(queries) => {
                for (at, query) in queries.iter().enumerate() {
                    self.walk(query, &mut |slot| {
                        if !queries[..at].iter().any(|earlier| self.matches(earlier, slot)) {
                            give(slot);
                        }
                    });
                }
            }
        }
    }
}

/// Whether two objects have one key.
pub(super) fn same_key<T: Object>(one: &T, two: &T) -> bool {
    same(one.name(), two.name()) && same(one.namespace(), two.namespace())
}

/// Whether two texts are equal, without a look at them if they are one, and without a call if they are as short as namespaces
/// mostly are.
#[inline]
fn same(one: &str, two: &str) -> bool {
    let (one, two) = (one.as_bytes(), two.as_bytes());
    if std::ptr::eq(one, two) {
        return true;
    }
    match (one.first_chunk::<8>(), two.first_chunk::<8>()) {
        (Some(a), Some(b)) if one.len() <= 16 => {
            one.len() == two.len() && a == b && one.last_chunk::<8>() == two.last_chunk::<8>()
        }
        _ => one == two,
    }
}
