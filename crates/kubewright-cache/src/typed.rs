//! Where type-erased parts of an informer regain their type.
//!
//! Queues and handlers are compiled once for all resource types, so objects, events, and snapshots
//! pass through them as `Any`. An informer creates all of its parts for one object type, which is
//! why the type always matches.

use std::any::Any;
use std::sync::Arc;

/// Returns `erased` with its type. Panics if it has another type.
pub(crate) fn typed<V: Any + Send + Sync>(erased: Arc<dyn Any + Send + Sync>) -> Arc<V> {
    erased.downcast().unwrap_or_else(|_| panic!("all parts of an informer have one object type"))
}
