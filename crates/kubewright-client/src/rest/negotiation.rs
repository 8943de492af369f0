//! Which encodings a request offers, and which the server has shown to understand.

use std::collections::HashSet;
use std::sync::{PoisonError, RwLock};

use http::HeaderMap;
use http::header::CONTENT_TYPE;
use kubewright_core::GroupVersionResource;
use kubewright_core::stream::Encoding;

/// In which shape objects are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Form {
    /// As they are.
    #[default]
    Object,
    /// Only their metadata.
    Metadata,
    /// Only the metadata of each object in a list.
    MetadataList,
}

/// The resources for which a server speaks nothing but JSON. Shared by all clones of a client.
///
/// A server says so in three ways: it refuses a body (415), it refuses to answer (406), or it answers a client that
/// would rather have protobuf in JSON.
#[derive(Debug, Default)]
pub(crate) struct Negotiation {
    json_only: RwLock<HashSet<GroupVersionResource>>,
}

impl Negotiation {
    pub(super) fn is_json_only(&self, resource: Option<&GroupVersionResource>) -> bool {
        let known = self.json_only.read().unwrap_or_else(PoisonError::into_inner);
        resource.is_some_and(|resource| known.contains(resource))
    }

    /// Notes it and says whether that is news.
    pub(super) fn learn_json_only(&self, resource: Option<&GroupVersionResource>) -> bool {
        let Some(resource) = resource else { return false };
        self.json_only.write().unwrap_or_else(PoisonError::into_inner).insert(resource.clone())
    }
}

/// The value of `Accept`.
pub(super) fn accept(form: Form, protobuf: bool) -> &'static str {
    match (form, protobuf) {
        (Form::Object, true) => "application/vnd.kubernetes.protobuf,application/json",
        (Form::Object, false) => "application/json",
        (Form::Metadata, true) => {
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
             application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
        }
        (Form::Metadata, false) => "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
        (Form::MetadataList, true) => {
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
             application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
        }
        (Form::MetadataList, false) => {
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
        }
    }
}

/// How the body of an answer is encoded; what does not say so is JSON.
pub(super) fn encoding_of(headers: &HeaderMap) -> Encoding {
    if has_media_type(headers, Encoding::Protobuf) { Encoding::Protobuf } else { Encoding::Json }
}

/// Whether an answer says that it is JSON.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    has_media_type(headers, Encoding::Json)
}

fn has_media_type(headers: &HeaderMap, encoding: Encoding) -> bool {
    let text = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    text.split(';').next().is_some_and(|media_type| media_type.trim().eq_ignore_ascii_case(encoding.media_type()))
}
