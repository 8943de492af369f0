//! The Kubernetes object model without I/O: keys, kinds, objects, selectors, scalars and codecs.
//!
//! Features, all off by default: `registry` (lists of all types), `serde` (our types in serde's
//! formats), `schemars` (their schemas, for custom resources that hold them), `serde_json` and
//! `jiff` (conversions), `k8s-openapi` (that crate's types as objects).
//!
//! Each folder imports only those before it in this list: `containers`, `names` and `scalars`,
//! `codec`, `value` (trees), `object`, `selector`, `status`, `options`, `stream`. `generated` has
//! the types of `meta/v1`.
//!
//! Start at [`Object`] for what all objects have in common, at [`Decoder`] for turning bytes into
//! objects, and at [`message`] for how codecs reach the fields of a type.
//!
//! ```
//! use kubewright_core::{Quantity, Selector};
//!
//! let selector: Selector = "app=web,tier!=cache".parse()?;
//! assert_eq!(selector.to_string(), "app=web,tier!=cache");
//! let memory: Quantity = "1.5Gi".parse()?;
//! assert_eq!(memory, "1536Mi".parse()?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// On docs.rs, items say which feature they need.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "apply")]
pub mod apply_configuration;
mod codec;
mod containers;
mod generated;
#[doc(hidden)]
pub mod generated_support;
#[cfg(feature = "serde")]
mod interop;
mod names;
mod object;
pub mod options;
mod scalars;
pub mod selector;
mod status;
pub mod stream;
pub mod tree;
mod value;

/// Types shared by all API groups.
pub mod meta {
    /// Version `v1`.
    pub mod v1 {
        pub use crate::generated::meta_v1::*;
    }
}

pub use codec::decoder::{DecodeError, Decoder, Finding, MAX_FINDINGS, StringPool};
pub use codec::{json, message, scheme};

/// The protobuf codec: fields, messages, and the envelope of objects.
pub mod protobuf {
    pub use crate::codec::messages::{Envelope, MAGIC, decode_message, encode_message};
    pub use crate::codec::protobuf::{Encoder, Wire};
    #[doc(hidden)]
    pub use crate::codec::protobuf::{take_bytes, take_varint};
}

pub use containers::{Base64Error, ByteString, List, Map, MapBuilder, Shared, Str};
#[doc(hidden)]
pub use names::hash;
pub use names::{
    GroupKind, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource, ObjectKey, ParseKeyError,
    ParseKindError, ResourceVersion, compare_kube_aware_versions, compare_resource_versions, quote, validation,
};
pub use object::{
    AllNamespaces, CanBeClusterScoped, CanBeNamespaced, ClusterScoped, ColumnInfo, DynamicObject, EncodedMap, Kind,
    NamespaceScope, Namespaced, Object, PathError, ResourceInfo, ResourceScope, RuntimeScope, StringMap,
    SubresourceInfo, condition, finalizer, owner,
};
pub use scalars::{
    Duration, DurationRangeError, IntOrString, MicroTime, ParseDurationError, ParseQuantityError, ParseTimeError,
    PercentError, Quantity, QuantityFormat, Time, TimeRangeError,
};
pub use selector::{FieldSelector, Selector};
pub use status::{CauseType, StatusReason};
pub use stream::ObjectList;
pub use value::{RawJson, Value};

/// Without serde, generated types do not implement its traits.
#[cfg(not(feature = "serde"))]
#[doc(hidden)]
#[macro_export]
macro_rules! serde_impls {
    ($type:ty) => {};
}

/// Without schemars, generated types do not implement its trait.
#[cfg(not(feature = "schemars"))]
#[doc(hidden)]
#[macro_export]
macro_rules! schema_impls {
    ($type:ty) => {};
}
