//! Ratcheting validation: an update may keep values that are already invalid in the stored object.

use kubewright_core::meta::v1::StatusCause;

/// The path of required node affinity terms.
const REQUIRED_TERMS: &str = ".nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[";

/// Keeps only causes that are new: `before` returns the causes of the old object.
pub(super) fn new_causes(mut causes: Vec<StatusCause>, before: impl FnOnce() -> Vec<StatusCause>) -> Vec<StatusCause> {
    // Most objects are valid, so validate the old one only when needed.
    if causes.is_empty() {
        return causes;
    }
    let before = before();
    // One invalid required label in the old object excuses all of them, as in the real server.
    let had_labels = before.iter().any(is_about_required_label);
    let was_reported = |cause: &StatusCause| before.contains(cause) || (had_labels && is_about_required_label(cause));
    causes.retain(|cause| !was_reported(cause));
    causes
}

#[doc(alias = "AllowInvalidLabelValueInRequiredNodeAffinity")]
fn is_about_required_label(cause: &StatusCause) -> bool {
    let field = cause.field.as_deref().unwrap_or_default();
    field.contains(REQUIRED_TERMS) && field.contains("].matchExpressions[") && field.contains("].values[")
}
