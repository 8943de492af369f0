//! Local copies of the cluster's objects, kept in step with the server.
//!
//! ```text
//!  client ─> ListerWatcher ─> Reflector ─> queue ─> Store ─> Lister, Snapshot          for readers
//!                             (health)  (RealFifo)    └───> listeners ─> handlers      for who is told
//! ```
//! Start at [`SharedInformerFactory`] to use it, at [`SharedIndexInformer`] for one cache with handlers, at [`Store`] for what
//! readers see, and at [`Reflector`] for how a cache stays in step. The other stores and queues ([`Fifo`], [`DeltaFifo`],
//! [`UndeltaStore`], [`ExpirationCache`], [`MutationCache`]) stand by themselves, as does the low-level [`Controller`].
//!
//! What holds everywhere:
//! - Objects are decoded once and shared by `Arc`: nobody copies one on the way, and nobody can change one.
//! - A store is a persistent trie behind one pointer. Readers never wait, and a snapshot of the whole costs nothing; late
//!   joiners, slow handlers and relists are all differences between two snapshots.
//! - Nothing waits for a stranger: each reflector has its own back-off and health, each handler its own buffer and task.
//! - Keys are typed and functions of the user infallible by type, or guarded: a panic is caught, counted, and survived.
//! - A task has an owner that stops it and waits for it. Time is tokio's, so that tests can simulate it.
//!
//! Where Go differs on purpose: what a list repeats is taken from the store and not transformed again; an object that
//! was deleted and created anew unseen is told of as both ([`Recreated`]); handlers that fall behind coalesce instead of
//! growing without bound ([`Overflow`]); a resource that does not exist is a state ([`HealthState::Absent`]).

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
mod undelta_store;
mod until;

pub(crate) use any_object::AnyObject;
pub use compact::Compact;
pub use delta::{Deleted, Delta, ObjectSet};
pub use expiration_cache::ExpirationCache;
pub use factory::{FactoryOptions, InformerHandle, InformerState, NotSynced, Scoped, SharedInformerFactory, Unsynced};
pub use informer::{
    AddIndexersError, Config, Controller, Event, EventHandler, FilteringHandler, HandlerFuncs, HandlerOptions,
    HandlerRegistration, Informer, InformerOptions, InformerStopped, OnPanic, Overflow, QueueKind, Recreated,
    SharedIndexInformer, TryProcess, UnsupportedOption,
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
pub use reflector::{
    Backoff, ErrorHandler, Health, HealthState, Reflector, ReflectorError, ReflectorOptions, UndecodableObjects,
};
pub use store::{
    Change, IndexerConflict, Indexers, NAMESPACE_INDEX, Objects, Query, Snapshot, Store, Transaction, UnknownIndex,
};
pub use undelta_store::UndeltaStore;
pub use until::{InformerWatcher, Precondition, indexer_informer_watcher, until_with_sync};
