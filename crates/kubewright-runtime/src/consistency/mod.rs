//! Read-your-writes consistency for controllers.
//!
//! Writes through [`OwnApi`] are recorded with the version that the server returned. The next
//! reconcile of the same key waits until the cache shows them, without occupying a worker; other
//! keys continue. Reads choose their [`Freshness`]. As in KEP-5647, versions that cannot be
//! compared are not waited for.
//!
//! If a cache holds only a part of a resource, reads outside of that part ask the server, and
//! writes outside of it are not waited for.

#[cfg(feature = "apply")]
mod apply;
mod create_or_update;
mod delete_controlled;
mod own_api;

pub use create_or_update::OperationResult;
pub use own_api::{Freshness, OwnApi, StaleCache};
