//! What was stored before a rule was there may stay as it is.

use kubewright_core::meta::v1::StatusCause;

/// The nodes that a pod can have.
const REQUIRED_TERMS: &str = ".nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[";

/// The complaints that are not about something that was so before. `before` says what was wrong then.
pub(super) fn fresh(mut causes: Vec<StatusCause>, before: impl FnOnce() -> Vec<StatusCause>) -> Vec<StatusCause> {
    // Hardly ever there are any, and who has nothing to say need not look back.
    if causes.is_empty() {
        return causes;
    }
    let before = before();
    // One label that no node can have stands for all of them.
    let had_labels = before.iter().any(is_about_required_label);
    let was_so = |cause: &StatusCause| before.contains(cause) || (had_labels && is_about_required_label(cause));
    causes.retain(|cause| !was_so(cause));
    causes
}

#[doc(alias = "AllowInvalidLabelValueInRequiredNodeAffinity")]
fn is_about_required_label(cause: &StatusCause) -> bool {
    let field = cause.field.as_deref().unwrap_or_default();
    field.contains(REQUIRED_TERMS) && field.contains("].matchExpressions[") && field.contains("].values[")
}
