//! Local copies of the cluster's objects, kept in step with the server.
//!
//! Start at [`Store`] for what readers see.

mod delta;
mod expiration_cache;
mod mutation_cache;
mod queue;
mod store;
mod undelta_store;

pub use delta::{Deleted, Delta};
pub use expiration_cache::ExpirationCache;
pub use mutation_cache::MutationCache;
pub use queue::{
    BoxFuture, DeltaFifo, DeltaFifoOptions, Fifo, KnownObjects, Process, Queue, QueueClosed, RealFifo, RealFifoOptions,
    ReflectorStore, Transform, TransformError,
};
pub use store::{
    Change, IndexerConflict, Indexers, NAMESPACE_INDEX, Objects, Query, Snapshot, Store, Transaction, UnknownIndex,
};
pub use undelta_store::UndeltaStore;
