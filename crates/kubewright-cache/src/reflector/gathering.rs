//! The first objects of a watch until all of them are there.

use std::sync::Arc;

use kubewright_core::{Object, hash};

use crate::store::Table;

/// Objects in the order in which they first came, at their newest.
pub(super) struct Gathering<T> {
    objects: Vec<Option<Arc<T>>>,
    /// Where an object lies, by the hash of its key: a map of keys, whenever it grows, would read those of all objects again, and a
    /// million of them are in no processor's memory.
    positions: Table,
}

impl<T> Default for Gathering<T> {
    fn default() -> Self {
        Gathering { objects: Vec::new(), positions: Table::default() }
    }
}

impl<T: Object> Gathering<T> {
    /// Takes one that is known not to be there, nor to come again.
    pub(super) fn push(&mut self, object: Arc<T>) {
        self.objects.push(Some(object));
    }

    pub(super) fn put(&mut self, object: Arc<T>) {
        let hash = hash_of(&*object);
        match self.find(hash, &object) {
            Some(position) => self.objects[position as usize] = Some(object),
            None => {
                self.positions.add(hash, self.objects.len() as u32);
                self.objects.push(Some(object));
            }
        }
    }

    pub(super) fn remove(&mut self, object: &T) {
        let hash = hash_of(object);
        if let Some(position) = self.find(hash, object) {
            self.positions.remove(hash, position);
            self.objects[position as usize] = None;
        }
    }

    pub(super) fn objects(&self) -> impl Iterator<Item = &T> {
        self.objects.iter().flatten().map(|object| &**object)
    }

    pub(super) fn into_objects(self) -> Vec<Arc<T>> {
        drop(self.positions);
        self.objects.into_iter().flatten().collect()
    }

    /// Where an object with the same key lies.
    fn find(&self, hash: u32, object: &T) -> Option<u32> {
        self.positions.find(hash, &|position| {
            let known = self.objects[position as usize].as_ref();
            known.is_some_and(|known| known.name() == object.name() && known.namespace() == object.namespace())
        })
    }
}

fn hash_of<T: Object>(object: &T) -> u32 {
    hash::key(object.namespace(), object.name())
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
                    false => gathering.remove(&object),
                }
            }
            let objects = gathering.into_objects();
            let held: Vec<(String, String)> =
                objects.iter().map(|object| (object.name().into(), object.resource_version().into())).collect();
            let expected: Vec<(String, String)> =
                model.iter().map(|(name, version)| (name.to_string(), version.to_string())).collect();
            prop_assert_eq!(held, expected);
        }
    }
}
