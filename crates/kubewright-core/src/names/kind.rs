//! Names of kinds and resources with group and version.
//!
//! A *kind* is part of an object (`Deployment`), a *resource* is part of a URL (`deployments`).
//! Discovery maps one to the other.

use std::{convert::Infallible, error::Error, fmt, str::FromStr};

use crate::Str;

/// An API group in one version, printed as an object's `apiVersion`: `apps/v1`, or `v1` for the
/// core group.
///
/// ```
/// use kubewright_core::GroupVersion;
/// const APPS_V1: GroupVersion = GroupVersion::from_static("apps", "v1");
/// assert_eq!("apps/v1".parse(), Ok(APPS_V1));
/// assert_eq!(APPS_V1.api_path(), "/apis/apps/v1");
/// assert_eq!(GroupVersion::from_static("", "v1").to_string(), "v1");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersion {
    /// The group, empty for the core group.
    pub group: Str,
    /// The version, such as `v1`.
    pub version: Str,
}

impl GroupVersion {
    /// A group and version given at run time.
    pub fn new(group: impl Into<Str>, version: impl Into<Str>) -> Self {
        GroupVersion { group: group.into(), version: version.into() }
    }

    /// A group and version known at compile time.
    #[inline]
    pub const fn from_static(group: &'static str, version: &'static str) -> Self {
        GroupVersion { group: Str::from_static(group), version: Str::from_static(version) }
    }

    /// A kind of this group and version.
    #[doc(alias = "WithKind")]
    pub fn with_kind(&self, kind: impl Into<Str>) -> GroupVersionKind {
        GroupVersionKind { group: self.group.clone(), version: self.version.clone(), kind: kind.into() }
    }

    /// A resource of this group and version.
    #[doc(alias = "WithResource")]
    pub fn with_resource(&self, resource: impl Into<Str>) -> GroupVersionResource {
        GroupVersionResource { group: self.group.clone(), version: self.version.clone(), resource: resource.into() }
    }

    /// The URL path: `/api/v1` for the core group, `/apis/apps/v1` for others.
    #[inline]
    pub fn api_path(&self) -> String {
        let prefix = if self.group.is_empty() { "/api" } else { "/apis" };
        format!("{prefix}/{self}")
    }
}

impl fmt::Display for GroupVersion {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.group.is_empty() {
            write!(f, "{}/", self.group)?;
        }
        f.write_str(&self.version)
    }
}

impl FromStr for GroupVersion {
    type Err = ParseKindError;

    /// Parses an `apiVersion`; the empty text gives an empty group and version, as in an object
    /// without one.
    #[inline]
    fn from_str(text: &str) -> Result<Self, ParseKindError> {
        let (group, version) = text.split_once('/').unwrap_or(("", text));
        if version.contains('/') {
            return Err(ParseKindError { text: text.into(), expected: "\"group/version\" or \"version\"" });
        }
        Ok(GroupVersion::new(group, version))
    }
}

/// A kind in one version of its group, printed as `apps/v1, Kind=Deployment`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersionKind {
    /// The group, empty for the core group.
    pub group: Str,
    /// The version, such as `v1`.
    pub version: Str,
    /// The kind, such as `Deployment`.
    pub kind: Str,
}

impl GroupVersionKind {
    /// A kind given at run time.
    pub fn new(group: impl Into<Str>, version: impl Into<Str>, kind: impl Into<Str>) -> Self {
        GroupVersionKind { group: group.into(), version: version.into(), kind: kind.into() }
    }

    /// A kind known at compile time.
    #[inline]
    pub const fn from_static(group: &'static str, version: &'static str, kind: &'static str) -> Self {
        GroupVersionKind {
            group: Str::from_static(group),
            version: Str::from_static(version),
            kind: Str::from_static(kind),
        }
    }

    /// The kind that an object names by its `apiVersion` and `kind`.
    ///
    /// # Errors
    /// When `api_version` has more than one slash.
    #[doc(alias = "FromAPIVersionAndKind")]
    pub fn from_api_version(api_version: &str, kind: impl Into<Str>) -> Result<Self, ParseKindError> {
        Ok(api_version.parse::<GroupVersion>()?.with_kind(kind))
    }

    /// Its group and version.
    #[inline]
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion { group: self.group.clone(), version: self.version.clone() }
    }

    /// Its group and kind.
    #[inline]
    pub fn group_kind(&self) -> GroupKind {
        GroupKind { group: self.group.clone(), kind: self.kind.clone() }
    }

    /// The `apiVersion` of its objects.
    #[inline]
    pub fn api_version(&self) -> String {
        self.group_version().to_string()
    }
}

impl fmt::Display for GroupVersionKind {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

impl FromStr for GroupVersionKind {
    type Err = ParseKindError;

