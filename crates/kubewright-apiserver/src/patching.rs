//! Applies patches of request bodies to objects.

use kubewright_core::json::Reader;
use kubewright_core::meta::v1::Status;
use kubewright_core::options::PatchType;
use kubewright_core::scheme::TypeInfo;
use kubewright_core::{Decoder, Value};
use kubewright_merge::patch::{json_patch, merge_patch, strategic_merge};

use kubewright_objects::rejection::Rejection;
use kubewright_resources::decoding::{finding_messages, repaired, syntax_message};

/// The patch types of custom resources.
pub(crate) const CUSTOM_PATCHES: &[&str] =
    &["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];

/// Applies a patch to `original`. Returns the result and warnings about the patch. `scheme` is the
/// type of a built-in kind.
pub(crate) fn apply(
    kind: PatchType,
    original: &Value,
    patch: &[u8],
    scheme: Option<&'static TypeInfo>,
) -> Result<(Value, Vec<String>), Rejection> {
    if kind == PatchType::Apply {
        return Err(Rejection::not_implemented("server-side apply"));
    }
    let mut decoder = Decoder::new().report_findings();
    let read = Reader::new(patch, &mut decoder).tree().or_else(|error| match repaired(patch) {
        Some(repaired) => Reader::new(&repaired, &mut decoder).tree(),
        None => Err(error),
    });
    let patch = read.map_err(|error| {
        let prefix = if kind == PatchType::Strategic { "" } else { "error decoding patch: " };
        Rejection::from(Status::bad_request(format!("{prefix}{}", syntax_message(&error))))
    })?;
    let patched = match (kind, scheme) {
        (PatchType::Json, _) => json_patch(original, &patch),
        (PatchType::Strategic, Some(_)) if patch.is_null() => Ok(original.clone()),
        (PatchType::Strategic, Some(scheme)) => strategic_merge(original, &patch, scheme).map(|mut merged| {
            // Go's typed conversion drops these fields, so restore them.
            for field in ["apiVersion", "kind"] {
                if let (Some(value), Some(merged)) = (original.get(field), merged.as_object_mut()) {
                    merged.insert(field, value.clone());
                }
            }
            merged
        }),
        (PatchType::Strategic, None) => return Err(Status::unsupported_media_type(CUSTOM_PATCHES).into()),
        (PatchType::Merge | PatchType::Apply, _) => merge_patch(original, &patch),
    };
    let patched = patched.map_err(|error| Rejection::from(Status::from(error)))?;
    Ok((patched, finding_messages(decoder.take_findings())))
}
