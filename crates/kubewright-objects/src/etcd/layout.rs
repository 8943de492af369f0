//! The keys of objects in etcd, as kube-apiserver lays them out.
//!
//! A built-in object is at `PREFIX/PLURAL/NAMESPACE/NAME`, without its group. Custom objects,
//! definitions and APIServices have their group before the plural. A few old resources have other
//! names (`nodes` are `minions`). The bitmap of node ports is an object that is not served. Other
//! keys that belong to no resource are not objects of this server.

use std::collections::HashMap;

use kubewright_core::Str;
use kubewright_resources::catalog::Catalog;
use kubewright_storage::{Key, KeyRange};

use crate::service_numbers::{PORT_ALLOCATIONS, PORT_BITMAP};

/// Built-in resources whose keys differ from their plural, by storage name.
#[doc(alias = "SpecialDefaultResourcePrefixes")]
const SPECIAL: [(&str, &str); 5] = [
    ("replicationcontrollers", "controllers"),
    ("endpoints", "services/endpoints"),
    ("nodes", "minions"),
    ("services", "services/specs"),
    ("ingresses.networking.k8s.io", "ingress"),
];

/// The folder of bitmaps. Only that of node ports is in use.
const RANGES: &str = "ranges";

/// Built-in groups whose keys contain the group. They are served by other servers within
/// kube-apiserver.
pub(super) const GROUPS_IN_KEYS: [&str; 2] = ["apiextensions.k8s.io", "apiregistration.k8s.io"];

/// Maps keys of the store to keys of etcd and back.
pub struct Layout {
    /// Ends with a slash.
    prefix: String,
    /// The folders of built-in resources, by storage name.
    folder_of: HashMap<Str, String>,
    /// The built-in resources, by folder.
    resource_of: HashMap<String, Str>,
}

impl Layout {
    /// The layout below a prefix such as `/registry`.
    pub fn new(prefix: &str) -> Self {
        let prefix = format!("/{}/", prefix.trim_matches('/')).replace("//", "/");
        let (mut folder_of, mut resource_of) = (HashMap::new(), HashMap::new());
        for resource in Catalog::new([]).stored().filter(|resource| resource.is_stored()) {
            let storage = resource.storage.clone();
            let special = SPECIAL.iter().find(|(name, _)| *name == storage).map(|(_, folder)| (*folder).to_owned());
            let (plural, group) = storage.split_once('.').unwrap_or((&storage, ""));
            let path = match special {
                Some(path) => path,
                None if GROUPS_IN_KEYS.contains(&group) => format!("{group}/{plural}"),
                None => plural.to_owned(),
            };
            resource_of.insert(path.clone(), storage.clone());
            folder_of.insert(storage, path);
        }
        resource_of.insert(RANGES.to_owned(), PORT_ALLOCATIONS.into());
        folder_of.insert(PORT_ALLOCATIONS.into(), RANGES.to_owned());
        Layout { prefix, folder_of, resource_of }
    }

    /// The prefix of all keys. Ends with a slash.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Whether objects of a resource are custom objects.
    pub fn is_custom(&self, storage: &str) -> bool {
        !self.folder_of.contains_key(storage)
    }

    /// The key of an object in etcd.
    pub fn encode(&self, key: &Key) -> String {
        let (resource, path) = key.parts();
        self.path(resource, path)
    }

    fn path(&self, resource: &str, path: &str) -> String {
        if let Some(folder) = self.folder_of.get(resource) {
            return format!("{}{folder}/{path}", self.prefix);
        }
        let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
        format!("{}{group}/{plural}/{path}", self.prefix)
    }

    /// The first key of a range in etcd, and the end of the range. An end that is empty stands for
    /// the first key alone.
    pub fn range(&self, range: &KeyRange) -> (String, Vec<u8>) {
        let (resource, path) = range.parts();
        let start = resource.map_or_else(|| self.prefix.clone(), |resource| self.path(resource, path));
        let is_one = !path.is_empty() && !path.ends_with('/');
        // A slash is followed by the next character.
        let end = if is_one { Vec::new() } else { [start.trim_end_matches('/').as_bytes(), b"0"].concat() };
        (start, end)
    }

