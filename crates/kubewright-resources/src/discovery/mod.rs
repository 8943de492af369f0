//! API discovery: groups, versions, resources and their verbs.
//!
//! [`ServedApis`] is created from [`Served`] resources. It renders the unaggregated documents and
//! the aggregated one. Paths, headers and caching are left to the caller. A document changes only
//! with the served resources.

mod aggregated;
mod document;
mod legacy;
mod remote;
mod served;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use kubewright_core::{Str, compare_kube_aware_versions};

use crate::hash;
pub use document::DiscoveryDocument;
pub use remote::RemoteVersion;
pub use served::{Served, ServedSubresource};

/// Known groups by priority, highest first. All other groups follow by name.
const GROUP_ORDER: [&str; 22] = [
    "",
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
];

/// Everything that is served, in discovery order.
///
/// ```
/// use kubewright_resources::discovery::{ServedApis, Served};
/// let discovery = ServedApis::new(kubewright_api::resources().into_iter().map(Served::from));
/// let apps = discovery.api_group("apps").unwrap().to_json();
/// let versions = r#"[{"groupVersion":"apps/v1","version":"v1"}]"#;
/// let preferred = r#"{"groupVersion":"apps/v1","version":"v1"}"#;
/// let want = format!(
///     r#"{{"kind":"APIGroup","apiVersion":"v1","name":"apps","versions":{versions},"preferredVersion":{preferred}}}"#
/// );
/// assert_eq!(String::from_utf8(apps).unwrap(), want);
/// ```
#[derive(Debug, Clone, Default)]
pub struct ServedApis {
    /// Invariant: ordered by priority, with unique names, and no group is empty.
    groups: Vec<Arc<DiscoveredGroup>>,
    /// Indexes into `groups` by name.
    place_of: HashMap<Str, usize>,
}

/// A group in discovery order.
#[derive(Debug, Clone, Default)]
pub(crate) struct DiscoveredGroup {
    name: Str,
    /// Invariant: the preferred version is first.
    versions: Vec<DiscoveredVersion>,
}

#[derive(Debug, Clone)]
struct DiscoveredVersion {
    name: Str,
    /// Invariant: sorted by plural.
    resources: Vec<Served>,
    /// Whether the resources are unknown, because their aggregated API server is unavailable.
    is_stale: bool,
}

impl ServedApis {
    /// Creates discovery for resources in any order.
    pub fn new(served: impl IntoIterator<Item = Served>) -> Self {
        let mut by_group: BTreeMap<Str, Vec<Served>> = BTreeMap::new();
        for resource in served {
            by_group.entry(resource.group.clone()).or_default().push(resource);
        }
        ServedApis::of_groups(by_group.into_values().map(|served| Arc::new(DiscoveredGroup::new(served))))
    }

    /// Creates discovery for groups in any order.
    pub(crate) fn of_groups(groups: impl Iterator<Item = Arc<DiscoveredGroup>>) -> Self {
        let priority = |name: &str| GROUP_ORDER.iter().position(|group| *group == name).unwrap_or(GROUP_ORDER.len());
        let mut groups: Vec<_> = groups.collect();
        groups.sort_by(|a, b| priority(&a.name).cmp(&priority(&b.name)).then_with(|| a.name.cmp(&b.name)));
        let place_of = groups.iter().enumerate().map(|(place, group)| (group.name.clone(), place)).collect();
        ServedApis { groups, place_of }
    }

    /// This discovery with the versions of aggregated API servers.
    #[must_use]
    pub fn with_remote(&self, remote: &[RemoteVersion]) -> Self {
        let mut added: BTreeMap<&Str, Vec<&RemoteVersion>> = BTreeMap::new();
        for version in remote {
            added.entry(&version.group).or_default().push(version);
        }
        let unchanged = self.groups.iter().filter(|group| !added.contains_key(&group.name)).cloned();
        let none = DiscoveredGroup::default();
        let changed = added.iter().map(|(name, remote)| {
            let group = self.group(name).unwrap_or(&none);
            Arc::new(group.with_remote(remote))
        });
        ServedApis::of_groups(unchanged.chain(changed))
    }

    fn group(&self, name: &str) -> Option<&DiscoveredGroup> {
        self.place_of.get(name).map(|place| &*self.groups[*place])
    }
}

impl DiscoveredGroup {
    /// Creates a group from its resources.
    pub(crate) fn new(served: impl IntoIterator<Item = Served>) -> Self {
        let mut name = Str::new();
        let mut by_version: BTreeMap<Str, Vec<Served>> = BTreeMap::new();
        for resource in served {
            name = resource.group.clone();
            by_version.entry(resource.version.clone()).or_default().push(resource);
        }
        let versions = by_version.into_iter();
        let versions = versions.map(|(name, resources)| DiscoveredVersion { name, resources, is_stale: false });
        let mut group = DiscoveredGroup { name, versions: versions.collect() };
        group.sort();
        group
    }

    fn sort(&mut self) {
        self.versions.sort_by(|a, b| compare_kube_aware_versions(&b.name, &a.name));
        for version in &mut self.versions {
            version.resources.sort_by(|a, b| a.plural.cmp(&b.plural));
        }
    }
}

/// The quoted `ETag` of a body.
pub fn etag(body: &[u8]) -> String {
    format!("\"{}\"", hash::hex(body))
}

#[cfg(test)]
mod tests;
