//! What a request may ask for beside its object: versions, selectors, dry runs, preconditions.
//!
//! Each kind of request has its options, whose default asks for nothing special. Options write themselves
//! as query parameters, in alphabetical order as other clients do, and read themselves from those of a
//! request, with the answers that a server gives to what it cannot accept.

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
pub use query::Query;
pub use watch::WatchOptions;
pub use write::{CreateOptions, FieldValidation, UpdateOptions};

use crate::GroupKind;
use crate::meta::v1::{Status, StatusCause};

/// The server's answer to options that break its rules; none where `causes` is empty.
#[inline]
fn check(kind: &'static str, causes: Vec<StatusCause>) -> Result<(), Box<Status>> {
    match causes.is_empty() {
        true => Ok(()),
        false => Err(Box::new(Status::invalid(&GroupKind::from_static("meta.k8s.io", kind), "", causes))),
    }
}
