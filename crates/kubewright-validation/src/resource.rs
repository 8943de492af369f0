//! The properties of a resource that its defaults and validation depend on.

use kubewright_core::{Str, Value};
use kubewright_schema::Schema;

/// The resource of the objects that are completed or validated.
#[derive(Debug, Clone, Copy)]
pub struct ValidatedResource<'r> {
    /// The API group, empty for the core group.
    pub group: &'r str,
    /// The plural name, as in URLs.
    pub plural: &'r str,
    /// Whether objects are in namespaces.
    pub namespaced: bool,
    /// Whether there is a status subresource, so that other writes ignore the status.
    pub has_status: bool,
    /// The status of a new object of a resource with a status subresource.
    pub initial_status: Option<&'r Value>,
    /// Set for custom resources.
    pub custom: Option<CustomProperties<'r>>,
}

/// The additional properties of a custom resource.
#[derive(Debug, Clone, Copy)]
pub struct CustomProperties<'r> {
    /// The schema of the version that objects are validated in.
    pub schema: &'r Schema,
    /// The JSON paths of the scale subresource: spec, status and selector.
    pub scale: Option<&'r [Str; 3]>,
}

impl<'r> ValidatedResource<'r> {
    /// A built-in resource without a status subresource.
    pub fn built_in(group: &'r str, plural: &'r str, namespaced: bool) -> Self {
        ValidatedResource { group, plural, namespaced, has_status: false, initial_status: None, custom: None }
    }

    /// Whether this is a custom resource.
    pub fn is_custom(&self) -> bool {
        self.custom.is_some()
    }

    /// Whether this is the built-in resource with this group and plural.
    pub fn is(&self, group: &str, plural: &str) -> bool {
        self.plural == plural && self.group == group && !self.is_custom()
    }
}
