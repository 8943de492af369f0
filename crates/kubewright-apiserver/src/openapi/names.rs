//! What things are called in OpenAPI.

use kubewright_core::{GroupVersion, GroupVersionKind, Value};

use crate::tree::object;

/// The package of the types that all groups share.
pub(super) const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// A reference to a schema.
pub(super) fn reference(name: &str) -> Value {
    object([("$ref", format!("{REFERENCE}{name}").into())])
}

/// The schema that a reference leads to.
pub(super) fn referenced(text: &str) -> Option<&str> {
    text.strip_prefix(REFERENCE)
}

const REFERENCE: &str = "#/components/schemas/";

/// The name of the schema of a custom resource: its group backwards, version and kind.
pub(super) fn custom(kind: &GroupVersionKind) -> String {
    let mut parts: Vec<&str> = kind.group.split('.').rev().collect();
    parts.extend([kind.version.as_str(), kind.kind.as_str()]);
    parts.join(".")
}

/// A group-version-kind as an extension.
pub(super) fn extension(kind: &GroupVersionKind) -> Value {
    object([
        ("group", kind.group.clone().into()),
        ("version", kind.version.clone().into()),
        ("kind", kind.kind.clone().into()),
    ])
}

/// The group and version as a part of names: `CoreV1`, `RbacAuthorizationV1`.
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

/// The word with a capital first letter.
pub(super) fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
