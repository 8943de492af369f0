//! One cache and any number of handlers over one watch.
//!
//! ```text
//! Reflector ─> queue ─> consumer ─> Store ─> listeners, one for each handler ─> tasks of handlers
//! ```
//! The consumer applies a batch of deltas to the store and puts the events in line for each handler under one lock; a handler
//! that joins takes a snapshot under the same lock. So it sees each object once, in the snapshot or in an event, and
//! joining takes no longer for a large cache. Handlers never wait for each other, unless one is told to block.
//!
//! Three files know the type of the objects, so that the rest is compiled once, and not again for each kind that a program watches:
//! `upstream`, which is reflector and store, `feed`, which is the way from one to the other, and `teller`, which is a handler. Between them events and snapshots travel as `Any`
//! (`batch`), behind the pointers that they are shared by anyway, and find their type again once for each piece of work. Who
//! waits does so in `processor`, `listener` and `delivery`, in boxes made there: a future is compiled by whoever polls it.

mod batch;
mod delivery;
mod feed;
mod listener;
mod options;
mod processor;
mod registration;
mod teller;
mod told;
mod upstream;

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};

use kubewright_core::{Object, ResourceVersion, Str};
use tokio_util::sync::CancellationToken;

pub use options::{HandlerOptions, InformerOptions, OnPanic, Overflow, QueueKind};
pub use registration::HandlerRegistration;

use super::handler::EventHandler;
use crate::lister::Lister;
use crate::lister_watcher::ListerWatcher;
use crate::metrics::Labels;
use crate::queue::BoxFuture;
use crate::reflector::{Health, Reflector};
use crate::store::{IndexerConflict, Indexers, Store};
pub(crate) use delivery::Kept;
use feed::Known;
use processor::{Phase, Processor};
use teller::{Teller, count_changes};
use upstream::{Shared, Source, Upstream};

/// A cache of the objects of one resource, kept in step with the server, that tells handlers of changes.
///
/// A handle: clones share one informer. It works while [`run`](Self::run) does, once.
///
/// ```
/// # use kubewright_cache::{ListerWatcher, InformerOptions, SharedIndexInformer};
/// # use kubewright_core::{DynamicObject, Object};
/// # async fn example(foos: impl ListerWatcher<DynamicObject>, stop: tokio_util::sync::CancellationToken) {
/// let informer = SharedIndexInformer::new(foos, InformerOptions::default());
/// let handler = informer.add_handler(|event: &kubewright_cache::Event<_>| println!("{}", event.key())).unwrap();
/// let running = informer.clone();
/// tokio::spawn(async move { running.run(&stop).await });
/// handler.synced().await;
/// println!("{} objects", informer.store().len());
/// # }
/// ```
#[doc(alias = "SharedInformer")]
pub struct SharedIndexInformer<T> {
    shared: Arc<Shared<T>>,
}

/// The informer has stopped, and takes no handlers and indices any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the informer has stopped")]
pub struct InformerStopped;

