//! The Kubernetes object model without I/O: keys, kinds, objects, selectors, scalars and codecs.

pub mod condition;
pub mod finalizer;
mod key;
mod kind;
mod bytes;
mod duration;
mod int_or_string;
mod quantity;
mod resource_version;
mod text;
mod time;
mod list;
mod map;
mod meta_standin;
pub mod options;
pub mod owner;
mod quote;
pub mod selector;
mod status;
mod str;
pub mod validation;
mod version;

/// The types that all API groups share.
pub mod meta {
    /// Version `v1` of them.
    pub mod v1 {
        pub use crate::meta_standin::*;
    }
}

pub use key::{ObjectKey, ParseKeyError};
pub use kind::{GroupKind, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource, ParseKindError};
pub use list::List;
pub use map::Map;
pub use bytes::{Base64Error, ByteString};
pub use duration::{Duration, DurationRangeError, ParseDurationError};
pub use int_or_string::{IntOrString, PercentError};
pub use quantity::{ParseQuantityError, Quantity, QuantityFormat};
pub use resource_version::{ResourceVersion, compare_resource_versions};
pub use time::{MicroTime, ParseTimeError, Time, TimeRangeError};
pub use selector::{FieldSelector, Selector};
pub use status::{CauseType, StatusReason};
pub use str::Str;
pub use version::compare_kube_aware_versions;
