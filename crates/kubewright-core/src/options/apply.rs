//! Options of server-side apply.

use super::{FieldValidation, PatchOptions, PatchType};
use crate::Str;
use crate::meta::v1::Status;

/// Options of server-side apply.
///
/// ```
/// use kubewright_core::options::ApplyOptions;
/// let mut query = String::new();
/// ApplyOptions::new("shop-controller").force().append_query(&mut query);
/// assert_eq!(query, "fieldManager=shop-controller&force=true");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplyOptions {
    /// The field manager; fields that it omits from its next configuration are removed.
    pub field_manager: Str,
    /// Whether to take fields over from other managers. Off by default: a different value is a
    /// conflict.
    pub force: bool,
    /// Whether to skip storing the object. Off by default.
    pub dry_run: bool,
    /// How unknown and duplicate fields are handled. Unset by default: the server's default is to
    /// warn.
    pub field_validation: Option<FieldValidation>,
}

impl ApplyOptions {
    /// Applies as this manager, which servers require.
    #[doc(alias = "FieldOwner")]
    pub fn new(field_manager: impl Into<Str>) -> Self {
        ApplyOptions { field_manager: field_manager.into(), force: false, dry_run: false, field_validation: None }
    }

    /// Takes fields over from other managers.
    #[doc(alias = "ForceOwnership")]
    #[must_use]
    #[inline]
    pub fn force(mut self) -> Self {
        self.force = true;
        self
    }

    /// Runs the request without storing the object.
    #[must_use]
    #[inline]
    pub fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }

    /// How unknown and duplicate fields are handled.
    #[must_use]
    #[inline]
    pub fn field_validation(mut self, validation: FieldValidation) -> Self {
        self.field_validation = Some(validation);
        self
    }

    /// Appends these options to a query.
    #[inline]
    pub fn append_query(&self, query: &mut String) {
        PatchOptions::from(self.clone()).append_query(query);
    }

    /// Checks the options as a server would.
    ///
    /// # Errors
    /// The server's status: the manager's name must have 1 to 128 printable bytes.
    #[inline]
    pub fn validate(&self) -> Result<(), Box<Status>> {
        PatchOptions::from(self.clone()).validate(PatchType::Apply)
    }
}

impl From<ApplyOptions> for PatchOptions {
    #[inline]
    fn from(options: ApplyOptions) -> Self {
        PatchOptions {
            dry_run: options.dry_run,
            field_manager: Some(options.field_manager),
            field_validation: options.field_validation,
            force: Some(options.force),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manager_is_needed() {
        assert_eq!(ApplyOptions::new("m").validate(), Ok(()));
        let answer = ApplyOptions::new("").validate().unwrap_err();
        let want =
            "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch";
        assert_eq!(answer.to_string(), want);
    }
}
