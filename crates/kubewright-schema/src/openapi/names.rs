//! Names of schemas, and references to them.

use kubewright_core::{GroupVersionKind, Value, json};

/// The package of the types that all groups share, such as `ObjectMeta`.
pub const META_PACKAGE: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

const REFERENCE_PREFIX: &str = "#/components/schemas/";

/// A reference to a schema in an OpenAPI v3 document.
pub fn reference(name: &str) -> Value {
    json!({"$ref": format!("{REFERENCE_PREFIX}{name}")})
}

/// The name of the schema that the text of a `$ref` in an OpenAPI v3 document refers to.
pub fn referenced_name(text: &str) -> Option<&str> {
    text.strip_prefix(REFERENCE_PREFIX)
}

/// The name of the schema of a custom resource: its reversed group, version and kind.
pub fn schema_name(kind: &GroupVersionKind) -> String {
    let mut parts: Vec<&str> = kind.group.split('.').rev().collect();
    parts.extend([kind.version.as_str(), kind.kind.as_str()]);
    parts.join(".")
}

/// An item of the extension `x-kubernetes-group-version-kind`.
pub fn kind_extension(kind: &GroupVersionKind) -> Value {
    json!({"group": kind.group.clone(), "version": kind.version.clone(), "kind": kind.kind.clone()})
}
