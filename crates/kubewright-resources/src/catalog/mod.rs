//! The served resources: built-in ones, and those of CustomResourceDefinitions.
//!
//! A catalog is immutable. A changed definition creates a new one; requests finish with the catalog
//! that they started with.

mod converter;
pub mod custom;
mod group;
mod merge_schema;
mod resource;
mod runtime_config;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock, OnceLock};

use bytes::Bytes;
use kubewright_core::Str;
use kubewright_core::message::TypeEntry;

use crate::discovery::{RemoteVersion, ServedApis};
pub use converter::ConversionWebhook;
use group::Group;
pub use group::{Resources, ServedVersion};
pub use resource::{Custom, Resource, Subresource};
pub use runtime_config::RuntimeConfig;

static BUILT_IN: LazyLock<Catalog> = LazyLock::new(|| {
    let mut catalog = Catalog::default();
    let resources = kubewright_api::resources().into_iter().map(Resource::built_in).map(Arc::new);
    resources.for_each(|resource| catalog.insert(resource));
    catalog
});

/// The resources that are served at one point in time.
#[derive(Default)]
pub struct Catalog {
    /// Invariant: no group is empty.
    groups: BTreeMap<Str, Arc<Group>>,
    /// The versions of aggregated API servers. They are in discovery only.
    remote: Arc<[RemoteVersion]>,
    discovery: OnceLock<ServedApis>,
    /// Aggregated discovery of the core group and of all others, as JSON with its `ETag`.
    pub aggregated: [OnceLock<(Bytes, String)>; 2],
    /// The OpenAPI v2 document as JSON with its `ETag`.
    pub openapi_v2: OnceLock<(Bytes, String)>,
}

/// Shares the groups and drops the cached documents.
impl Clone for Catalog {
    fn clone(&self) -> Self {
        Catalog { groups: self.groups.clone(), remote: Arc::clone(&self.remote), ..Catalog::default() }
    }
}

impl Catalog {
    /// The built-in resources plus `custom`.
    pub fn new(custom: impl IntoIterator<Item = Arc<Resource>>) -> Self {
        let mut catalog = BUILT_IN.clone();
        custom.into_iter().for_each(|resource| catalog.insert(resource));
        catalog
    }

    /// A copy of this catalog with the resources `before` replaced by `after`.
    pub fn with(&self, before: &[Arc<Resource>], after: &[Arc<Resource>]) -> Self {
        let mut catalog = self.clone();
        for resource in before {
            if let Some(group) = catalog.groups.get_mut(&resource.group) {
                let group = Arc::make_mut(group);
                group.remove(resource);
                if group.is_empty() {
                    catalog.groups.remove(&resource.group);
                }
            }
        }
        after.iter().cloned().for_each(|resource| catalog.insert(resource));
        catalog
    }

    /// A copy of this catalog that hides the built-in resources which `config` disables. They have
    /// no path and are in no document, but the server itself still knows them.
    pub fn restricted(&self, config: &RuntimeConfig) -> Self {
        let mut catalog = self.clone();
        if !config.is_default() {
            for group in catalog.groups.values_mut() {
                Arc::make_mut(group).hide(|resource| config.hides(resource));
            }
        }
        catalog
    }

    /// A copy of this catalog whose discovery lists these versions of aggregated API servers.
    pub fn with_remote(&self, remote: Vec<RemoteVersion>) -> Self {
        Catalog { remote: remote.into(), ..self.clone() }
    }

    /// The versions of aggregated API servers.
    pub fn remote(&self) -> &[RemoteVersion] {
        &self.remote
    }

    fn insert(&mut self, resource: Arc<Resource>) {
        if resource.is_stored_version() || resource.is_served() {
            Arc::make_mut(self.groups.entry(resource.group.clone()).or_default()).insert(resource);
        }
    }

    /// A group version, if it is served.
    pub fn version(&self, group: &str, version: &str) -> Option<&Arc<ServedVersion>> {
        self.groups.get(group)?.version(version)
    }

    /// The resources of a group version, if it is served.
    pub fn resources(&self, group: &str, version: &str) -> Option<&Resources> {
        self.version(group, version).map(|version| version.resources())
    }

    /// Whether a group is built in.
    pub fn is_built_in(&self, group: &str) -> bool {
        BUILT_IN.groups.contains_key(group)
    }

    /// Whether a group is built in and has a served version.
    pub fn serves_built_in(&self, group: &str) -> bool {
        self.is_built_in(group) && self.groups.get(group).is_some_and(|group| group.is_served())
    }

    /// The discovery documents.
    pub fn discovery(&self) -> &ServedApis {
        let groups =
            || self.groups.values().filter(|group| group.is_served()).map(|group| Arc::clone(group.discovered()));
        self.discovery.get_or_init(|| ServedApis::of_groups(groups()).with_remote(&self.remote))
    }

