//! What a server has, as data.

use std::sync::Arc;

use kubewright_core::{GroupVersion, GroupVersionKind, GroupVersionResource, Str};

/// All that a server has: the data of `api-resources` and `api-versions`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Discovery {
    /// The groups in the server's order, which is that of their priority; the core group first.
    pub groups: Vec<Group>,
    /// What could not be found out. The rest is right nevertheless.
    pub failures: Vec<GroupFailure>,
}

/// A group.
#[derive(Debug, Clone, Default, PartialEq)]
#[doc(alias = "APIGroup")]
pub struct Group {
    /// The name, empty for the core group.
    pub name: Str,
    /// The versions, the server's preferred one first.
    pub versions: Vec<Version>,
}

/// A version of a group.
#[derive(Debug, Clone, Default, PartialEq)]
#[doc(alias = "APIResourceList")]
pub struct Version {
    /// The name, such as `v1`.
    pub name: Str,
    /// The resources.
    pub resources: Vec<Resource>,
}

/// A resource.
#[derive(Debug, Clone, Default, PartialEq)]
#[doc(alias = "APIResource")]
pub struct Resource {
    /// The name in paths.
    pub plural: Str,
    /// The name of one.
    pub singular: Str,
    /// What its objects are.
    pub kind: GroupVersionKind,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// What can be done with it.
    pub verbs: Vec<Str>,
    /// Short names that people type.
    pub short_names: Vec<Str>,
    /// Groups of resources it belongs to, such as `all`.
    pub categories: Vec<Str>,
    /// Parts of its objects with paths of their own.
    pub subresources: Vec<Subresource>,
}

/// A part of an object with a path of its own.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Subresource {
    /// The name in the path.
    pub name: Str,
    /// What is read and written there.
    pub kind: GroupVersionKind,
    /// What can be done with it.
    pub verbs: Vec<Str>,
}

/// A version of a group that could not be discovered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot discover {group_version}: {reason}")]
#[doc(alias = "ErrGroupDiscoveryFailed")]
pub struct GroupFailure {
    /// Which one.
    pub group_version: GroupVersion,
    /// Why.
    pub reason: String,
    /// Whether it may be there the next time: the server was busy, out of reach, or told of its own failure.
    pub is_transient: bool,
    /// All versions as the server orders them, which tells where it belongs once it is found.
    pub(super) order: Arc<[GroupVersion]>,
}

impl Discovery {
    /// The group of this name.
    #[inline]
    pub fn group(&self, name: &str) -> Option<&Group> {
        self.groups.iter().find(|group| group.name == name)
    }

    /// A version of a group.
    #[inline]
    pub fn version(&self, group_version: &GroupVersion) -> Option<&Version> {
        self.group(&group_version.group)?.versions.iter().find(|version| version.name == group_version.version)
    }

    /// A resource of a version.
    #[inline]
    pub fn resource(&self, resource: &GroupVersionResource) -> Option<&Resource> {
        let version = self.version(&resource.group_version())?;
        version.resources.iter().find(|found| found.plural == resource.resource)
    }

    /// All group-versions, as `api-versions` shows them.
    #[doc(alias = "ServerGroups")]
    #[inline]
    pub fn group_versions(&self) -> impl Iterator<Item = GroupVersion> + '_ {
        self.groups.iter().flat_map(|group| {
            group.versions.iter().map(|version| GroupVersion::new(group.name.clone(), version.name.clone()))
        })
    }

    /// All resources of all versions, each with the version it is in.
    #[doc(alias = "ServerGroupsAndResources")]
    #[inline]
    pub fn resources(&self) -> impl Iterator<Item = (GroupVersion, &Resource)> + '_ {
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

    /// Each resource once, in the version that the server prefers: that of its group, or the first that has it.
    #[doc(alias = "ServerPreferredResources")]
    #[inline]
    pub fn preferred_resources(&self) -> impl Iterator<Item = (GroupVersion, &Resource)> + '_ {
        self.resources().filter(|(group_version, resource)| {
            let versions = self.group(&group_version.group).map_or(&[][..], |group| &group.versions);
            let first =
                versions.iter().find(|version| version.resources.iter().any(|one| one.plural == resource.plural));
            first.is_some_and(|first| first.name == group_version.version)
        })
    }

    /// Puts a version that was found later where the server has it: behind those before it in `order`.
    #[inline]
    pub(super) fn add(&mut self, group_version: GroupVersion, order: &[GroupVersion], resources: Vec<Resource>) {
        let ahead = || order.iter().take_while(|one| **one != group_version);
        let place = self.groups.iter().position(|group| group.name == group_version.group).unwrap_or_else(|| {
            let last = self.groups.iter().rposition(|group| ahead().any(|one| one.group == group.name));
            let place = last.map_or(0, |last| last + 1);
            self.groups.insert(place, Group { name: group_version.group.clone(), versions: Vec::new() });
            place
        });
        let Group { name, versions } = &mut self.groups[place];
        let is_ahead = |have: &Version| ahead().any(|one| one.group == *name && one.version == have.name);
        let place = versions.iter().rposition(is_ahead).map_or(0, |last| last + 1);
        versions.insert(place, Version { name: group_version.version, resources });
    }
}

impl Resource {
    /// Whether it has objects of its own; some are there only for their parts.
    #[inline]
    pub fn is_served(&self) -> bool {
        !self.kind.kind.is_empty()
    }

    /// Whether `verb` can be done with it.
    #[inline]
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|one| one == verb)
    }

    /// The part of this name.
    #[inline]
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }
}
