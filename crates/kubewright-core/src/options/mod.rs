//! Request options: versions, selectors, dry runs, preconditions.
//!
//! Each kind of request has its own options; the default requests nothing special. Options are
//! written as query parameters, in alphabetical order as other clients do, and parsed from them,
//! with the server's errors for invalid values.

mod apply;
mod delete;
mod get;
mod list;
mod patch;
mod query;
mod watch;
mod write;

pub use apply::ApplyOptions;
pub use delete::{DeleteOptions, Preconditions, PropagationPolicy};
pub use get::GetOptions;
pub use list::{ListOptions, ResourceVersionMatch};
pub use patch::{Patch, PatchOptions, PatchType, UnconditionalPatch};
pub use query::QueryParameters;
pub use watch::WatchOptions;
pub use write::{CreateOptions, FieldValidation, UpdateOptions};

use crate::GroupKind;
use crate::meta::v1::{Status, StatusCause};

/// The server's status for invalid options; `Ok` if `causes` is empty.
#[inline]
fn check(kind: &'static str, causes: Vec<StatusCause>) -> Result<(), Box<Status>> {
    if causes.is_empty() {
        Ok(())
    } else {
        Err(Box::new(Status::invalid(&GroupKind::from_static("meta.k8s.io", kind), "", causes)))
    }
}
