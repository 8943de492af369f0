//! Patches: from the body of a request to the tree that it makes of another.

use kubewright_core::Value;
use kubewright_core::meta::v1::Status;
use kubewright_core::options::PatchType;
use kubewright_core::patch::{json_patch, merge_patch, strategic_merge};
use kubewright_core::scheme::TypeInfo;

use crate::decoding::in_go_words;
use crate::rejection::Rejection;

/// The kinds of patch that custom resources know.
const CUSTOM_PATCHES: &[&str] =
    &["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];

/// The object that a patch makes of `original`; `scheme` is the type of a built-in kind.
pub(crate) fn apply(
    kind: PatchType,
    original: &Value,
    patch: &[u8],
    scheme: Option<&'static TypeInfo>,
) -> Result<Value, Rejection> {
    if kind == PatchType::Apply {
        return Err(Rejection::not_implemented("server-side apply"));
    }
    let patch = Value::from_json(patch).map_err(|error| {
        Rejection::from(Status::bad_request(format!("error decoding patch: {}", in_go_words(&error))))
    })?;
    let patched = match (kind, scheme) {
        (PatchType::Json, _) => json_patch(original, &patch),
        (PatchType::Strategic, Some(scheme)) => strategic_merge(original, &patch, scheme),
        (PatchType::Strategic, None) => return Err(Status::unsupported_media_type(CUSTOM_PATCHES).into()),
        (PatchType::Merge | PatchType::Apply, _) => merge_patch(original, &patch),
    };
    patched.map_err(|error| Status::from(error).into())
}
