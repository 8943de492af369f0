//! Local copies of the cluster's objects, kept in step with the server.
//!
//! Start at [`Store`] for what readers see.

mod delta;
mod store;

pub use delta::{Deleted, Delta};
pub use store::{
    Change, IndexerConflict, Indexers, NAMESPACE_INDEX, Objects, Query, Snapshot, Store, Transaction, UnknownIndex,
};
