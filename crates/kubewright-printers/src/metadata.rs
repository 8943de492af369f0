//! Metadata-only representations of objects and lists.

use std::borrow::Borrow;

use kubewright_core::{Str, Value, tree};

/// A version of the group `meta.k8s.io`. Both have the same content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetaVersion {
    /// `v1`.
    V1,
    /// `v1beta1`.
    V1Beta1,
}

impl MetaVersion {
    /// The `apiVersion` of objects in this version.
    pub fn api_version(self) -> &'static str {
        match self {
            MetaVersion::V1 => "meta.k8s.io/v1",
            MetaVersion::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// The metadata of an object, as a `PartialObjectMetadata`.
pub fn partial_object_metadata(value: &Value, version: MetaVersion) -> Value {
    tree::map([
        ("kind", Value::from("PartialObjectMetadata")),
        ("apiVersion", Value::from(version.api_version())),
        ("metadata", value.get("metadata").cloned().unwrap_or_else(|| tree::map([]))),
    ])
}

/// The metadata of a list and of its objects, as a `PartialObjectMetadataList`.
pub fn partial_object_metadata_list(
    metadata: &Value,
    objects: impl IntoIterator<Item = impl Borrow<Value>>,
    version: MetaVersion,
) -> Value {
    let mut objects = objects.into_iter().map(|object| partial_object_metadata(object.borrow(), version)).peekable();
    // Go encodes an empty list as `null`.
    let items = if objects.peek().is_some() { tree::array(objects) } else { Value::Null };
    tree::map([
        ("kind", Value::from("PartialObjectMetadataList")),
        ("apiVersion", Value::from(version.api_version())),
        ("metadata", common_list_metadata(metadata)),
        ("items", items),
    ])
}

/// The list metadata fields of a list or an object.
pub fn common_list_metadata(metadata: &Value) -> Value {
    let entries = ["resourceVersion", "continue", "remainingItemCount"].into_iter().filter_map(|key| {
        let value = metadata.get(key).filter(|value| !value.is_null() && value.as_str() != Some(""))?;
        Some((Str::from_static(key), value.clone()))
    });
    Value::Object(entries.collect())
}