    #[inline]
    fn from_str(text: &str) -> Result<Self, ParseKindError> {
        let parsed = text.split_once(", Kind=").and_then(|(group_version, kind)| {
            let group_version: GroupVersion = group_version.parse().ok()?;
            Some(group_version.with_kind(kind))
        });
        parsed.ok_or_else(|| ParseKindError { text: text.into(), expected: "\"group/version, Kind=kind\"" })
    }
}

/// A resource in one version of its group, printed as `apps/v1, Resource=deployments`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersionResource {
    /// The group, empty for the core group.
    pub group: Str,
    /// The version, such as `v1`.
    pub version: Str,
    /// The resource, plural and in lower case, such as `deployments`.
    pub resource: Str,
}

impl GroupVersionResource {
    /// A resource given at run time.
    pub fn new(group: impl Into<Str>, version: impl Into<Str>, resource: impl Into<Str>) -> Self {
        GroupVersionResource { group: group.into(), version: version.into(), resource: resource.into() }
    }

    /// A resource known at compile time.
    #[inline]
    pub const fn from_static(group: &'static str, version: &'static str, resource: &'static str) -> Self {
        GroupVersionResource {
            group: Str::from_static(group),
            version: Str::from_static(version),
            resource: Str::from_static(resource),
        }
    }

    /// Parses a resource argument such as `deployments.v1.apps`; `None` without a version.
    ///
    /// A text of three parts is ambiguous, since groups have dots too: `certificates.example.com`
    /// may be version `example` of group `com`. Try this first, then the text as a
    /// [`GroupResource`].
    ///
    /// ```
    /// use kubewright_core::GroupVersionResource;
    /// let found = GroupVersionResource::parse_arg("deployments.v1.apps");
    /// assert_eq!(found, Some(GroupVersionResource::new("apps", "v1", "deployments")));
    /// assert_eq!(GroupVersionResource::parse_arg("deployments.apps"), None);
    /// ```
    #[doc(alias = "ParseResourceArg")]
    #[inline]
    pub fn parse_arg(text: &str) -> Option<Self> {
        let (resource, rest) = text.split_once('.')?;
        let (version, group) = rest.split_once('.')?;
        Some(GroupVersionResource::new(group, version, resource))
    }

    /// Its group and version.
    #[inline]
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion { group: self.group.clone(), version: self.version.clone() }
    }

    /// Its group and resource.
    #[inline]
    pub fn group_resource(&self) -> GroupResource {
        GroupResource { group: self.group.clone(), resource: self.resource.clone() }
    }
}

impl fmt::Display for GroupVersionResource {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Resource={}", self.group, self.version, self.resource)
    }
}

impl FromStr for GroupVersionResource {
    type Err = ParseKindError;

    #[inline]
    fn from_str(text: &str) -> Result<Self, ParseKindError> {
        let parsed = text.split_once(", Resource=").and_then(|(group_version, resource)| {
            let group_version: GroupVersion = group_version.parse().ok()?;
            Some(group_version.with_resource(resource))
        });
        parsed.ok_or_else(|| ParseKindError { text: text.into(), expected: "\"group/version, Resource=resource\"" })
    }
}

/// A kind in any version of its group, printed as `Deployment.apps`, or `Pod` in the core group.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKind {
    /// The group, empty for the core group.
    pub group: Str,
    /// The kind, such as `Deployment`.
    pub kind: Str,
}

impl GroupKind {
    /// A kind given at run time.
    pub fn new(group: impl Into<Str>, kind: impl Into<Str>) -> Self {
        GroupKind { group: group.into(), kind: kind.into() }
    }

    /// A kind known at compile time.
    #[inline]
    pub const fn from_static(group: &'static str, kind: &'static str) -> Self {
        GroupKind { group: Str::from_static(group), kind: Str::from_static(kind) }
    }

    /// The kind in this version.
    pub fn with_version(&self, version: impl Into<Str>) -> GroupVersionKind {
        GroupVersionKind { group: self.group.clone(), version: version.into(), kind: self.kind.clone() }
    }
}

impl fmt::Display for GroupKind {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_with_group(f, &self.kind, &self.group)
    }
}

impl FromStr for GroupKind {
    type Err = Infallible;

    #[inline]
    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(text.into())
    }
}

impl From<&str> for GroupKind {
    /// Parses `Deployment.apps`; the part after the first dot is the group.
    #[inline]
    fn from(text: &str) -> Self {
        let (kind, group) = text.split_once('.').unwrap_or((text, ""));
        GroupKind::new(group, kind)
    }
}

/// A resource in any version of its group, printed as `deployments.apps`, or `pods` in the core
/// group.
///
/// ```
/// use kubewright_core::GroupResource;
/// assert_eq!(GroupResource::from("deployments.apps"), GroupResource::new("apps", "deployments"));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupResource {
    /// The group, empty for the core group.
    pub group: Str,
    /// The resource, plural and in lower case, such as `deployments`.
    pub resource: Str,
}

