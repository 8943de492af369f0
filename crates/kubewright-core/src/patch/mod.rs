//! Changes to JSON trees, in the three forms that the API takes: JSON patch, merge patch, strategic merge patch.
//!
//! All functions leave the target alone and return what it becomes. They behave as the API server does, also
//! where that is not what the standards say; which objects are valid is not their concern.

mod create;
mod equal;
mod error;
mod json_patch;
mod merge_patch;
mod node;
mod strategic;

pub use create::{create_json_patch, create_merge_patch};
#[cfg(feature = "apply")]
pub(crate) use equal::equal;
pub use error::PatchError;
pub use json_patch::{MAX_JSON_PATCH_OPERATIONS, json_patch};
pub use merge_patch::merge_patch;
pub use strategic::strategic_merge;
