//! The Kubernetes object model without I/O: keys, kinds, objects, selectors, scalars and codecs.
//!
//! Features, all off by default: `registry` (lists of all types), `patch` (JSON, merge and strategic merge patches), `apply` (the merge of server-side apply), `serde` (our types in serde's formats), `schemars` (their schemas, for custom resources that hold them), `serde_json` and `jiff` (conversions),
//! `k8s-openapi` (that crate's types as objects), `yaml` (trees from and to YAML).
//!
//! Start at [`Object`] for what all objects have in common, at [`Decoder`] for turning bytes into objects, and at
//! [`message`] for how codecs reach the fields of a type.

#[cfg(feature = "apply")]
pub mod apply;
mod bytes;
pub mod condition;
mod decode;
#[doc(hidden)]
pub mod der;
mod duration;
mod dynamic;
pub mod finalizer;
mod generated;
#[doc(hidden)]
pub mod generated_prelude;
#[doc(hidden)]
pub mod hash;
mod int_or_string;
pub mod json;
#[cfg(feature = "k8s-openapi")]
mod k8s_openapi_types;
mod key;
mod kind;
mod list;
mod map;
pub mod message;
#[doc(hidden)]
pub mod message_impls;
#[cfg(feature = "schemars")]
#[doc(hidden)]
pub mod message_schema;
#[cfg(feature = "serde")]
#[doc(hidden)]
pub mod message_serde;
mod object;
mod object_list;
pub mod options;
pub mod owner;
#[cfg(feature = "patch")]
pub mod patch;
pub mod protobuf;
mod quantity;
mod quote;
mod rare;
mod raw;
mod resource;
mod resource_version;
mod scalar;
pub mod scheme;
pub mod selector;
mod shared;
mod status;
mod str;
pub mod stream;
mod text;
mod time;
pub mod validation;
mod value;
mod version;
#[cfg(feature = "yaml")]
pub mod yaml;

/// The types that all API groups share.
pub mod meta {
    /// Version `v1` of them.
    pub mod v1 {
        pub use crate::generated::meta_v1::*;
    }
}

#[doc(hidden)]
#[cfg(feature = "schemars")]
pub use schemars;
#[doc(hidden)]
#[cfg(feature = "serde")]
pub use serde_core;

pub use bytes::{Base64Error, ByteString};
pub use decode::{DecodeError, Decoder, Finding, MAX_FINDINGS, StringPool};
pub use duration::{Duration, DurationRangeError, ParseDurationError};
pub use dynamic::{DynamicObject, PathError};
pub use int_or_string::{IntOrString, PercentError};
pub use key::{ObjectKey, ParseKeyError};
pub use kind::{GroupKind, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource, ParseKindError};
pub use list::List;
pub use map::{Map, MapBuilder};
pub use object::{EncodedMap, Kind, Object, StringMap};
pub use object_list::ObjectList;
pub use quantity::{ParseQuantityError, Quantity, QuantityFormat};
pub use raw::RawJson;
pub use resource::{ColumnInfo, ResourceInfo, SubresourceInfo};
pub use resource_version::{ResourceVersion, compare_resource_versions};
pub use selector::{FieldSelector, Selector};
pub use shared::Shared;
pub use status::{CauseType, StatusReason};
pub use str::Str;
pub use time::{MicroTime, ParseTimeError, Time, TimeRangeError};
pub use value::Value;
pub use version::compare_kube_aware_versions;

/// Without serde, generated types do without its traits.
#[cfg(not(feature = "serde"))]
#[doc(hidden)]
#[macro_export]
macro_rules! serde_impls {
    ($type:ty) => {};
}

/// Without schemars, generated types do without its trait.
#[cfg(not(feature = "schemars"))]
#[doc(hidden)]
#[macro_export]
macro_rules! schema_impls {
    ($type:ty) => {};
}