    /// The resource of an `apiVersion` and `kind`.
    pub fn of_kind(&self, api_version: &str, kind: &str) -> Option<&Arc<Resource>> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.groups.get(group)?.of_kind(version, kind)
    }

    /// The resource with this storage name.
    pub fn of_storage(&self, storage: &str) -> Option<&Arc<Resource>> {
        let (plural, group) = storage.split_once('.').unwrap_or((storage, ""));
        self.groups.get(group)?.stored().get(plural)
    }

    /// One resource per storage name.
    pub fn stored(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.groups.values().flat_map(|group| group.stored().values())
    }

    /// The version of a resource in this catalog.
    pub fn find(&self, resource: &Resource) -> Option<&Arc<Resource>> {
        self.resources(&resource.group, &resource.version)?.get(&resource.plural)
    }

    /// The other group versions that serve the same objects.
    pub fn equivalents<'c>(&'c self, resource: &'c Resource) -> impl Iterator<Item = &'c Arc<Resource>> {
        // Events are the only objects that two groups serve.
        let groups: &[&str] = if resource.storage == "events" { &["", "events.k8s.io"] } else { &[&resource.group] };
        let groups: Vec<_> = groups.iter().filter_map(|group| self.groups.get(*group)).collect();
        let all = groups.into_iter().flat_map(|group| group.of_plural(&resource.plural));
        all.filter(|other| other.storage == resource.storage && other.api_version != resource.api_version)
    }

    /// The served groups with their versions, the preferred one first.
    pub fn groups(&self) -> impl Iterator<Item = (&Str, Vec<(&Str, &Arc<ServedVersion>)>)> {
        self.groups.iter().filter(|(_, group)| group.is_served()).map(|(name, group)| (name, group.versions()))
    }
}

/// The built-in type of an `apiVersion` and `kind`. It may be without a resource.
pub fn type_entry(api_version: &str, kind: &str) -> Option<&'static TypeEntry> {
    type Types = HashMap<(&'static str, &'static str), &'static TypeEntry>;
    static TYPES: LazyLock<Types> = LazyLock::new(|| {
        let types = kubewright_api::types();
        types
            .into_iter()
            .filter_map(|entry| Some(((entry.info.kind?.api_version, entry.info.kind?.kind), entry)))
            .collect()
    });
    TYPES.get(&(api_version, kind)).copied()
}

#[cfg(test)]
mod tests {
    use kubewright_core::Value;

    use super::*;
    use custom::{CustomResources, Replacement};

    fn definition(group: &str, plural: &str, version: &str) -> Value {
        let text = format!(
            r#"{{"metadata":{{"name":"{plural}.{group}","uid":"{plural}.{group}","generation":1}},
            "spec":{{"group":"{group}","scope":"Namespaced","versions":[{{"name":"{version}","served":true,"storage":true}}]}},
            "status":{{"acceptedNames":{{"plural":"{plural}","kind":"{plural}Kind","listKind":"{plural}List"}},
            "conditions":[{{"type":"Established","status":"True"}}]}}}}"#
        );
        text.parse().expect("valid JSON")
    }

    #[test]
    fn a_new_definition_does_not_rebuild_the_documents_of_other_groups() {
        let mut custom = CustomResources::default();
        let mut install = |catalog: &Catalog, revision: u64, definition: Option<&Value>, name: &str| {
            let Replacement { before, after } =
                custom.set(name, definition.map(|definition| (revision, definition)))?;
            Some(catalog.with(&before, &after))
        };
        let first = Catalog::new([]);
        let a = definition("a.example.com", "as", "v1");
        let second = install(&first, 1, Some(&a), "as.a.example.com").expect("it is new");
        assert_eq!(
            second.discovery().api_group("a.example.com").is_some(),
            first.discovery().api_group("a.example.com").is_none()
        );
        let b = definition("b.example.com", "bs", "v1");
        let third = install(&second, 2, Some(&b), "bs.b.example.com").expect("it is new");
        for group in ["", "apps", "a.example.com"] {
            assert!(Arc::ptr_eq(&second.groups[group], &third.groups[group]), "{group:?}");
        }
        assert!(install(&third, 2, Some(&b), "bs.b.example.com").is_none(), "nothing has changed");
        assert_eq!(third.of_kind("b.example.com/v1", "bsKind").map(|found| &*found.plural), Some("bs"));
        assert!(third.of_storage("as.a.example.com").is_some());
        // A new resource invalidates the documents of its own group version only.
        let mut more = definition("a.example.com", "cs", "v2");
        let fourth = install(&third, 3, Some(&more), "cs.a.example.com").expect("it is new");
        let version =
            |catalog: &Catalog, version| Arc::clone(catalog.version("a.example.com", version).expect("served"));
        assert!(Arc::ptr_eq(&version(&third, "v1"), &version(&fourth, "v1")));
        assert!(Arc::ptr_eq(&third.groups["b.example.com"], &fourth.groups["b.example.com"]));
        kubewright_core::tree::set(&mut more, &["status", "acceptedNames", "kind"], "Other");
        let fifth = install(&fourth, 4, Some(&more), "cs.a.example.com").expect("it has changed");
        assert!(fifth.of_kind("a.example.com/v2", "csKind").is_none());
        assert!(fifth.of_kind("a.example.com/v2", "Other").is_some());
        let sixth = install(&fifth, 5, None, "cs.a.example.com").expect("it is gone");
        assert!(sixth.version("a.example.com", "v2").is_none() && sixth.of_storage("cs.a.example.com").is_none());
        let seventh = install(&sixth, 6, None, "as.a.example.com").expect("it is gone");
        assert!(!seventh.groups.contains_key("a.example.com"));
    }
}
