//! Aggregated discovery: all groups, versions and resources in one document.

use kubewright_core::{GroupVersionKind, Str, Value, tree};

use super::set_unless_empty;
use super::{DiscoveredGroup, Served, ServedApis, ServedSubresource};

impl ServedApis {
    /// The `APIGroupDiscoveryList` of the core group, for `/api`.
    pub fn aggregated_core(&self) -> Value {
        list(self.groups.iter().map(|group| &**group).filter(|group| group.name.is_empty()))
    }

    /// The `APIGroupDiscoveryList` of all other groups, for `/apis`.
    pub fn aggregated_groups(&self) -> Value {
        list(self.groups.iter().map(|group| &**group).filter(|group| !group.name.is_empty()))
    }
}

fn list<'g>(groups: impl Iterator<Item = &'g DiscoveredGroup>) -> Value {
    tree::map([
        ("kind", Value::from("APIGroupDiscoveryList")),
        ("apiVersion", Value::from("apidiscovery.k8s.io/v2")),
        ("metadata", tree::map([])),
        ("items", tree::array(groups.map(DiscoveredGroup::to_group_discovery))),
    ])
}

impl DiscoveredGroup {
    fn to_group_discovery(&self) -> Value {
        let mut metadata = tree::map([]);
        set_unless_empty(&mut metadata, "name", self.name.clone().into());
        let versions = self.versions.iter().map(|version| {
            tree::map([
                ("version", version.name.clone().into()),
                ("resources", tree::array(version.resources.iter().map(Served::to_resource_discovery))),
                ("freshness", Value::from("Current")),
            ])
        });
        tree::map([("metadata", metadata), ("versions", tree::array(versions))])
    }
}

impl Served {
    fn to_resource_discovery(&self) -> Value {
        let mut resource = tree::map([
            ("resource", self.plural.clone().into()),
            ("responseKind", self.response_kind(&self.group, &self.version, &self.kind)),
            ("scope", Value::from(if self.namespaced { "Namespaced" } else { "Cluster" })),
            ("singularResource", self.singular.clone().into()),
            ("verbs", tree::list(&self.verbs)),
        ]);
        set_unless_empty(&mut resource, "shortNames", tree::list(&self.short_names));
        set_unless_empty(&mut resource, "categories", tree::list(&self.categories));
        let subresources = self.subresources.iter().map(|subresource| subresource.to_discovery(self));
        set_unless_empty(&mut resource, "subresources", tree::array(subresources));
        resource
    }

    /// Built-in resources state the group and version of a kind only where they differ.
    fn response_kind(&self, group: &Str, version: &Str, kind: &Str) -> Value {
        let own = !self.custom && (group, version) == (&self.group, &self.version);
        let or_nothing = |text: &Str| if own { Value::from("") } else { text.clone().into() };
        tree::map([("group", or_nothing(group)), ("version", or_nothing(version)), ("kind", kind.clone().into())])
    }
}

impl ServedSubresource {
    fn to_discovery(&self, parent: &Served) -> Value {
        let GroupVersionKind { group, version, kind } = &self.kind;
        tree::map([
            ("subresource", self.name.clone().into()),
            ("responseKind", parent.response_kind(group, version, kind)),
            ("verbs", tree::list(&self.verbs)),
        ])
    }
}
