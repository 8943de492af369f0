//! A served resource, built in or custom.

use kubewright_core::scheme::KindInfo;
use kubewright_core::{ByteString, GroupVersionKind, ResourceInfo, Str, SubresourceInfo};

use crate::hash::sha256;

/// A resource as discovery describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[doc(alias = "APIResource")]
pub struct Served {
    /// The API group, empty for the core group.
    pub group: Str,
    /// The version.
    pub version: Str,
    /// The kind of its objects.
    pub kind: Str,
    /// The plural, as in paths.
    pub plural: Str,
    /// The singular.
    pub singular: Str,
    /// Abbreviations for command lines.
    pub short_names: Vec<Str>,
    /// Categories, such as `all`.
    pub categories: Vec<Str>,
    /// Whether the resource is namespaced.
    pub namespaced: bool,
    /// The supported verbs.
    pub verbs: Vec<Str>,
    /// The subresources.
    pub subresources: Vec<ServedSubresource>,
    /// The storage kind, if objects are stored. Clients see only its hash.
    pub stored_as: Option<GroupVersionKind>,
    /// Whether this is a custom resource.
    pub custom: bool,
}

/// A subresource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedSubresource {
    /// The name in paths.
    pub name: Str,
    /// The kind of its requests and responses.
    pub kind: GroupVersionKind,
    /// The supported verbs.
    pub verbs: Vec<Str>,
}

impl Served {
    /// The verbs of every custom resource, in discovery order.
    pub const CUSTOM_VERBS: [&'static str; 8] =
        ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

    /// A custom resource without short names, categories and subresources, stored in its served
    /// version.
    pub fn custom(kind: GroupVersionKind, plural: &str, singular: &str, namespaced: bool) -> Self {
        Served {
            group: kind.group.clone(),
            version: kind.version.clone(),
            kind: kind.kind.clone(),
            plural: plural.into(),
            singular: singular.into(),
            namespaced,
            verbs: Served::CUSTOM_VERBS.map(Str::from_static).into(),
            stored_as: Some(kind),
            custom: true,
            ..Served::default()
        }
    }

    /// Adds the `status` subresource of a custom resource.
    #[must_use]
    pub fn with_status(mut self) -> Self {
        let kind = GroupVersionKind::new(self.group.clone(), self.version.clone(), self.kind.clone());
        self.subresources.push(ServedSubresource::changing("status", kind));
        self
    }

    /// Adds the `scale` subresource of a custom resource.
    #[must_use]
    pub fn with_scale(mut self) -> Self {
        let kind = GroupVersionKind::from_static("autoscaling", "v1", "Scale");
        self.subresources.push(ServedSubresource::changing("scale", kind));
        self
    }

    /// A hash by which clients recognize a changed storage version.
    #[doc(alias = "StorageVersionHash")]
    pub fn storage_version_hash(&self) -> Option<String> {
        let GroupVersionKind { group, version, kind } = self.stored_as.as_ref()?;
        let hash = sha256(format!("{group}/{version}/{kind}").as_bytes());
        Some(ByteString::from(&hash.as_ref()[..8]).to_base64())
    }
}

impl ServedSubresource {
    fn changing(name: &'static str, kind: GroupVersionKind) -> Self {
        let verbs = ["get", "patch", "update"].map(Str::from_static).into();
        ServedSubresource { name: Str::from_static(name), kind, verbs }
    }
}

impl From<&'static ResourceInfo> for Served {
    fn from(info: &'static ResourceInfo) -> Self {
        let texts = |texts: &'static [&'static str]| texts.iter().copied().map(Str::from_static).collect();
        Served {
            group: Str::from_static(info.kind.group),
            version: Str::from_static(info.kind.version),
            kind: Str::from_static(info.kind.kind),
            plural: Str::from_static(info.plural),
            singular: Str::from_static(info.singular),
            short_names: texts(info.short_names),
            categories: texts(info.categories),
            namespaced: info.namespaced,
            verbs: texts(info.verbs),
            subresources: info.subresources.iter().map(ServedSubresource::from).collect(),
            stored_as: info.has_verb("update").then(|| storage_kind(&info.kind)),
            custom: false,
        }
    }
}

impl From<&'static SubresourceInfo> for ServedSubresource {
    fn from(info: &'static SubresourceInfo) -> Self {
        ServedSubresource {
            name: Str::from_static(info.name),
            kind: GroupVersionKind::from(&info.kind),
            verbs: info.verbs.iter().copied().map(Str::from_static).collect(),
        }
    }
}

/// The storage kind of a built-in kind. Two kinds are served in more than one group or version.
fn storage_kind(kind: &KindInfo) -> GroupVersionKind {
    match (kind.group, kind.kind) {
        ("events.k8s.io", "Event") => GroupVersionKind::from_static("", "v1", "Event"),
        ("autoscaling", "HorizontalPodAutoscaler") => {
            GroupVersionKind::from_static("autoscaling", "v2", "HorizontalPodAutoscaler")
        }
        _ => GroupVersionKind::from(kind),
    }
}
