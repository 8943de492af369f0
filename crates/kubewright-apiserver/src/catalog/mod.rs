//! What the server serves: the built-in resources, and those that CustomResourceDefinitions add.
//!
//! A catalog never changes. A changed definition makes a new one, and requests that began with the old one end with it.

pub(crate) mod custom;
mod resource;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock, OnceLock};

use kubewright_core::scheme::TypeEntry;
use kubewright_core::{Str, compare_kube_aware_versions};

use crate::discovery::Discovery;
pub(crate) use resource::{Custom, Resource, Subresource};

/// The resources of one version of one group, by their names in paths.
pub(crate) type Resources = BTreeMap<Str, Arc<Resource>>;

/// All resources that are served at one moment.
pub(crate) struct Catalog {
    groups: BTreeMap<Str, BTreeMap<Str, Resources>>,
    /// Where an object is stored leads to the resource that it is stored as.
    by_storage: HashMap<Str, Arc<Resource>>,
    discovery: OnceLock<Discovery>,
}

impl Catalog {
    /// The built-in resources and these.
    pub(crate) fn new(custom: impl IntoIterator<Item = Arc<Resource>>) -> Self {
        static BUILT_IN: LazyLock<Vec<Arc<Resource>>> =
            LazyLock::new(|| kubewright_api::resources().into_iter().map(Resource::built_in).map(Arc::new).collect());
        let mut catalog = Catalog { groups: BTreeMap::new(), by_storage: HashMap::new(), discovery: OnceLock::new() };
        for resource in BUILT_IN.iter().cloned().chain(custom) {
            if resource.is_stored_version() {
                catalog.by_storage.insert(resource.storage.clone(), Arc::clone(&resource));
            }
            if resource.is_served() {
                let versions = catalog.groups.entry(resource.group.clone()).or_default();
                versions.entry(resource.version.clone()).or_default().insert(resource.plural.clone(), resource);
            }
        }
        catalog
    }

    /// The resources of a version of a group, if it is served.
    pub(crate) fn resources(&self, group: &str, version: &str) -> Option<&Resources> {
        self.groups.get(group)?.get(version)
    }

    /// Whether a group is one of those that are always there.
    pub(crate) fn is_built_in(&self, group: &str) -> bool {
        let versions = self.groups.get(group).into_iter().flat_map(BTreeMap::values);
        versions.flat_map(BTreeMap::values).any(|resource| !resource.is_custom())
    }

    /// What clients learn of it.
    pub(crate) fn discovery(&self) -> &Discovery {
        let resources = || self.groups.values().flat_map(BTreeMap::values).flat_map(BTreeMap::values);
        self.discovery.get_or_init(|| Discovery::new(resources().map(|resource| resource.to_discovered())))
    }

    /// The resource that objects with this `apiVersion` and `kind` belong to.
    pub(crate) fn of_kind(&self, api_version: &str, kind: &str) -> Option<&Arc<Resource>> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.resources(group, version)?.values().find(|resource| resource.kind == kind)
    }

    /// The resource whose objects lie under this name in the store.
    pub(crate) fn of_storage(&self, storage: &str) -> Option<&Arc<Resource>> {
        self.by_storage.get(storage)
    }

    /// All resources whose objects are stored, each once.
    pub(crate) fn stored(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.by_storage.values()
    }

    /// A resource as it is served here.
    pub(crate) fn find(&self, resource: &Resource) -> Option<&Arc<Resource>> {
        self.resources(&resource.group, &resource.version)?.get(&resource.plural)
    }

    /// The same objects in other versions, or under another group.
    pub(crate) fn equivalents(&self, resource: &Resource) -> impl Iterator<Item = &Arc<Resource>> {
        let all = self.groups().flat_map(|(_, versions)| versions).flat_map(|(_, resources)| resources.values());
        all.filter(|other| other.storage == resource.storage && other.api_version != resource.api_version)
    }

    /// Groups with their versions, the most preferred first.
    pub(crate) fn groups(&self) -> impl Iterator<Item = (&Str, Vec<(&Str, &Resources)>)> {
        self.groups.iter().map(|(group, versions)| {
            let mut versions: Vec<_> = versions.iter().collect();
            versions.sort_by(|(a, _), (b, _)| compare_kube_aware_versions(b, a));
            (group, versions)
        })
    }
}

/// The built-in type of this `apiVersion` and `kind`, whether it is a resource or not.
pub(crate) fn type_entry(api_version: &str, kind: &str) -> Option<&'static TypeEntry> {
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
