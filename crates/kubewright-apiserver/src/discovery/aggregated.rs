//! Aggregated discovery: all groups, versions and resources in one document.

use kubewright_core::{GroupVersionKind, Str, Value};

use super::{DiscoveredGroup, Served, ServedApis, ServedSubresource};
use crate::tree::{array, object, set_unless_empty, texts, word};

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
    object([
        ("kind", word("APIGroupDiscoveryList")),
        ("apiVersion", word("apidiscovery.k8s.io/v2")),
        ("metadata", object([])),
        ("items", array(groups.map(DiscoveredGroup::to_group_discovery))),
    ])
}

impl DiscoveredGroup {
    fn to_group_discovery(&self) -> Value {
        let mut metadata = object([]);
        set_unless_empty(&mut metadata, "name", self.name.clone().into());
        let versions = self.versions.iter().map(|version| {
            object([
                ("version", version.name.clone().into()),
                ("resources", array(version.resources.iter().map(Served::to_resource_discovery))),
                ("freshness", word("Current")),
            ])
        });
        object([("metadata", metadata), ("versions", array(versions))])
    }
}

impl Served {
    fn to_resource_discovery(&self) -> Value {
        let mut resource = object([
            ("resource", self.plural.clone().into()),
            ("responseKind", self.response_kind(&self.group, &self.version, &self.kind)),
            ("scope", word(if self.namespaced { "Namespaced" } else { "Cluster" })),
            ("singularResource", self.singular.clone().into()),
            ("verbs", texts(&self.verbs)),
        ]);
        set_unless_empty(&mut resource, "shortNames", texts(&self.short_names));
        set_unless_empty(&mut resource, "categories", texts(&self.categories));
        let subresources = self.subresources.iter().map(|subresource| subresource.to_discovery(self));
        set_unless_empty(&mut resource, "subresources", array(subresources));
        resource
    }

    /// Built-in resources state the group and version of a kind only where they differ.
    fn response_kind(&self, group: &Str, version: &Str, kind: &Str) -> Value {
        let own = !self.custom && (group, version) == (&self.group, &self.version);
        let or_nothing = |text: &Str| if own { word("") } else { text.clone().into() };
        object([("group", or_nothing(group)), ("version", or_nothing(version)), ("kind", kind.clone().into())])
    }
}

impl ServedSubresource {
    fn to_discovery(&self, parent: &Served) -> Value {
        let GroupVersionKind { group, version, kind } = &self.kind;
        object([
            ("subresource", self.name.clone().into()),
            ("responseKind", parent.response_kind(group, version, kind)),
            ("verbs", texts(&self.verbs)),
        ])
    }
}