/// Why indices were not added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddIndexersError {
    /// There is an index of that name.
    #[error(transparent)]
    Conflict(#[from] IndexerConflict),
    /// The informer has stopped.
    #[error(transparent)]
    Stopped(#[from] InformerStopped),
}

impl<T> Clone for SharedIndexInformer<T> {
    fn clone(&self) -> Self {
        SharedIndexInformer { shared: self.shared.clone() }
    }
}

impl<T: Object> SharedIndexInformer<T> {
    /// An informer that has not been run.
    pub fn new(lister_watcher: impl ListerWatcher<T>, options: InformerOptions<T>) -> Self {
        Self::over(vec![(Str::new(), Box::new(lister_watcher))], options)
    }

    /// Over one source of all objects, or one for each of several namespaces.
    ///
    /// It has synced when it has the objects of all of them. After that, one that cannot be read any more does not hold up the
    /// others: each has a reflector of its own, and all feed one queue.
    pub(crate) fn over(sources: Vec<Source<T>>, options: InformerOptions<T>) -> Self {
        let store = Store::new(options.indexers);
        let queue = feed::queue(options.queue, Arc::new(Known(store.clone())));
        let (metrics, name) = options.metrics.unzip();
        let labels = Labels { name: name.unwrap_or_default(), resource: options.resource };
        let shared = Arc::new(Shared {
            processor: Arc::new(Processor::new(queue, options.resync.or(options.reflector.choices.resync), labels)),
            store,
            sources: Mutex::new(Some((sources, options.reflector))),
            reflectors: OnceLock::new(),
            recreated: options.recreated,
            resync: OnceLock::new(),
        });
        if let Some(metrics) = metrics {
            metrics.watch(shared.clone());
        }
        SharedIndexInformer { shared }
    }

    /// Adds a handler that is told of all objects, those that are here first, as the defaults say.
    ///
    /// Must be called within a tokio runtime, where the handler gets a task of its own.
    ///
    /// # Errors
    /// If the informer has stopped.
    #[doc(alias = "AddEventHandler")]
    pub fn add_handler(&self, handler: impl EventHandler<T>) -> Result<HandlerRegistration, InformerStopped> {
        self.add_handler_with(handler, HandlerOptions::default())
    }

    /// The same with options.
    ///
    /// # Errors
    /// If the informer has stopped.
    #[doc(alias = "AddEventHandlerWithOptions")]
    pub fn add_handler_with(
        &self,
        handler: impl EventHandler<T>,
        options: HandlerOptions,
    ) -> Result<HandlerRegistration, InformerStopped> {
        self.add(Box::new(handler), options, None)
    }

    /// The same with something that the handler keeps alive.
    pub(crate) fn add(
        &self,
        handler: Box<dyn EventHandler<T>>,
        options: HandlerOptions,
        kept: Kept,
    ) -> Result<HandlerRegistration, InformerStopped> {
        let teller = Box::new(Teller::new(handler));
        self.shared.processor.add(&*self.shared, teller, count_changes::<T>, options, kept)
    }

    /// Adds indices, at any time before the informer has stopped.
    ///
    /// # Errors
    /// If there is an index of such a name, or the informer has stopped; then none is added.
    pub fn add_indexers(&self, indexers: Indexers<T>) -> Result<(), AddIndexersError> {
        if self.shared.processor.phase() == Phase::Stopped {
            return Err(InformerStopped.into());
        }
        Ok(self.shared.store.add_indexers(indexers)?)
    }

    /// Keeps the cache in step and tells handlers, until `stop` is cancelled; returns when all handlers have stopped.
    ///
    /// Runs once: a second call returns at once. Dropping the future stops everything as well, without the waiting.
    pub async fn run(&self, stop: &CancellationToken) {
        self.running(stop).await;
    }

    /// The same as a future of no type.
    pub(crate) fn running<'a>(&'a self, stop: &'a CancellationToken) -> BoxFuture<'a, ()> {
        self.shared.processor.run(&*self.shared, stop)
    }

    /// Whether all objects of the first list are in the cache; says nothing about handlers.
    pub fn has_synced(&self) -> bool {
        self.shared.processor.has_synced()
    }

    /// Waits until all objects of the first list are in the cache; false if the informer stopped before. Cancel safe.
    pub async fn synced(&self) -> bool {
        self.wait_until_synced().await
    }

    pub(crate) fn wait_until_synced(&self) -> BoxFuture<'_, bool> {
        self.shared.processor.wait_until_synced()
    }

    /// The cache. Only the informer writes to it.
    #[doc(alias = "GetStore")]
    #[doc(alias = "GetIndexer")]
    pub fn store(&self) -> &Store<T> {
        &self.shared.store
    }

    /// What reads the cache in the words of the API.
    pub fn lister(&self) -> Lister<T> {
        Lister::new(self.shared.store.clone())
    }

    /// How the reflector is doing; absent before the informer runs. Of several namespaces, as the one that is worst off.
    pub fn health(&self) -> Option<Health> {
        self.shared.health()
    }

    /// Whether the server says that the resource does not exist, in any of the namespaces. The
    /// cache keeps its objects until there is [proof](ListerWatcher::is_gone), so reads that
    /// promise freshness must not trust it.
    pub fn is_absent(&self) -> bool {
        self.shared.reflectors.get().is_some_and(|reflectors| reflectors.iter().any(Reflector::is_absent))
    }

    /// The version that the reflector has seen last; the cache may be a little behind. Empty for several namespaces, which have one
    /// [each](crate::Snapshot::resource_version_of).
    #[doc(alias = "LastSyncResourceVersion")]
    pub fn last_sync_resource_version(&self) -> ResourceVersion {
        match self.shared.reflectors.get().map(Vec::as_slice) {
            Some([reflector]) => reflector.last_sync_resource_version(),
            _ => ResourceVersion::default(),
        }
    }

    /// Whether the informer has stopped.
    pub fn is_stopped(&self) -> bool {
        self.shared.processor.phase() == Phase::Stopped
    }
}

impl<T: Object> fmt::Debug for SharedIndexInformer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.processor.state();
        f.debug_struct("SharedIndexInformer")
            .field("store", &self.shared.store)
            .field("phase", &state.phase)
            .field("handlers", &state.listeners.len())
            .finish()
    }
}
