//! Local copies of the cluster's objects, kept in step with the server.
//!
//! Start at [`Store`] for what readers see.

mod compact;
mod delta;
mod expiration_cache;
pub mod factory;
mod informer;
mod list_watch;
mod lister;
mod lister_watcher;
mod metrics;
mod mutation_cache;
mod queue;
mod reflector;
mod store;
mod undelta_store;

pub use compact::Compact;
pub use delta::{Deleted, Delta};
pub use expiration_cache::ExpirationCache;
pub use factory::{FactoryOptions, InformerHandle, NotSynced, Scoped, SharedInformerFactory, Unsynced};
pub use informer::{
    AddIndexersError, Config, Controller, Event, EventHandler, FilteringHandler, HandlerFuncs, HandlerOptions,
    HandlerRegistration, Informer, InformerOptions, InformerStopped, OnPanic, Overflow, QueueKind, Recreated,
    SharedIndexInformer,
};
pub use list_watch::ListWatch;
pub use lister::{Lister, NamespaceLister};
pub use lister_watcher::{EventStream, ItemStream, Listed, ListerWatcher};
pub use metrics::Metrics;
pub use mutation_cache::MutationCache;
pub use queue::{
    BoxFuture, DeltaFifo, DeltaFifoOptions, Fifo, KnownObjects, Process, Queue, QueueClosed, RealFifo, RealFifoOptions,
    ReflectorStore, Transform, TransformError,
};
pub use reflector::{Backoff, ErrorHandler, Health, HealthState, Reflector, ReflectorError, ReflectorOptions};
pub use store::{
    Change, IndexerConflict, Indexers, NAMESPACE_INDEX, Objects, Query, Snapshot, Store, Transaction, UnknownIndex,
};
pub use undelta_store::UndeltaStore;
