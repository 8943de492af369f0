//! Content negotiation.

use std::collections::HashSet;
use std::sync::{PoisonError, RwLock};

use http::HeaderMap;
use http::header::CONTENT_TYPE;
use kubewright_core::GroupVersionResource;
use kubewright_core::stream::Encoding;

/// The requested representation of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ResponseForm {
    /// Complete objects.
    #[default]
    Object,
    /// Metadata only.
    Metadata,
    /// Metadata of each list item only.
    MetadataList,
}

/// The resources for which a server supports only JSON. Shared by all clones of a client.
///
/// A server shows it by rejecting a body (415), by refusing to respond (406), or by responding with
/// JSON to a client that prefers protobuf.
#[derive(Debug, Default)]
pub(crate) struct Negotiation {
    json_only: RwLock<HashSet<GroupVersionResource>>,
}

impl Negotiation {
    pub(super) fn is_json_only(&self, resource: Option<&GroupVersionResource>) -> bool {
        let known = self.json_only.read().unwrap_or_else(PoisonError::into_inner);
        resource.is_some_and(|resource| known.contains(resource))
    }

    /// Records it; returns whether it is new.
    pub(super) fn learn_json_only(&self, resource: Option<&GroupVersionResource>) -> bool {
        let Some(resource) = resource else { return false };
        self.json_only.write().unwrap_or_else(PoisonError::into_inner).insert(resource.clone())
    }
}

/// The value of `Accept`.
pub(super) fn accept(form: ResponseForm, protobuf: bool) -> &'static str {
    match (form, protobuf) {
        (ResponseForm::Object, true) => "application/vnd.kubernetes.protobuf,application/json",
        (ResponseForm::Object, false) => "application/json",
        (ResponseForm::Metadata, true) => {
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
             application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
        }
        (ResponseForm::Metadata, false) => {
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
        }
        (ResponseForm::MetadataList, true) => {
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
             application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
        }
        (ResponseForm::MetadataList, false) => {
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
        }
    }
}

/// The encoding of a response; JSON if it does not state one.
pub(super) fn encoding_of(headers: &HeaderMap) -> Encoding {
    if has_media_type(headers, Encoding::Protobuf) { Encoding::Protobuf } else { Encoding::Json }
}

/// Whether a response states that it is JSON.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    has_media_type(headers, Encoding::Json)
}

fn has_media_type(headers: &HeaderMap, encoding: Encoding) -> bool {
    let text = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    text.split(';').next().is_some_and(|media_type| media_type.trim().eq_ignore_ascii_case(encoding.media_type()))
}