impl GroupResource {
    /// A resource given at run time.
    pub fn new(group: impl Into<Str>, resource: impl Into<Str>) -> Self {
        GroupResource { group: group.into(), resource: resource.into() }
    }

    /// A resource known at compile time.
    #[inline]
    pub const fn from_static(group: &'static str, resource: &'static str) -> Self {
        GroupResource { group: Str::from_static(group), resource: Str::from_static(resource) }
    }

    /// The resource in this version.
    pub fn with_version(&self, version: impl Into<Str>) -> GroupVersionResource {
        GroupVersionResource { group: self.group.clone(), version: version.into(), resource: self.resource.clone() }
    }

    /// Whether group and resource are empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.group.is_empty() && self.resource.is_empty()
    }
}

impl fmt::Display for GroupResource {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_with_group(f, &self.resource, &self.group)
    }
}

impl FromStr for GroupResource {
    type Err = Infallible;

    #[inline]
    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(text.into())
    }
}

impl From<&str> for GroupResource {
    /// Parses `deployments.apps`; the part after the first dot is the group.
    #[inline]
    fn from(text: &str) -> Self {
        let (resource, group) = text.split_once('.').unwrap_or((text, ""));
        GroupResource::new(group, resource)
    }
}

#[inline]
fn write_with_group(f: &mut fmt::Formatter<'_>, name: &str, group: &str) -> fmt::Result {
    f.write_str(name)?;
    if group.is_empty() { Ok(()) } else { write!(f, ".{group}") }
}

/// A text that does not name a kind or resource in the expected form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseKindError {
    text: Str,
    expected: &'static str,
}

impl fmt::Display for ParseKindError {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot understand {:?}: expected {}", self.text, self.expected)
    }
}

impl Error for ParseKindError {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DEPLOYMENT: GroupVersionKind = GroupVersionKind::from_static("apps", "v1", "Deployment");
    const PODS: GroupVersionResource = GroupVersionResource::from_static("", "v1", "pods");

    #[test]
    fn names_print_as_in_go() {
        assert_eq!(DEPLOYMENT.to_string(), "apps/v1, Kind=Deployment");
        assert_eq!(DEPLOYMENT.group_kind().to_string(), "Deployment.apps");
        assert_eq!(DEPLOYMENT.api_version(), "apps/v1");
        assert_eq!(PODS.to_string(), "/v1, Resource=pods");
        assert_eq!(PODS.group_resource().to_string(), "pods");
        assert_eq!(PODS.group_version().to_string(), "v1");
        assert_eq!(GroupResource::new("apps", "deployments").to_string(), "deployments.apps");
    }

    #[test]
    fn the_core_group_has_its_own_root() {
        assert_eq!(PODS.group_version().api_path(), "/api/v1");
        assert_eq!(DEPLOYMENT.group_version().api_path(), "/apis/apps/v1");
    }

    #[test]
    fn an_api_version_has_at_most_one_slash() {
        for (text, want) in [
            ("", Some(("", ""))),
            ("v1", Some(("", "v1"))),
            ("apps/v1", Some(("apps", "v1"))),
            ("/v1", Some(("", "v1"))),
            ("a/", Some(("a", ""))),
            ("a/b/c", None),
            ("/a/", None),
        ] {
            let want = want.map(|(group, version)| GroupVersion::new(group, version));
            assert_eq!(text.parse::<GroupVersion>().ok(), want, "{text}");
        }
        let error = "a/b/c".parse::<GroupVersion>().unwrap_err();
        assert_eq!(error.to_string(), r#"cannot understand "a/b/c": expected "group/version" or "version""#);
    }

    #[test]
    fn arguments_need_a_version_to_be_whole() {
        for (text, want) in [
            ("pods", None),
            ("deployments.apps", None),
            ("pods.v1.", Some(("", "v1", "pods"))),
            ("a.b.c.d", Some(("c.d", "b", "a"))),
        ] {
            let want = want.map(|(g, v, r)| GroupVersionResource::new(g, v, r));
            assert_eq!(GroupVersionResource::parse_arg(text), want, "{text}");
        }
    }

    proptest! {
        #[test]
        fn printing_and_parsing_gives_names_back(group in "([a-z]{1,8}(\\.[a-z]{1,8})?)?", version in "v[0-9]{1,2}", name in "[A-Za-z]{1,12}") {
            let kind = GroupVersionKind::new(group.as_str(), version.as_str(), name.as_str());
            prop_assert_eq!(kind.to_string().parse(), Ok(kind.clone()));
            prop_assert_eq!(kind.api_version().parse(), Ok(kind.group_version()));
            prop_assert_eq!(GroupKind::from(kind.group_kind().to_string().as_str()), kind.group_kind());
            let resource = GroupVersionResource::new(group, version, name);
            prop_assert_eq!(resource.to_string().parse(), Ok(resource.clone()));
            let group_resource = resource.group_resource();
            prop_assert_eq!(GroupResource::from(group_resource.to_string().as_str()), group_resource);
        }
    }
}
