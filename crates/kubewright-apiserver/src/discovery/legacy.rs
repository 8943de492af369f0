//! Unaggregated discovery: one document for all groups, one for each group, and one for each
//! version.

use kubewright_core::{GroupVersion, Value};

use super::{DiscoveredGroup, Served, ServedApis, ServedSubresource};
use crate::tree::{array, object, set, set_unless_empty, texts, word};

impl ServedApis {
    /// The `APIVersions` for `/api`. `address` is the server address as seen by clients.
    pub fn api_versions(&self, address: &str) -> Value {
        let versions = self.group("").map_or(&[][..], |core| &core.versions);
        object([
            ("kind", word("APIVersions")),
            ("versions", texts(versions.iter().map(|version| &version.name))),
            (
                "serverAddressByClientCIDRs",
                array([object([("clientCIDR", word("0.0.0.0/0")), ("serverAddress", address.into())])]),
            ),
        ])
    }

    /// The `APIGroupList` for `/apis`.
    pub fn api_group_list(&self) -> Value {
        let groups = self.groups.iter().filter(|group| !group.name.is_empty());
        object([
            ("kind", word("APIGroupList")),
            ("apiVersion", word("v1")),
            ("groups", array(groups.map(|group| group.to_value()))),
        ])
    }

    /// The `APIGroup` for `/apis/GROUP`.
    pub fn api_group(&self, name: &str) -> Option<Value> {
        let mut group = self.group(name).filter(|group| !group.name.is_empty())?.to_value();
        set(&mut group, "kind", word("APIGroup"));
        set(&mut group, "apiVersion", word("v1"));
        Some(group)
    }

    /// The `APIResourceList` for `/apis/GROUP/VERSION`, or for `/api/v1` with an empty group.
    pub fn api_resource_list(&self, group: &str, version: &str) -> Option<Value> {
        let resources = &self.group(group)?.versions.iter().find(|known| known.name == *version)?.resources;
        let mut list = object([
            ("kind", word("APIResourceList")),
            ("groupVersion", GroupVersion::new(group, version).to_string().into()),
            ("resources", array(resources.iter().flat_map(Served::to_api_resources))),
        ]);
        if !group.is_empty() {
            set(&mut list, "apiVersion", word("v1"));
        }
        Some(list)
    }
}

impl DiscoveredGroup {
    fn to_value(&self) -> Value {
        let versions: Vec<Value> = self
            .versions
            .iter()
            .map(|version| {
                let group_version = GroupVersion::new(self.name.clone(), version.name.clone()).to_string();
                object([("groupVersion", group_version.into()), ("version", version.name.clone().into())])
            })
            .collect();
        let preferred = versions.first().cloned().unwrap_or_default();
        object([("name", self.name.clone().into()), ("versions", versions.into()), ("preferredVersion", preferred)])
    }
}

impl Served {
    /// The `APIResource`s of the resource and its subresources.
    fn to_api_resources(&self) -> Vec<Value> {
        let mut resource = object([
            ("name", self.plural.clone().into()),
            ("singularName", self.singular.clone().into()),
            ("namespaced", self.namespaced.into()),
            ("kind", self.kind.clone().into()),
            ("verbs", texts(&self.verbs)),
        ]);
        set_unless_empty(&mut resource, "shortNames", texts(&self.short_names));
        set_unless_empty(&mut resource, "categories", texts(&self.categories));
        if let Some(hash) = self.storage_version_hash() {
            set(&mut resource, "storageVersionHash", hash.into());
        }
        let subresources = self.subresources.iter().map(|subresource| subresource.to_api_resource(self));
        std::iter::once(resource).chain(subresources).collect()
    }
}

impl ServedSubresource {
    fn to_api_resource(&self, parent: &Served) -> Value {
        let mut resource = object([
            ("name", format!("{}/{}", parent.plural, self.name).into()),
            ("singularName", word("")),
            ("namespaced", parent.namespaced.into()),
            ("kind", self.kind.kind.clone().into()),
            ("verbs", texts(&self.verbs)),
        ]);
        if self.is_foreign_to(parent) {
            set_unless_empty(&mut resource, "group", self.kind.group.clone().into());
            set(&mut resource, "version", self.kind.version.clone().into());
        }
        resource
    }

    /// Whether the kind is of a different group or version than the resource.
    pub(super) fn is_foreign_to(&self, parent: &Served) -> bool {
        (&self.kind.group, &self.kind.version) != (&parent.group, &parent.version)
    }
}
