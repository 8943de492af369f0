//! The first objects of a watch until all of them are there.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubewright_core::stream::ObjectIdentity;
use kubewright_core::{Object, ObjectKey, ResourceVersion, hash};

use super::intake::Versions;
use crate::ObjectSet;
use crate::store::Table;

/// Objects in the order in which they first came, at their newest.
pub(super) struct Gathering<T> {
    objects: Vec<Option<Arc<T>>>,
    /// Positions of objects by the hashes of their keys. A map of keys would read the keys of all
    /// objects again whenever it grows, which is slow for a million of them.
    positions: Table,
    /// Objects whose newest state cannot be decoded. An earlier one may be among the objects.
    undecodable: BTreeMap<ObjectKey, ObjectIdentity>,
}

impl<T> Default for Gathering<T> {
    fn default() -> Self {
        Gathering { objects: Vec::new(), positions: Table::default(), undecodable: BTreeMap::new() }
    }
}

impl<T: Object> Gathering<T> {
    /// Takes one that is known not to be there, nor to come again.
    pub(super) fn push(&mut self, object: Arc<T>) {
        self.objects.push(Some(object));
    }

    pub(super) fn put(&mut self, object: Arc<T>) {
        if !self.undecodable.is_empty() {
            self.undecodable.remove(&object.key());
        }
        let hash = hash::key(object.namespace(), object.name());
        match self.find(hash, object.namespace(), object.name()) {
            Some(position) => self.objects[position as usize] = Some(object),
            None => {
                self.positions.add(hash, self.objects.len() as u32);
                self.objects.push(Some(object));
            }
        }
    }

    /// Notes that an object exists in a state that cannot be decoded.
    pub(super) fn mark(&mut self, object: ObjectIdentity) {
        let position = self.find(object.key.hash_code(), object.key.namespace(), object.key.name());
        let earlier = position.and_then(|position| self.objects[position as usize].as_ref());
        if earlier.is_some_and(|earlier| object.is_other_than(earlier.uid())) {
            self.remove(object.key.namespace(), object.key.name());
        }
        self.undecodable.insert(object.key.clone(), object);
    }

    pub(super) fn remove(&mut self, namespace: &str, name: &str) {
        if !self.undecodable.is_empty() {
            self.undecodable.remove(&ObjectKey::namespaced(namespace, name));
        }
        let hash = hash::key(namespace, name);
        if let Some(position) = self.find(hash, namespace, name) {
            self.positions.remove(hash, position);
            self.objects[position as usize] = None;
        }
    }

    /// Key and version of each object, at its newest.
    pub(super) fn versions(&self) -> Versions {
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
    fn find(&self, hash: u32, namespace: &str, name: &str) -> Option<u32> {
        self.positions.find(hash, &|position| {
            let known = self.objects[position as usize].as_ref();
            known.is_some_and(|known| known.name() == name && known.namespace() == namespace)
        })
    }
}

#[cfg(test)]
mod tests {
    use kubewright_core::DynamicObject;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        // RE-3: what comes twice is held once, at its newest and where it first came; what goes leaves nothing.
        #[test]
        fn it_agrees_with_a_plain_list(changes in vec((0..40u32, any::<bool>()), 0..300)) {
            let (mut gathering, mut model) = (Gathering::default(), Vec::<(u32, usize)>::new());
            for (version, (name, comes)) in changes.into_iter().enumerate() {
                let mut object = DynamicObject::default();
                object.set_name(&name.to_string());
                object.set_resource_version(&version.to_string());
                match (comes, model.iter_mut().find(|known| known.0 == name)) {
                    (true, Some(known)) => known.1 = version,
                    (true, None) => model.push((name, version)),
                    (false, _) => model.retain(|known| known.0 != name),
                }
                match comes {
                    true => gathering.put(Arc::new(object)),
                    false => gathering.remove(object.namespace(), object.name()),
                }
            }
            let objects = gathering.into_set(ResourceVersion::default()).objects;
            let held: Vec<(String, String)> =
                objects.iter().map(|object| (object.name().into(), object.resource_version().into())).collect();
            let expected: Vec<(String, String)> =
                model.iter().map(|(name, version)| (name.to_string(), version.to_string())).collect();
            prop_assert_eq!(held, expected);
        }
    }
}
