//! Patches. The seam for the code that knows how each kind of patch changes a tree.

use kubewright_core::Value;
use kubewright_core::meta::v1::Status;
use kubewright_core::options::PatchType;
use kubewright_core::scheme::TypeInfo;

use crate::rejection::Rejection;

/// The object that a patch makes of `original`; `scheme` is the type of a built-in kind.
pub(crate) fn apply(
    kind: PatchType,
    original: &Value,
    patch: &[u8],
    scheme: Option<&'static TypeInfo>,
) -> Result<Value, Rejection> {
    let _ = (original, patch);
    match (kind, scheme) {
        (PatchType::Strategic, None) => Err(Status::unsupported_media_type(CUSTOM_PATCHES).into()),
        (PatchType::Json | PatchType::Merge | PatchType::Strategic, _) => Err(Rejection::not_implemented("patch")),
        (PatchType::Apply, _) => Err(Rejection::not_implemented("server-side apply")),
    }
}

/// The kinds of patch that custom resources know.
const CUSTOM_PATCHES: &[&str] =
    &["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];
