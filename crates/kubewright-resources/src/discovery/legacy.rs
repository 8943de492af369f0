//! Unaggregated discovery: one document for all groups, one for each group, and one for each
//! version.

use kubewright_core::meta::v1::{
    APIGroup, APIGroupList, APIResource, APIResourceList, APIVersions, GroupVersionForDiscovery,
    ServerAddressByClientCIDR,
};
use kubewright_core::{GroupVersion, Str};

use super::{DiscoveredGroup, DiscoveryDocument, Served, ServedApis, ServedSubresource};

impl ServedApis {
    /// The `APIVersions` for `/api`. `address` is the server address as seen by clients.
    pub fn api_versions(&self, address: &str) -> DiscoveryDocument {
        let versions = self.group("").map_or(&[][..], |core| &core.versions);
        let address = ServerAddressByClientCIDR { client_cidr: "0.0.0.0/0".into(), server_address: address.into() };
        let versions = APIVersions {
            versions: versions.iter().map(|version| version.name.clone()).collect(),
            server_address_by_client_cidrs: [address].into(),
        };
        DiscoveryDocument::new(versions).without_version()
    }

    /// The `APIGroupList` for `/apis`.
    pub fn api_group_list(&self) -> DiscoveryDocument {
        let groups = self.groups.iter().filter(|group| !group.name.is_empty());
        DiscoveryDocument::new(APIGroupList { groups: groups.map(|group| group.to_api_group()).collect() })
    }

    /// The `APIGroup` for `/apis/GROUP`.
    pub fn api_group(&self, name: &str) -> Option<DiscoveryDocument> {
        let group = self.group(name).filter(|group| !group.name.is_empty())?;
        Some(DiscoveryDocument::new(group.to_api_group()))
    }

    /// The `APIResourceList` for `/apis/GROUP/VERSION`, or for `/api/v1` with an empty group.
    pub fn api_resource_list(&self, group: &str, version: &str) -> Option<DiscoveryDocument> {
        let resources = &self.group(group)?.versions.iter().find(|known| known.name == *version)?.resources;
        let list = DiscoveryDocument::new(APIResourceList {
            group_version: GroupVersion::new(group, version).to_string().into(),
            resources: resources.iter().flat_map(Served::to_api_resources).collect(),
        });
        Some(if group.is_empty() { list.without_version() } else { list })
    }
}

impl DiscoveredGroup {
    fn to_api_group(&self) -> APIGroup {
        let to_version = |version: &super::DiscoveredVersion| GroupVersionForDiscovery {
            group_version: GroupVersion::new(self.name.clone(), version.name.clone()).to_string().into(),
            version: version.name.clone(),
        };
        APIGroup {
            name: self.name.clone(),
            versions: self.versions.iter().map(to_version).collect(),
            preferred_version: self.versions.first().map(|version| to_version(version).into()),
            ..Default::default()
        }
    }
}

impl Served {
    /// The `APIResource`s of the resource and its subresources.
    fn to_api_resources(&self) -> Vec<APIResource> {
        let resource = APIResource {
            name: self.plural.clone(),
            singular_name: self.singular.clone(),
            namespaced: self.namespaced,
            kind: self.kind.clone(),
            verbs: self.verbs.iter().cloned().collect(),
            short_names: self.short_names.iter().cloned().collect(),
            categories: self.categories.iter().cloned().collect(),
            storage_version_hash: self.storage_version_hash().map(Str::from),
            ..Default::default()
        };
        let subresources = self.subresources.iter().map(|subresource| subresource.to_api_resource(self));
        std::iter::once(resource).chain(subresources).collect()
    }
}

impl ServedSubresource {
    fn to_api_resource(&self, parent: &Served) -> APIResource {
        let foreign = self.is_foreign_to(parent).then_some(&self.kind);
        APIResource {
            name: format!("{}/{}", parent.plural, self.name).into(),
            namespaced: parent.namespaced,
            kind: self.kind.kind.clone(),
            verbs: self.verbs.iter().cloned().collect(),
            group: foreign.map(|kind| kind.group.clone()).filter(|group| !group.is_empty()),
            version: foreign.map(|kind| kind.version.clone()),
            ..Default::default()
        }
    }

    /// Whether the kind is of a different group or version than the resource.
    pub(super) fn is_foreign_to(&self, parent: &Served) -> bool {
        (&self.kind.group, &self.kind.version) != (&parent.group, &parent.version)
    }
}
