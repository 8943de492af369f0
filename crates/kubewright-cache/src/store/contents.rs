//! The contents of a store at one moment, and how writes change them.

use std::mem;
use std::sync::Arc;

use kubewright_core::{Object, ObjectKey, hash};

use super::index::{Index, UnknownIndex};
use super::marks::Marks;
use super::objects::Objects;
use super::query::Query;
use super::trie::Trie;
use super::versions::StoreVersions;

/// Each object has a slot: a number that it keeps until it is removed.
///
/// Slots are assigned in the order of arrival, which is mostly the order of objects in memory.
/// Invariants: `slot_of` has each slot once. An index has the slot of an object under each value of
/// the object, and no other slots. The numbers below `objects.len() + vacant.len()` are in one of
/// the two.
pub(super) struct Contents<T> {
    /// By slot.
    pub(super) objects: Trie<Arc<T>>,
    /// Slots of removed objects.
    vacant: Trie<()>,
    /// Slots by the hash of the key. Keys are not stored again.
    slot_of: Trie<u32>,
    /// Behind a pointer, because most writes change no index.
    pub(super) indices: Arc<Vec<Index<T>>>,
    pub(super) versions: StoreVersions,
    pub(super) marks: Marks,
    /// Number of transactions so far.
    pub(super) generation: u64,
}

impl<T> Clone for Contents<T> {
    fn clone(&self) -> Self {
        Contents {
            objects: self.objects.clone(),
            vacant: self.vacant.clone(),
            slot_of: self.slot_of.clone(),
            indices: self.indices.clone(),
            versions: self.versions.clone(),
            marks: self.marks.clone(),
            generation: self.generation,
        }
    }
}

impl<T: Object> Contents<T> {
    pub(super) fn new(indices: Vec<Index<T>>) -> Self {
        Contents {
            objects: Trie::default(),
            vacant: Trie::default(),
            slot_of: Trie::default(),
            indices: Arc::new(indices),
            versions: StoreVersions::default(),
            marks: Marks::default(),
            generation: 0,
        }
    }

    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<&Arc<T>> {
        self.objects.get(self.slot(hash::key(namespace, name), namespace, name)?)
    }

    pub(super) fn get_by_key(&self, key: &ObjectKey) -> Option<&Arc<T>> {
        self.objects.get(self.slot(key.hash_code(), key.namespace(), key.name())?)
    }

    fn slot(&self, hash: u32, namespace: &str, name: &str) -> Option<u32> {
        let has_key = |object: &Arc<T>| object.name() == name && object.namespace() == namespace;
        self.slot_of.find(hash, |slot| self.objects.get(*slot).is_some_and(has_key)).copied()
    }

    pub(super) fn put(&mut self, object: Arc<T>) -> Option<Arc<T>> {
        let hash = hash::key(object.namespace(), object.name());
        let Some(slot) = self.slot(hash, object.namespace(), object.name()) else {
            let slot =
                self.vacant.iter().next().map_or((self.objects.len() + self.vacant.len()) as u32, |entry| entry.0);
            self.vacant.remove(slot, |()| true);
            self.slot_of.insert(hash, slot);
            self.reindex(slot, None, Some(&object));
            self.objects.insert(slot, object);
            return None;
        };
        let old = mem::replace(self.objects.get_mut(slot, |_| true)?, object.clone());
        self.reindex(slot, Some(&old), Some(&object));
        Some(old)
    }

    pub(super) fn remove(&mut self, namespace: &str, name: &str) -> Option<Arc<T>> {
        let hash = hash::key(namespace, name);
        let slot = self.slot(hash, namespace, name)?;
        let old = self.objects.remove(slot, |_| true);
        self.slot_of.remove(hash, |other| *other == slot);
        self.vacant.insert(slot, ());
        self.reindex(slot, old.as_deref(), None);
        old
    }

    /// Removes all objects and marks.
    pub(super) fn clear(&mut self) {
        let (versions, generation) = (mem::take(&mut self.versions), self.generation);
        *self = Contents { versions, generation, ..Contents::new(self.indices.iter().map(Index::emptied).collect()) };
    }

    /// Adds an index over the objects.
    pub(super) fn add_index(&mut self, mut index: Index<T>) {
        for (slot, object) in self.objects.iter() {
            let values = index.values(object);
            index.update(slot, &[], &values);
        }
        Arc::make_mut(&mut self.indices).push(index);
    }

    /// Updates the indices whose values differ between two versions of an object.
    fn reindex(&mut self, slot: u32, old: Option<&T>, new: Option<&T>) {
        for at in 0..self.indices.len() {
            let index = &self.indices[at];
            if let (Some(old), Some(new)) = (old, new)
                && index.has_same_value(old, new)
            {
                continue;
            }
            let values = |object: Option<&T>| object.map(|object| index.values(object)).unwrap_or_default();
            let (old, new) = (values(old), values(new));
            Arc::make_mut(&mut self.indices)[at].update(slot, &old, &new);
        }
    }

    pub(super) fn index(&self, name: &str) -> Result<&Index<T>, UnknownIndex> {
        self.indices.iter().find(|index| index.name == *name).ok_or_else(|| UnknownIndex { name: name.into() })
    }

    pub(super) fn by_index(&self, name: &str, value: &str) -> Result<Objects<'_, T>, UnknownIndex> {
        Ok(Objects::members(&self.objects, self.index(name)?.members(value)))
    }

    fn members(&self, name: &str, value: &str) -> Option<&Trie<()>> {
        self.index(name).ok()?.members(value)
    }

    /// The most objects that a query may select.
    fn bound(&self, query: &Query) -> usize {
        match query {
            Query::Index { name, value } => self.members(name, value).map_or(0, Trie::len),
            Query::All(queries) => queries.iter().map(|query| self.bound(query)).min().unwrap_or(self.objects.len()),
            Query::Any(queries) => queries.iter().map(|query| self.bound(query)).sum(),
        }
    }

    fn matches(&self, query: &Query, slot: u32) -> bool {
        match query {
            Query::Index { name, value } => self.members(name, value).is_some_and(|slots| slots.get(slot).is_some()),
            Query::All(queries) => queries.iter().all(|query| self.matches(query, slot)),
            Query::Any(queries) => queries.iter().any(|query| self.matches(query, slot)),
        }
    }

    /// Slots that include all selected ones, each once. An intersection has those of its smallest
    /// operand.
    fn candidates(&self, query: &Query) -> Vec<u32> {
        match query {
            Query::Index { name, value } => {
                self.members(name, value).into_iter().flat_map(Trie::iter).map(|(slot, ())| slot).collect()
            }
            Query::All(queries) => match queries.iter().min_by_key(|query| self.bound(query)) {
                Some(smallest) => self.candidates(smallest),
                None => self.objects.iter().map(|(slot, _)| slot).collect(),
            },
            Query::Any(queries) => {
                let mut slots: Vec<u32> = queries.iter().flat_map(|query| self.candidates(query)).collect();
                slots.sort_unstable();
                slots.dedup();
                slots
            }
        }
    }

    /// The objects that a query selects, each once.
    pub(super) fn select(&self, query: &Query) -> Vec<Arc<T>> {
        let selected = self.candidates(query).into_iter().filter(|slot| self.matches(query, *slot));
        selected.filter_map(|slot| self.objects.get(slot).cloned()).collect()
    }
}
