//! Keys of objects, and the ranges of keys that lists and watches cover.

use std::{fmt, ops::Bound};

use kubewright_core::Str;

use crate::event::StoreEvent;

/// The key of an object: its resource, its namespace if it has one, and its name.
///
/// Keys sort by resource, then by the path `namespace/name`, byte by byte. This is the order of
/// lists in Kubernetes (`kube-system/a` before `kube/a`, because `-` sorts before `/`). A resource,
/// a namespace of a resource and a page of either are contiguous ranges.
///
/// The parts are not validated. The caller ensures that namespace and name are not empty and
/// contain no `/`, and that either all keys of a resource are namespaced or none.
///
/// ```
/// use kubewright_storage::Key;
/// let key = Key::namespaced("apps/deployments", "default", "web");
/// assert_eq!((key.resource(), key.namespace(), key.name()), ("apps/deployments", Some("default"), "web"));
/// assert!(Key::namespaced("pods", "kube-system", "a") < Key::namespaced("pods", "kube", "a"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    resource: Str,
    path: Str,
}

impl Key {
    /// The key of an object in a namespace.
    pub fn namespaced(resource: impl Into<Str>, namespace: &str, name: &str) -> Self {
        Key { resource: resource.into(), path: [namespace, "/", name].concat().into() }
    }

    /// The key of a cluster-scoped object.
    pub fn cluster(resource: impl Into<Str>, name: impl Into<Str>) -> Self {
        Key { resource: resource.into(), path: name.into() }
    }

    /// The resource, as the caller named it, such as `apps/deployments`.
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// The namespace. `None` for a cluster-scoped object.
    pub fn namespace(&self) -> Option<&str> {
        Some(self.path.split_once('/')?.0)
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.path.split_once('/').map_or(&self.path, |(_, name)| name)
    }

    /// The resource and the path, which make up the key.
    pub fn parts(&self) -> (&str, &str) {
        (&self.resource, &self.path)
    }

    /// The key that has these [`parts`](Self::parts).
    pub fn from_parts(resource: impl Into<Str>, path: impl Into<Str>) -> Self {
        Key { resource: resource.into(), path: path.into() }
    }

    pub(crate) fn at(resource: &Str, path: &Str) -> Self {
        Key { resource: resource.clone(), path: path.clone() }
    }

    /// Resource and path.
    pub(crate) fn into_parts(self) -> (Str, Str) {
        (self.resource, self.path)
    }

    pub(crate) fn resource_str(&self) -> &Str {
        &self.resource
    }

    pub(crate) fn path(&self) -> &Str {
        &self.path
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.resource, self.path)
    }
}

/// A contiguous range of keys: everything, a resource, one namespace of a resource, or one object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyRange {
    /// `None` for all resources; the path is then empty.
    resource: Option<Str>,
    /// Empty for a whole resource, `namespace/` for a namespace, a key's path for one object.
    path: Str,
}

impl KeyRange {
    /// All objects of all resources.
    pub fn everything() -> Self {
        KeyRange { resource: None, path: Str::new() }
    }

    /// All objects of a resource, in all namespaces.
    pub fn resource(resource: impl Into<Str>) -> Self {
        KeyRange { resource: Some(resource.into()), path: Str::new() }
    }

    /// The objects of a resource in one namespace.
    pub fn namespace(resource: impl Into<Str>, namespace: &str) -> Self {
        KeyRange { resource: Some(resource.into()), path: [namespace, "/"].concat().into() }
    }

    /// One object, whether it exists or not.
    pub fn object(key: &Key) -> Self {
        KeyRange { resource: Some(key.resource.clone()), path: key.path.clone() }
    }

    /// The objects of one name in all namespaces, for a watch only: they are not one range.
    pub(crate) fn named(resource: &str, name: &str) -> Self {
        KeyRange { resource: Some(resource.into()), path: ["/", name].concat().into() }
    }

    /// The objects of one indexed value, for a watch only: they are not one range.
    pub(crate) fn indexed(resource: &str, value: &str) -> Self {
        KeyRange { resource: Some(resource.into()), path: indexed_path(value) }
    }

    /// The resource, unless the range has all of them, and the start of the paths of its keys:
    /// empty, a namespace with a slash, or the path of one key.
    pub fn parts(&self) -> (Option<&str>, &str) {
        (self.resource.as_deref(), &self.path)
    }

    /// Whether `key` is in this range.
    pub fn contains(&self, key: &Key) -> bool {
        self.resource.as_ref().is_none_or(|resource| *resource == key.resource) && self.covers(&key.path)
    }

    pub(crate) fn resource_str(&self) -> Option<&Str> {
        self.resource.as_ref()
    }

    /// Whether an event belongs to the topic of this range.
    pub(crate) fn has_event<V>(&self, event: &StoreEvent<V>) -> bool {
        let Some(resource) = &self.resource else { return true };
        *resource == event.key.resource
            && (self.path.is_empty() || event.topic_paths().any(|path| path == self.path.as_str()))
    }

    pub(crate) fn path(&self) -> &Str {
        &self.path
    }

    /// Whether a path of the range's resource is in this range.
    pub(crate) fn covers(&self, path: &str) -> bool {
        if self.path.is_empty() || self.path.ends_with('/') {
            path.starts_with(self.path.as_str())
        } else {
            self.path == *path
        }
    }

    /// The end of the range, as a path.
    pub(crate) fn end(&self) -> Bound<Str> {
        match self.path.strip_suffix('/') {
            // No path sorts between `namespace/…` and `namespace0`, the character after the slash.
            Some(namespace) => Bound::Excluded([namespace, "0"].concat().into()),
            None if self.path.is_empty() => Bound::Unbounded,
            None => Bound::Included(self.path.clone()),
        }
    }
}

/// The path of the namespace of an object, such as `default/` of `default/web`.
pub(crate) fn namespace_of(path: &str) -> Option<&str> {
    path.find('/').map(|slash| &path[..=slash])
}

/// The path of the topic of a name in all namespaces, such as `/web` of `default/web`.
pub(crate) fn name_in(path: &str) -> Option<&str> {
    path.find('/').map(|slash| &path[slash..])
}

/// The path of the topic of an indexed value. No namespace or name begins with `=`.
pub(crate) fn indexed_path(value: &str) -> Str {
    ["=", value].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_range_excludes_namespaces_with_the_same_prefix() {
        let scope = KeyRange::namespace("pods", "kube");
        assert!(scope.contains(&Key::namespaced("pods", "kube", "a")));
        assert!(!scope.contains(&Key::namespaced("pods", "kube-system", "a")));
        assert!(!scope.contains(&Key::namespaced("services", "kube", "a")));
    }

    #[test]
    fn an_object_range_contains_only_the_object() {
        let scope = KeyRange::object(&Key::cluster("nodes", "n1"));
        assert!(scope.contains(&Key::cluster("nodes", "n1")));
        assert!(!scope.contains(&Key::cluster("nodes", "n10")));
    }

    #[test]
    fn a_cluster_key_has_no_namespace() {
        let key = Key::cluster("nodes", "n1");
        assert_eq!((key.namespace(), key.name(), key.to_string().as_str()), (None, "n1", "nodes/n1"));
    }
}
