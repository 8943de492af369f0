//! Collects the initial objects of a streaming list.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubewright_core::stream::ObjectIdentity;
use kubewright_core::{Object, ObjectKey, ResourceVersion, hash};

use super::intake::ObjectVersions;
use crate::ObjectSet;
use crate::store::Trie;

/// Objects in order of first arrival, each at its newest state.
pub(super) struct ListBuffer<T> {
    objects: Vec<Option<Arc<T>>>,
    /// Positions of objects by key hash. A `HashMap` of keys would rehash all keys whenever it
    /// grows, which is slow for a million objects.
    positions: Trie<usize>,
    /// Objects whose newest state cannot be decoded. `objects` may contain an earlier state.
    undecodable: BTreeMap<ObjectKey, ObjectIdentity>,
}

impl<T> Default for ListBuffer<T> {
    fn default() -> Self {
        ListBuffer { objects: Vec::new(), positions: Trie::default(), undecodable: BTreeMap::new() }
    }
}

impl<T: Object> ListBuffer<T> {
    /// Appends an object whose key is known to be unique.
    pub(super) fn push(&mut self, object: Arc<T>) {
        self.objects.push(Some(object));
    }

    pub(super) fn put(&mut self, object: Arc<T>) {
        if !self.undecodable.is_empty() {
            self.undecodable.remove(&object.key());
        }
        match self.find(object.namespace(), object.name()) {
            Some(position) => self.objects[position] = Some(object),
            None => {
                self.positions.insert(hash::key(object.namespace(), object.name()), self.objects.len());
                self.objects.push(Some(object));
            }
        }
    }

    /// Marks an object that exists in a state that cannot be decoded.
    pub(super) fn mark(&mut self, object: ObjectIdentity) {
        let known = self.find(object.key.namespace(), object.key.name());
        let earlier = known.and_then(|position| self.objects[position].as_ref());
        if earlier.is_some_and(|earlier| object.is_other_than(earlier.uid())) {
            self.remove(object.key.namespace(), object.key.name());
        }
        self.undecodable.insert(object.key.clone(), object);
    }

    pub(super) fn remove(&mut self, namespace: &str, name: &str) {
        if !self.undecodable.is_empty() {
            self.undecodable.remove(&ObjectKey::namespaced(namespace, name));
        }
        if let Some(position) = self.find(namespace, name) {
            self.positions.remove(hash::key(namespace, name), |other| *other == position);
            self.objects[position] = None;
        }
    }

    /// Key and version of each object, at its newest state.
    pub(super) fn versions(&self) -> ObjectVersions {
        let decoded = self.objects.iter().flatten().map(|object| ObjectIdentity::of(&**object));
        let decoded = decoded.filter(|object| !self.undecodable.contains_key(&object.key));
        let all = decoded.chain(self.undecodable.values().cloned());
        all.map(|object| (object.key, object.resource_version.as_str().to_owned())).collect()
    }

    pub(super) fn into_set(self, version: ResourceVersion) -> ObjectSet<T> {
        drop(self.positions);
        ObjectSet {
            objects: self.objects.into_iter().flatten().collect(),
            undecodable: self.undecodable.into_values().collect(),
            version,
        }
    }

    /// The position of the object with this key.
    fn find(&self, namespace: &str, name: &str) -> Option<usize> {
        let is_it = |position: &usize| {
            let known = self.objects[*position].as_ref();
            known.is_some_and(|known| known.name() == name && known.namespace() == namespace)
        };
        self.positions.find(hash::key(namespace, name), is_it).copied()
    }
}

#[cfg(test)]
mod tests {
    use kubewright_core::DynamicObject;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        // RE-3: a repeated object is stored once, at its newest state and first position; a deleted
        // object is removed.
        #[test]
        fn it_agrees_with_a_plain_list(changes in vec((0..40u32, any::<bool>()), 0..300)) {
            let (mut list_buffer, mut model) = (ListBuffer::default(), Vec::<(u32, usize)>::new());
            for (version, (name, comes)) in changes.into_iter().enumerate() {
                let mut object = DynamicObject::default();
                object.set_name(&name.to_string());
                object.set_resource_version(&version.to_string());
                match (comes, model.iter_mut().find(|known| known.0 == name)) {
                    (true, Some(known)) => known.1 = version,
                    (true, None) => model.push((name, version)),
                    (false, _) => model.retain(|known| known.0 != name),
                }
                if comes { list_buffer.put(Arc::new(object)) } else { list_buffer.remove(object.namespace(), object.name()) }
            }
            let objects = list_buffer.into_set(ResourceVersion::default()).objects;
            let held: Vec<(String, String)> =
                objects.iter().map(|object| (object.name().into(), object.resource_version().into())).collect();
            let expected: Vec<(String, String)> =
                model.iter().map(|(name, version)| (name.to_string(), version.to_string())).collect();
            prop_assert_eq!(held, expected);
        }
    }
}
