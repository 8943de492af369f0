//! Aggregated discovery: all groups, versions and resources in one document.

use kubewright_api::apidiscovery::v2::{
    APIGroupDiscovery, APIGroupDiscoveryList, APIResourceDiscovery, APISubresourceDiscovery, APIVersionDiscovery,
};
use kubewright_core::Str;
use kubewright_core::meta::v1::{GroupVersionKind, ObjectMeta};

use super::{DiscoveredGroup, DiscoveredVersion, DiscoveryDocument, Served, ServedApis, ServedSubresource};

impl ServedApis {
    /// The `APIGroupDiscoveryList` of the core group, for `/api`.
    pub fn aggregated_core(&self) -> DiscoveryDocument {
        list(self.groups.iter().map(|group| &**group).filter(|group| group.name.is_empty()))
    }

    /// The `APIGroupDiscoveryList` of all other groups, for `/apis`.
    pub fn aggregated_groups(&self) -> DiscoveryDocument {
        list(self.groups.iter().map(|group| &**group).filter(|group| !group.name.is_empty()))
    }
}

fn list<'g>(groups: impl Iterator<Item = &'g DiscoveredGroup>) -> DiscoveryDocument {
    let items = groups.map(DiscoveredGroup::to_group_discovery).collect();
    DiscoveryDocument::new(APIGroupDiscoveryList { items, ..Default::default() })
}

impl DiscoveredGroup {
    fn to_group_discovery(&self) -> APIGroupDiscovery {
        let name = Some(self.name.clone()).filter(|name| !name.is_empty());
        APIGroupDiscovery {
            metadata: ObjectMeta { name, ..Default::default() },
            versions: self.versions.iter().map(DiscoveredVersion::to_version_discovery).collect(),
        }
    }
}

impl DiscoveredVersion {
    fn to_version_discovery(&self) -> APIVersionDiscovery {
        APIVersionDiscovery {
            version: self.name.clone(),
            resources: self.resources.iter().map(Served::to_resource_discovery).collect(),
            freshness: Some(if self.is_stale { "Stale" } else { "Current" }.into()),
        }
    }
}

impl Served {
    fn to_resource_discovery(&self) -> APIResourceDiscovery {
        let subresources = self.subresources.iter().map(|subresource| subresource.to_discovery(self));
        APIResourceDiscovery {
            resource: self.plural.clone(),
            response_kind: Some(self.response_kind(&self.group, &self.version, &self.kind).into()),
            scope: if self.namespaced { "Namespaced" } else { "Cluster" }.into(),
            singular_resource: self.singular.clone(),
            verbs: self.verbs.iter().cloned().collect(),
            short_names: self.short_names.iter().cloned().collect(),
            categories: self.categories.iter().cloned().collect(),
            subresources: subresources.collect(),
        }
    }

    /// Built-in resources state the group and version of a kind only where they differ.
    fn response_kind(&self, group: &Str, version: &Str, kind: &Str) -> GroupVersionKind {
        let is_own = !self.custom && (group, version) == (&self.group, &self.version);
        let unless_own = |text: &Str| if is_own { Str::new() } else { text.clone() };
        GroupVersionKind { group: unless_own(group), version: unless_own(version), kind: kind.clone() }
    }
}

impl ServedSubresource {
    fn to_discovery(&self, parent: &Served) -> APISubresourceDiscovery {
        let kind = parent.response_kind(&self.kind.group, &self.kind.version, &self.kind.kind);
        APISubresourceDiscovery {
            subresource: self.name.clone(),
            response_kind: Some(kind.into()),
            verbs: self.verbs.iter().cloned().collect(),
            ..Default::default()
        }
    }
}
