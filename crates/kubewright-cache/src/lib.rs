//! Informers: local caches of cluster objects, synchronised with the API server.
//!
//! ```text
//!  client ─> ListerWatcher ─> Reflector ─> queue ─> Store ─> Lister, Snapshot          for readers
//!                             (health)  (RealFifo)    └───> listeners ─> handlers      for events
//! ```
//! Start at [`SharedInformerFactory`] to use it, at [`SharedIndexInformer`] for one cache with
//! handlers, at [`Store`] for reads, and at [`Reflector`] for synchronisation. The other stores and
//! queues ([`Fifo`], [`DeltaFifo`],
//! [`UndeltaStore`], [`ExpirationCache`], [`MutationCache`]) are independent, as is the low-level
//! [`Controller`].
//!
//! Invariants:
//! - Objects are decoded once, immutable, and shared by `Arc` without copying.
//! - A store is a persistent trie behind one pointer. Readers never block, and a snapshot is O(1).
//!   Late handlers, slow handlers and relists are computed as differences between two snapshots.
//! - Parts are isolated: each reflector has its own back-off and health, each handler its own
//!   buffer and task.
//! - Keys are typed. User functions are infallible by type, or guarded: a panic is caught and
//!   counted.
//! - Every task has an owner that stops it and waits for it. Time is tokio's, so tests can pause
//!   it.
//!
//! Deliberate differences from client-go: objects that a list repeats are taken from the store and
//! not transformed again; an object that was deleted and recreated during a gap is reported as both
//! ([`Recreated`]); the buffer of a handler that falls behind coalesces instead of growing without
//! bound ([`Overflow`]); a missing resource is a health state ([`HealthState::Absent`]).
//!
//! ```
//! use kubewright_api::core::v1::ConfigMap;
//! use kubewright_apiserver::ApiServer;
//! use kubewright_cache::SharedInformerFactory;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = ApiServer::in_memory().start().await?;
//! let shutdown = tokio_util::sync::CancellationToken::new();
//! let factory = SharedInformerFactory::new(&server.client(), Default::default());
//! let maps = factory.informer::<ConfigMap>().lister();
//! factory.start(&shutdown);
//! factory.wait_for_cache_sync().await?;
//! println!("{} config maps", maps.snapshot().len());
//! factory.shutdown().await;
//! # Ok(()) }
//! ```

// On docs.rs, items say which feature they need.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod any_object;
mod compact;
mod definition;
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
pub mod synctrack;
mod task;
mod typed;
mod undelta_store;
mod until;

pub(crate) use any_object::AnyObject;
pub use compact::Compact;
pub use delta::{Deleted, Delta, ObjectSet};
pub use expiration_cache::ExpirationCache;
pub use factory::{
    FactoryOptions, InformerHandle, InformerScope, InformerState, NotSynced, SharedInformerFactory, Unsynced,
};
pub use informer::{
    AddIndexersError, Config, Controller, Event, EventHandler, FilteringHandler, HandlerFuncs, HandlerOptions,
    HandlerRegistration, Informer, InformerOptions, InformerStopped, OnPanic, Overflow, QueueKind, Recreated,
    SharedIndexInformer, TryProcess, UnsupportedOption,
};
pub use list_watch::ListWatch;
pub use lister::{Lister, NamespaceLister};
pub use lister_watcher::{EventStream, ItemStream, ListItem, ListerWatcher};
pub use metrics::InformerMetrics;
pub use mutation_cache::MutationCache;
pub use queue::{
    BoxFuture, DeltaFifo, DeltaFifoOptions, Fifo, KnownObjects, PopProcess, Queue, QueueClosed, RealFifo,
    RealFifoOptions, ReflectorStore, Transform, TransformError,
};
pub use reflector::{
    ErrorHandler, Health, HealthState, Reflector, ReflectorBackoff, ReflectorError, ReflectorOptions,
    UndecodableObjects,
};
pub use store::{
    Change, IndexerConflict, Indexers, NAMESPACE_INDEX, Objects, Query, Snapshot, Store, Transaction, UnknownIndex,
};
pub use undelta_store::UndeltaStore;
pub use until::{InformerWatcher, Precondition, indexer_informer_watcher, until_with_sync};
