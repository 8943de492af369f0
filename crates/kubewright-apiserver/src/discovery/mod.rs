//! What a client learns of the API before it uses it: groups, versions, resources and their verbs.
//!
//! [`Discovery`] is made from the resources that are [`Served`] and answers in the old form, one document for
//! each group and version, and in the aggregated form, one for all. Paths, headers and caching
//! are left to the caller: a document changes only when what is served does.

mod aggregated;
mod legacy;
mod served;

use kubewright_core::{Str, compare_kube_aware_versions};

use crate::hash;
pub use served::{Served, ServedSubresource};

/// Groups in the order of the server, highest priority first. Others come after them by name.
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

/// Everything that is served, in the order of discovery.
///
/// ```
/// use kubewright_apiserver::discovery::{Discovery, Served};
/// let discovery = Discovery::new(kubewright_api::resources().into_iter().map(Served::from));
/// let apps = discovery.api_group("apps").unwrap();
/// assert_eq!(apps.get("preferredVersion").unwrap().to_string(), r#"{"groupVersion":"apps/v1","version":"v1"}"#);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Discovery {
    /// Invariant: ordered by priority, no name twice, none empty.
    groups: Vec<Group>,
}

#[derive(Debug, Clone)]
struct Group {
    name: Str,
    /// Invariant: the preferred one first, none empty.
    versions: Vec<Version>,
}

#[derive(Debug, Clone)]
struct Version {
    name: Str,
    resources: Vec<Served>,
}

impl Discovery {
    /// Discovery of these resources, whatever order they come in.
    pub fn new(served: impl IntoIterator<Item = Served>) -> Self {
        let mut groups: Vec<Group> = Vec::new();
        for resource in served {
            let group = find_or_push(
                &mut groups,
                |group| group.name == resource.group,
                || Group { name: resource.group.clone(), versions: Vec::new() },
            );
            let version = find_or_push(
                &mut group.versions,
                |version| version.name == resource.version,
                || Version { name: resource.version.clone(), resources: Vec::new() },
            );
            version.resources.push(resource);
        }
        let priority = |name: &str| GROUP_ORDER.iter().position(|group| *group == name).unwrap_or(GROUP_ORDER.len());
        groups.sort_by(|a, b| priority(&a.name).cmp(&priority(&b.name)).then_with(|| a.name.cmp(&b.name)));
        for group in &mut groups {
            group.versions.sort_by(|a, b| compare_kube_aware_versions(&b.name, &a.name));
            for version in &mut group.versions {
                version.resources.sort_by(|a, b| a.plural.cmp(&b.plural));
            }
        }
        Discovery { groups }
    }

    fn group(&self, name: &str) -> Option<&Group> {
        self.groups.iter().find(|group| group.name == *name)
    }
}

/// The `ETag` of a body, in its quotes.
pub fn etag(body: &[u8]) -> String {
    format!("\"{}\"", hash::hex(body))
}

fn find_or_push<T>(items: &mut Vec<T>, is_it: impl Fn(&T) -> bool, make: impl FnOnce() -> T) -> &mut T {
    let at = items.iter().position(is_it).unwrap_or_else(|| {
        items.push(make());
        items.len() - 1
    });
    &mut items[at]
}

#[cfg(test)]
mod tests;
