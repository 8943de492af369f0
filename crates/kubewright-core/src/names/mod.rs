//! Names: of kinds, resources and objects, with their versions, rules and spelling in messages.

#[doc(hidden)]
pub mod hash;
mod key;
mod kind;
pub mod quote;
mod resource_version;
pub mod validation;
mod version;

pub use key::{ObjectKey, ParseKeyError};
pub use kind::{GroupKind, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource, ParseKindError};
pub use resource_version::{ResourceVersion, compare_resource_versions};
pub use version::compare_kube_aware_versions;
