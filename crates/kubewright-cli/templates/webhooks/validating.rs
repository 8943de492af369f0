//! Rules that the schema cannot express.

use kubewright::runtime::webhook::{AdmissionContext, Denial, Warnings};

use super::v1alpha1 as resource;

/// Called when an object is created or updated; `old` is what an update replaces.
pub async fn validate(
    new: resource::Widget,
    old: Option<resource::Widget>,
    _: AdmissionContext,
) -> Result<Warnings, Denial> {
    // For example: return Err("the image has no tag".into());
    let _ = (new, old);
    Ok(Warnings::default())
}
