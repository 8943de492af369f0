//! The resources of one API group and their cached documents.
//!
//! Catalogs share groups. A change copies only its own group, so the documents of all others stay
//! cached.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use kubewright_core::{Str, compare_kube_aware_versions};

use super::resource::Resource;
use crate::discovery::DiscoveredGroup;

/// The resources of one group version, by plural.
pub type Resources = BTreeMap<Str, Arc<Resource>>;

/// An API group.
#[derive(Default)]
pub struct Group {
    versions: BTreeMap<Str, Arc<ServedVersion>>,
    /// Built-in resources that are not served.
    hidden: BTreeMap<Str, Arc<ServedVersion>>,
    /// The resources of the storage versions, by plural.
    stored: Resources,
    discovered: OnceLock<Arc<DiscoveredGroup>>,
}

/// A version of an API group.
#[derive(Default)]
pub struct ServedVersion {
    resources: Resources,
    by_kind: Resources,
    /// Cache of the OpenAPI v3 document, as JSON.
    pub document: OnceLock<Bytes>,
    /// Cache of the hash of the document's inputs, which is in its URL.
    pub document_hash: OnceLock<String>,
}

/// Shares the resources and drops the cached documents.
impl Clone for Group {
    fn clone(&self) -> Self {
        let (versions, hidden, stored) = (self.versions.clone(), self.hidden.clone(), self.stored.clone());
        Group { versions, hidden, stored, discovered: OnceLock::new() }
    }
}

/// Shares the resources and drops the cached documents.
impl Clone for ServedVersion {
    fn clone(&self) -> Self {
        let (resources, by_kind) = (self.resources.clone(), self.by_kind.clone());
        ServedVersion { resources, by_kind, ..ServedVersion::default() }
    }
}

impl Group {
    pub(super) fn insert(&mut self, resource: Arc<Resource>) {
        self.discovered = OnceLock::new();
        if resource.is_stored_version() {
            self.stored.insert(resource.plural.clone(), Arc::clone(&resource));
        }
        if resource.is_served() {
            Arc::make_mut(self.versions.entry(resource.version.clone()).or_default()).insert(resource);
        }
    }

    pub(super) fn remove(&mut self, resource: &Resource) {
        self.discovered = OnceLock::new();
        if self.stored.get(&resource.plural).is_some_and(|stored| stored.version == resource.version) {
            self.stored.remove(&resource.plural);
        }
        if let Some(version) = self.versions.get_mut(&resource.version) {
            let version = Arc::make_mut(version);
            version.remove(resource);
            if version.resources.is_empty() {
                self.versions.remove(&resource.version);
            }
        }
    }

    /// Stops serving the resources for which `is_hidden` holds.
    pub(super) fn hide(&mut self, is_hidden: impl Fn(&Resource) -> bool) {
        let all = self.versions.values().flat_map(|version| version.resources.values());
        let hidden: Vec<_> = all.filter(|resource| is_hidden(resource)).cloned().collect();
        for resource in hidden {
            let stored = self.stored.clone();
            self.remove(&resource);
            self.stored = stored;
            Arc::make_mut(self.hidden.entry(resource.version.clone()).or_default()).insert(resource);
        }
    }

    /// The resource of a kind, served or not.
    pub(super) fn of_kind(&self, version: &str, kind: &str) -> Option<&Arc<Resource>> {
        let versions = [&self.versions, &self.hidden].into_iter().filter_map(|versions| versions.get(version));
        { versions }.find_map(|version| version.by_kind.get(kind))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.versions.is_empty() && self.stored.is_empty()
    }

    /// Whether the group has a served version.
    pub(super) fn is_served(&self) -> bool {
        !self.versions.is_empty()
    }

    pub(super) fn version(&self, version: &str) -> Option<&Arc<ServedVersion>> {
        self.versions.get(version)
    }

    pub(super) fn stored(&self) -> &Resources {
        &self.stored
    }

    /// The versions, the preferred one first.
    pub(super) fn versions(&self) -> Vec<(&Str, &Arc<ServedVersion>)> {
        let mut versions: Vec<_> = self.versions.iter().collect();
        versions.sort_by(|(a, _), (b, _)| compare_kube_aware_versions(b, a));
        versions
    }

    /// A resource in all versions.
    pub(super) fn of_plural(&self, plural: &str) -> impl Iterator<Item = &Arc<Resource>> {
        self.versions.values().filter_map(move |version| version.resources.get(plural))
    }

    /// The group as discovery describes it.
    pub(super) fn discovered(&self) -> &Arc<DiscoveredGroup> {
        self.discovered.get_or_init(|| {
            let resources = self.versions.values().flat_map(|version| version.resources.values());
            Arc::new(DiscoveredGroup::new(resources.map(|resource| resource.to_discovered())))
        })
    }
}

impl ServedVersion {
    fn insert(&mut self, resource: Arc<Resource>) {
        self.by_kind.entry(resource.kind.clone()).or_insert_with(|| Arc::clone(&resource));
        self.resources.insert(resource.plural.clone(), resource);
        self.drop_documents();
    }

    fn remove(&mut self, resource: &Resource) {
        if self.by_kind.get(&resource.kind).is_some_and(|known| known.plural == resource.plural) {
            self.by_kind.remove(&resource.kind);
        }
        self.resources.remove(&resource.plural);
        self.drop_documents();
    }

    fn drop_documents(&mut self) {
        (self.document, self.document_hash) = (OnceLock::new(), OnceLock::new());
    }

    /// The resources, by plural.
    pub fn resources(&self) -> &Resources {
        &self.resources
    }
}
