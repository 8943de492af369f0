//! Unaggregated discovery: one document for all groups, one for each group, and one for each
//! version.

use kubewright_core::{GroupVersion, Value, tree};

use super::set_unless_empty;
use super::{DiscoveredGroup, Served, ServedApis, ServedSubresource};

impl ServedApis {
    /// The `APIVersions` for `/api`. `address` is the server address as seen by clients.
    pub fn api_versions(&self, address: &str) -> Value {
        let versions = self.group("").map_or(&[][..], |core| &core.versions);
        tree::map([
            ("kind", Value::from("APIVersions")),
            ("versions", tree::list(versions.iter().map(|version| &version.name))),
            (
                "serverAddressByClientCIDRs",
                tree::array([tree::map([("clientCIDR", Value::from("0.0.0.0/0")), ("serverAddress", address.into())])]),
            ),
        ])
    }

    /// The `APIGroupList` for `/apis`.
    pub fn api_group_list(&self) -> Value {
        let groups = self.groups.iter().filter(|group| !group.name.is_empty());
        tree::map([
            ("kind", Value::from("APIGroupList")),
            ("apiVersion", Value::from("v1")),
            ("groups", tree::array(groups.map(|group| group.to_value()))),
        ])
    }

    /// The `APIGroup` for `/apis/GROUP`.
    pub fn api_group(&self, name: &str) -> Option<Value> {
        let mut group = self.group(name).filter(|group| !group.name.is_empty())?.to_value();
        tree::set(&mut group, &["kind"], "APIGroup");
        tree::set(&mut group, &["apiVersion"], "v1");
        Some(group)
    }

    /// The `APIResourceList` for `/apis/GROUP/VERSION`, or for `/api/v1` with an empty group.
    pub fn api_resource_list(&self, group: &str, version: &str) -> Option<Value> {
        let resources = &self.group(group)?.versions.iter().find(|known| known.name == *version)?.resources;
        let mut list = tree::map([
            ("kind", Value::from("APIResourceList")),
            ("groupVersion", GroupVersion::new(group, version).to_string().into()),
            ("resources", tree::array(resources.iter().flat_map(Served::to_api_resources))),
        ]);
        if !group.is_empty() {
            tree::set(&mut list, &["apiVersion"], "v1");
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
                tree::map([("groupVersion", group_version.into()), ("version", version.name.clone().into())])
            })
            .collect();
        let preferred = versions.first().cloned().unwrap_or_default();
        tree::map([("name", self.name.clone().into()), ("versions", versions.into()), ("preferredVersion", preferred)])
    }
}

impl Served {
    /// The `APIResource`s of the resource and its subresources.
    fn to_api_resources(&self) -> Vec<Value> {
        let mut resource = tree::map([
            ("name", self.plural.clone().into()),
            ("singularName", self.singular.clone().into()),
            ("namespaced", self.namespaced.into()),
            ("kind", self.kind.clone().into()),
            ("verbs", tree::list(&self.verbs)),
        ]);
        set_unless_empty(&mut resource, "shortNames", tree::list(&self.short_names));
        set_unless_empty(&mut resource, "categories", tree::list(&self.categories));
        if let Some(hash) = self.storage_version_hash() {
            tree::set(&mut resource, &["storageVersionHash"], hash);
        }
        let subresources = self.subresources.iter().map(|subresource| subresource.to_api_resource(self));
        std::iter::once(resource).chain(subresources).collect()
    }
}

impl ServedSubresource {
    fn to_api_resource(&self, parent: &Served) -> Value {
        let mut resource = tree::map([
            ("name", format!("{}/{}", parent.plural, self.name).into()),
            ("singularName", Value::from("")),
            ("namespaced", parent.namespaced.into()),
            ("kind", self.kind.kind.clone().into()),
            ("verbs", tree::list(&self.verbs)),
        ]);
        if self.is_foreign_to(parent) {
            set_unless_empty(&mut resource, "group", self.kind.group.clone().into());
            tree::set(&mut resource, &["version"], self.kind.version.clone());
        }
        resource
    }

    /// Whether the kind is of a different group or version than the resource.
    pub(super) fn is_foreign_to(&self, parent: &Served) -> bool {
        (&self.kind.group, &self.kind.version) != (&parent.group, &parent.version)
    }
}
