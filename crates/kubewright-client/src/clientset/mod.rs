//! The resources of the stable API by name: `client.core_v1().pods("default")`.
//!
//! Each version of a group is a type with a method for each resource, there with the feature of the group. The methods
//! are generated and thin: what they return is an [`Api`](crate::Api), or where a resource has few verbs a
//! [`CreateApi`](crate::api::CreateApi) or [`ReadApi`](crate::api::ReadApi). Status, scale and proxy are there for the types that
//! have them, by the traits [`HasStatus`](crate::HasStatus), [`HasScale`](crate::HasScale) and [`HasProxy`](crate::HasProxy); parts that
//! only one resource has are methods on its `Api`, such as `evict` on that of pods.
//!
//! Client-go generates some 4,000 lines for each group; here a resource costs five, and compiles with the types it uses.

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

// Without the feature of any group there is nothing.
#[allow(unused_imports)]
pub use generated::*;
#[cfg(feature = "core")]
pub use log::{LogOptions, LogStream};
