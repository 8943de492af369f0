//! Names of operations and tags in OpenAPI documents.

use kubewright_core::GroupVersion;

/// The group version in operation names: `CoreV1`, `RbacAuthorizationV1`.
pub(super) fn capitalized(version: &GroupVersion) -> String {
    let group = match version.group.as_str() {
        "" => "core",
        group => group.strip_suffix(".k8s.io").unwrap_or(group),
    };
    group.split(['.', '-']).chain([version.version.as_str()]).map(capital).collect()
}

/// The tag of all operations of a version: `core_v1`, `rbacAuthorization_v1`.
pub(super) fn tag(version: &GroupVersion) -> String {
    let name = capitalized(&GroupVersion::new(version.group.clone(), ""));
    let (first, rest) = name.split_at(name.chars().next().map_or(0, char::len_utf8));
    format!("{}{rest}_{}", first.to_lowercase(), version.version)
}

/// Capitalizes a word.
pub(super) fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
