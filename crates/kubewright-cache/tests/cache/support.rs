//! Objects to play with.

use std::sync::Arc;

use kubewright_core::{DynamicObject, GroupVersionKind, Object, ObjectKey, Str};

/// An object of the namespace `default` at this version, with a uid made of its name.
pub fn object(name: &str, version: impl ToString) -> Arc<DynamicObject> {
    labelled(name, version, &[])
}

/// The same with labels.
pub fn labelled(name: &str, version: impl ToString, labels: &[(&str, &str)]) -> Arc<DynamicObject> {
    let mut object = DynamicObject::new(&GroupVersionKind::new("example.com", "v1", "Foo"), name);
    object.set_namespace("default");
    object.metadata.uid = Some(Str::from(format!("uid-{name}")));
    object.set_resource_version(&version.to_string());
    for (key, value) in labels {
        object.metadata.labels.insert(*key, Str::from(*value));
    }
    Arc::new(object)
}

pub fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("default", name)
}

/// Names and versions, sorted.
pub fn named<'a>(objects: impl IntoIterator<Item = &'a Arc<DynamicObject>>) -> Vec<String> {
    let mut names: Vec<String> =
        objects.into_iter().map(|object| format!("{}@{}", object.name(), object.resource_version())).collect();
    names.sort();
    names
}
