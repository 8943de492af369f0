//! Patches of JSON trees in the three formats of the API: JSON patch, merge patch, strategic merge
//! patch.
//!
//! All functions return a new value and leave the target unchanged. They behave like
//! kube-apiserver, also where that deviates from the standards. They do not validate objects.

mod create;
mod error;
mod json_patch;
mod merge_patch;
mod node;
mod strategic;

pub use create::{create_json_patch, create_merge_patch};
pub use error::{MAX_JSON_PATCH_OPERATIONS, PatchError};
pub use json_patch::json_patch;
pub use merge_patch::merge_patch;
pub use strategic::strategic_merge;
