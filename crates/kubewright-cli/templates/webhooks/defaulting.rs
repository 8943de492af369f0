//! Sets defaults that the schema cannot express.

use super::v1alpha1 as resource;

/// Called when an object is created or updated, before it is validated. Calling it again changes
/// nothing.
pub fn set_defaults(object: &mut resource::Widget) {
    // For example: object.metadata.labels.insert("team", "none".into());
    let _ = object;
}