    /// The object of a key in etcd. `None` if the key is not that of an object.
    pub fn decode(&self, key: &[u8]) -> Option<Key> {
        let path = std::str::from_utf8(key).ok()?.strip_prefix(self.prefix.as_str())?;
        let (first, rest) = path.split_once('/')?;
        // `services/specs` and groups have two parts.
        let two = rest.split_once('/').map(|(second, rest)| (format!("{first}/{second}"), second, rest));
        let (resource, path) = match two
            .as_ref()
            .and_then(|(folder, _, rest)| Some((self.resource_of.get(folder)?, rest)))
        {
            Some((resource, rest)) => (resource.clone(), *rest),
            None => match (self.resource_of.get(first), &two) {
                (Some(resource), _) => (resource.clone(), rest),
                // Groups of custom resources have a dot, folders of built-in ones do not.
                (None, Some((_, plural, rest))) if first.contains('.') => (format!("{plural}.{first}").into(), *rest),
                _ => return None,
            },
        };
        let is_object = match &*resource {
            PORT_ALLOCATIONS => path == PORT_BITMAP,
            _ => path.split('/').all(|part| !part.is_empty()) && path.split('/').count() <= 2,
        };
        is_object.then(|| Key::from_parts(resource, path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_kube_apiserver() {
        let layout = Layout::new("/registry");
        for (key, encoded) in [
            (Key::namespaced("pods", "default", "web"), "/registry/pods/default/web"),
            (Key::namespaced("deployments.apps", "default", "web"), "/registry/deployments/default/web"),
            (Key::namespaced("services", "default", "web"), "/registry/services/specs/default/web"),
            (Key::namespaced("endpoints", "default", "web"), "/registry/services/endpoints/default/web"),
            (Key::namespaced("replicationcontrollers", "default", "web"), "/registry/controllers/default/web"),
            (Key::namespaced("ingresses.networking.k8s.io", "default", "web"), "/registry/ingress/default/web"),
            (Key::namespaced("events", "default", "web.1"), "/registry/events/default/web.1"),
            (Key::namespaced("leases.coordination.k8s.io", "kube-system", "a"), "/registry/leases/kube-system/a"),
            (Key::cluster("nodes", "n1"), "/registry/minions/n1"),
            (Key::cluster("namespaces", "default"), "/registry/namespaces/default"),
            (
                Key::cluster("clusterroles.rbac.authorization.k8s.io", "system:node"),
                "/registry/clusterroles/system:node",
            ),
            (
                Key::cluster("customresourcedefinitions.apiextensions.k8s.io", "foos.example.com"),
                "/registry/apiextensions.k8s.io/customresourcedefinitions/foos.example.com",
            ),
            (
                Key::cluster("apiservices.apiregistration.k8s.io", "v1.apps"),
                "/registry/apiregistration.k8s.io/apiservices/v1.apps",
            ),
            (Key::cluster(PORT_ALLOCATIONS, PORT_BITMAP), "/registry/ranges/servicenodeports"),
            (Key::namespaced("foos.example.com", "default", "a"), "/registry/example.com/foos/default/a"),
            (Key::cluster("bars.sub.example.com", "a"), "/registry/sub.example.com/bars/a"),
            (
                Key::namespaced("gateways.gateway.networking.k8s.io", "default", "a"),
                "/registry/gateway.networking.k8s.io/gateways/default/a",
            ),
        ] {
            assert_eq!(layout.encode(&key), encoded);
            assert_eq!(layout.decode(encoded.as_bytes()), Some(key), "{encoded}");
        }
    }

    #[test]
    fn ranges_have_all_keys_of_their_scope() {
        let layout = Layout::new("/registry");
        for (range, start, end) in [
            (KeyRange::resource("services"), "/registry/services/specs/", "/registry/services/specs0"),
            (KeyRange::namespace("pods", "default"), "/registry/pods/default/", "/registry/pods/default0"),
            (KeyRange::resource("foos.example.com"), "/registry/example.com/foos/", "/registry/example.com/foos0"),
            (KeyRange::object(&Key::cluster("nodes", "n1")), "/registry/minions/n1", ""),
            (KeyRange::everything(), "/registry/", "/registry0"),
        ] {
            assert_eq!(layout.range(&range), (start.to_owned(), end.as_bytes().to_vec()));
        }
    }

    #[test]
    fn keys_of_no_object_are_skipped() {
        let layout = Layout::new("registry/");
        assert_eq!(layout.prefix(), "/registry/");
        for key in [
            "compact_rev_key",
            "/other/pods/default/web",
            "/registry/ranges/serviceips",
            "/registry/masterleases/10.0.0.1",
            "/registry/pods",
            "/registry/pods/",
            "/registry/pods/default/",
            "/registry/pods/default/web/more",
            "/registry/example.com/foos",
            "/registry/",
            "",
        ] {
            assert_eq!(layout.decode(key.as_bytes()), None, "{key}");
        }
        assert_eq!(layout.decode(b"/registry/pods/default/\xff"), None);
    }

    #[test]
    fn no_two_built_in_resources_share_a_folder() {
        let layout = Layout::new("/registry");
        assert_eq!(layout.folder_of.len(), layout.resource_of.len());
        assert!(layout.is_custom("foos.example.com") && !layout.is_custom("pods"));
    }
}
