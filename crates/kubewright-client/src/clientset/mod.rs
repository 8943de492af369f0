//! The resources of the stable API by name: `client.core_v1().pods("default")`.
//!
//! Each version of a group is a type with a method for each resource, enabled by the feature of the
//! group. The methods are generated and thin: they return an [`Api`](crate::Api), or for a resource
//! with few verbs a
//! [`CreateApi`](crate::api::CreateApi) or [`ReadApi`](crate::api::ReadApi). Status, scale and
//! proxy are available for types with the traits [`HasStatus`](crate::HasStatus),
//! [`HasScale`](crate::HasScale) and [`HasProxy`](crate::HasProxy); subresources of a single
//! resource are methods on its `Api`, such as `evict` for pods.
//!
//! client-go generates some 4,000 lines per group; here a resource has five lines.

#[cfg(feature = "certificates")]
mod approval;
mod generated;
#[cfg(feature = "core")]
mod log;
#[cfg(feature = "core")]
mod namespaces;
#[cfg(feature = "core")]
mod pods;
#[cfg(all(feature = "core", feature = "authentication"))]
mod tokens;

// Empty unless the feature of at least one API group is enabled.
#[allow(unused_imports)]
pub use generated::*;
#[cfg(feature = "core")]
pub use log::{LogOptions, LogStream};
