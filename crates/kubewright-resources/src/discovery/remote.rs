//! Group versions that aggregated API servers serve.

use std::collections::BTreeMap;

use kubewright_core::meta::v1::{APIResource, APIResourceList};
use kubewright_core::{GroupVersionKind, Str};

use super::{DiscoveredGroup, DiscoveredVersion, Served, ServedSubresource};

/// A group version that an aggregated API server serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteVersion {
    /// The API group.
    pub group: Str,
    /// The version.
    pub version: Str,
    /// Its resources. `None` while the server is unavailable: discovery then lists the version as
    /// stale, without resources.
    pub resources: Option<Vec<Served>>,
}

impl RemoteVersion {
    /// The resources of a document that such a server answered.
    pub fn resources_of(group: &str, version: &str, list: &APIResourceList) -> Vec<Served> {
        let mut resources: BTreeMap<Str, Served> = BTreeMap::new();
        let mut subresources = Vec::new();
        for resource in &list.resources {
            match resource.name.split_once('/') {
                None => drop(resources.insert(resource.name.clone(), served(group, version, resource))),
                Some((plural, name)) => subresources.push((plural, name, resource)),
            }
        }
        for (plural, name, subresource) in subresources {
            // A subresource without a resource cannot be described in aggregated discovery.
            if let Some(parent) = resources.get_mut(plural) {
                let (name, kind) = (name.into(), kind(group, version, subresource));
                let verbs = subresource.verbs.iter().cloned().collect();
                parent.subresources.push(ServedSubresource { name, kind, verbs });
            }
        }
        resources.into_values().collect()
    }
}

impl DiscoveredGroup {
    /// This group with the versions of aggregated API servers, which replace versions of the same
    /// name.
    pub(super) fn with_remote(&self, remote: &[&RemoteVersion]) -> Self {
        let is_replaced = |version: &DiscoveredVersion| remote.iter().any(|other| other.version == version.name);
        let mut versions: Vec<_> = self.versions.iter().filter(|version| !is_replaced(version)).cloned().collect();
        versions.extend(remote.iter().map(|version| DiscoveredVersion {
            name: version.version.clone(),
            resources: version.resources.clone().unwrap_or_default(),
            is_stale: version.resources.is_none(),
        }));
        let name = remote.first().map_or_else(|| self.name.clone(), |version| version.group.clone());
        let mut group = DiscoveredGroup { name, versions };
        group.sort();
        group
    }
}

fn served(group: &str, version: &str, resource: &APIResource) -> Served {
    Served {
        group: group.into(),
        version: version.into(),
        kind: resource.kind.clone(),
        plural: resource.name.clone(),
        singular: resource.singular_name.clone(),
        short_names: resource.short_names.iter().cloned().collect(),
        categories: resource.categories.iter().cloned().collect(),
        namespaced: resource.namespaced,
        verbs: resource.verbs.iter().cloned().collect(),
        ..Served::default()
    }
}

/// The kind of a resource. Its group and version default to those of the list.
fn kind(group: &str, version: &str, resource: &APIResource) -> GroupVersionKind {
    let or = |text: &Option<Str>, default: &str| text.clone().unwrap_or_else(|| default.into());
    let (group, version) = match resource.version {
        Some(_) => (or(&resource.group, ""), or(&resource.version, version)),
        None => (group.into(), version.into()),
    };
    GroupVersionKind::new(group, version, resource.kind.clone())
}
