//! Discovery data.

use std::sync::Arc;

use kubewright_core::{GroupVersion, GroupVersionKind, GroupVersionResource, Str};

/// All groups, versions and resources of a server: the data of `api-resources` and `api-versions`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Discovery {
    /// The groups in the server's priority order; the core group first.
    pub groups: Vec<ApiGroup>,
    /// Versions that could not be discovered. The rest is valid.
    pub failures: Vec<GroupFailure>,
}

/// An API group.
#[derive(Debug, Clone, Default, PartialEq)]
#[doc(alias = "APIGroup")]
pub struct ApiGroup {
    /// The name; empty for the core group.
    pub name: Str,
    /// The versions, the server's preferred one first.
    pub versions: Vec<Version>,
}

/// A version of an API group.
#[derive(Debug, Clone, Default, PartialEq)]
#[doc(alias = "APIResourceList")]
pub struct Version {
    /// The name, such as `v1`.
    pub name: Str,
    /// The resources.
    pub resources: Vec<ApiResource>,
}

/// A resource.
#[derive(Debug, Clone, Default, PartialEq)]
#[doc(alias = "APIResource")]
pub struct ApiResource {
    /// The plural name, as in paths.
    pub plural: Str,
    /// The singular name.
    pub singular: Str,
    /// The kind of its objects.
    pub kind: GroupVersionKind,
    /// Whether its objects are namespaced.
    pub namespaced: bool,
    /// Supported verbs.
    pub verbs: Vec<Str>,
    /// Short names for the command line.
    pub short_names: Vec<Str>,
    /// Categories that it belongs to, such as `all`.
    pub categories: Vec<Str>,
    /// Subresources.
    pub subresources: Vec<Subresource>,
}

/// A subresource.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Subresource {
    /// The name in the path.
    pub name: Str,
    /// The kind of its requests and responses.
    pub kind: GroupVersionKind,
    /// Supported verbs.
    pub verbs: Vec<Str>,
}

/// A version of a group that could not be discovered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot discover {group_version}: {reason}")]
#[doc(alias = "ErrGroupDiscoveryFailed")]
pub struct GroupFailure {
    /// The version.
    pub group_version: GroupVersion,
    /// The reason.
    pub reason: String,
    /// Whether the failure is transient: the server was overloaded, unreachable, or reported an
    /// internal failure.
    pub is_transient: bool,
    /// All versions in the server's order, to insert this one once it is discovered.
    pub(super) order: Arc<[GroupVersion]>,
}

impl Discovery {
    /// The group of this name.
    #[inline]
    pub fn group(&self, name: &str) -> Option<&ApiGroup> {
        self.groups.iter().find(|group| group.name == name)
    }

    /// A version of a group.
    #[inline]
    pub fn version(&self, group_version: &GroupVersion) -> Option<&Version> {
        self.group(&group_version.group)?.versions.iter().find(|version| version.name == group_version.version)
    }

    /// A resource of a version.
    #[inline]
    pub fn resource(&self, resource: &GroupVersionResource) -> Option<&ApiResource> {
        let version = self.version(&resource.group_version())?;
        version.resources.iter().find(|found| found.plural == resource.resource)
    }

    /// All group versions, as in `api-versions`.
    #[doc(alias = "ServerGroups")]
    #[inline]
    pub fn group_versions(&self) -> impl Iterator<Item = GroupVersion> + '_ {
        self.groups.iter().flat_map(|group| {
            group.versions.iter().map(|version| GroupVersion::new(group.name.clone(), version.name.clone()))
        })
    }

    /// All resources with their versions.
    #[doc(alias = "ServerGroupsAndResources")]
    #[inline]
    pub fn resources(&self) -> impl Iterator<Item = (GroupVersion, &ApiResource)> + '_ {
        self.groups.iter().flat_map(|group| {
            group.versions.iter().flat_map(|version| {
                let group_version = GroupVersion::new(group.name.clone(), version.name.clone());
                version
                    .resources
                    .iter()
                    .filter(|resource| resource.is_served())
                    .map(move |one| (group_version.clone(), one))
            })
        })
    }

    /// Each resource once, in the preferred version of its group, or else the first version that
    /// has it.
    #[doc(alias = "ServerPreferredResources")]
    #[inline]
    pub fn preferred_resources(&self) -> impl Iterator<Item = (GroupVersion, &ApiResource)> + '_ {
        self.resources().filter(|(group_version, resource)| {
            let versions = self.group(&group_version.group).map_or(&[][..], |group| &group.versions);
            let first =
                versions.iter().find(|version| version.resources.iter().any(|one| one.plural == resource.plural));
            first.is_some_and(|first| first.name == group_version.version)
        })
    }

    /// Inserts a version that was discovered later, at its position in `order`.
    #[inline]
    pub(super) fn add(&mut self, group_version: GroupVersion, order: &[GroupVersion], resources: Vec<ApiResource>) {
        let ahead = || order.iter().take_while(|one| **one != group_version);
        let place = self.groups.iter().position(|group| group.name == group_version.group).unwrap_or_else(|| {
            let last = self.groups.iter().rposition(|group| ahead().any(|one| one.group == group.name));
            let place = last.map_or(0, |last| last + 1);
            self.groups.insert(place, ApiGroup { name: group_version.group.clone(), versions: Vec::new() });
            place
        });
        let ApiGroup { name, versions } = &mut self.groups[place];
        let is_ahead = |have: &Version| ahead().any(|one| one.group == *name && one.version == have.name);
        let place = versions.iter().rposition(is_ahead).map_or(0, |last| last + 1);
        versions.insert(place, Version { name: group_version.version, resources });
    }
}

impl ApiResource {
    /// Whether it has objects; some resources exist only for their subresources.
    #[inline]
    pub fn is_served(&self) -> bool {
        !self.kind.kind.is_empty()
    }

    /// Whether it supports `verb`.
    #[inline]
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|one| one == verb)
    }

    /// The subresource of this name.
    #[inline]
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }
}
