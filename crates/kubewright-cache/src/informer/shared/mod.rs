//! One cache and any number of handlers over one watch.
//!
//! ```text
//! Reflector ─> queue ─> consumer ─> Store ─> listeners, one per handler ─> handler tasks
//! ```
//! The consumer applies a batch of deltas to the store and queues the events for each handler under
//! one lock. A new handler takes a snapshot under the same lock. So it sees each object once, in
//! the snapshot or in an event, and adding a handler is as fast for a large cache as for a small
//! one. Handlers never wait for each other, unless one uses [`Overflow::Block`].
//!
//! Only three files are generic over the object type; the rest is compiled once, not once per
//! watched resource. These are `upstream` (reflector and store), `feed` (from reflector to queue)
//! and `dispatcher` (handler). Between them, events and snapshots are passed as `Any` (`batch`),
//! behind the pointers that share them anyway, and downcast once per work item. The asynchronous
//! code is in `processor`, `listener` and `delivery` and returns boxed futures, because a future is
//! compiled in the crate that polls it.

mod batch;
mod delivery;
mod dispatcher;
mod feed;
mod listener;
mod options;
mod processor;
mod registration;
mod retained;
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
use crate::metrics::{InformerLabels, InformerSample};
use crate::queue::BoxFuture;
use crate::reflector::{Health, Reflector};
use crate::store::{IndexerConflict, Indexers, Store};
pub(crate) use delivery::HandlerGuard;
use dispatcher::{Dispatcher, count_changes};
use feed::Known;
use processor::{Processor, ProcessorPhase};
use upstream::{InformerCore, NamespaceSource, Upstream};

/// A cache of the objects of one resource, synchronised with the server, that delivers changes to
/// handlers.
///
/// A handle: clones share one informer. It works while [`run`](Self::run) is running, which is
/// possible once.
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
    shared: Arc<InformerCore<T>>,
}

/// The informer has stopped and accepts no more handlers and indices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the informer has stopped")]
pub struct InformerStopped;

/// Why indices were not added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddIndexersError {
    /// An index of that name exists.
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

    /// An informer over one source of all objects, or over one source per namespace.
    ///
    /// It has synced when the initial lists of all sources are complete. After that, a namespace
    /// that becomes unreadable does not block the others: each has its own reflector, and all feed
    /// one queue.
    pub(crate) fn over(sources: Vec<NamespaceSource<T>>, options: InformerOptions<T>) -> Self {
        let store = Store::new(options.indexers);
        let observer = options.observer.map(|(observer, scope)| {
            let number = observer.cache_created(&scope, Box::new(store.clone()));
            store.observe_as(number);
            (observer, number)
        });
        let queue = feed::queue(options.queue, Arc::new(Known(store.clone())));
        let (metrics, name) = options.metrics.unzip();
        let labels = InformerLabels { name: name.unwrap_or_default(), resource: options.resource };
        let shared = Arc::new(InformerCore {
            processor: Arc::new(Processor::new(queue, options.resync.or(options.reflector.common.resync), labels)),
            store,
            sources: Mutex::new(Some((sources, options.reflector))),
            reflectors: OnceLock::new(),
            recreated: options.recreated,
            observer,
            resync: OnceLock::new(),
        });
        if let Some(metrics) = metrics {
            metrics.watch(shared.clone());
        }
        SharedIndexInformer { shared }
    }

    /// Adds a handler with default options. It receives all objects in the cache first, then
    /// changes.
    ///
    /// Must be called within a tokio runtime, because each handler runs in its own task.
    ///
    /// # Errors
    /// If the informer has stopped.
    #[doc(alias = "AddEventHandler")]
    pub fn add_handler(&self, handler: impl EventHandler<T>) -> Result<HandlerRegistration, InformerStopped> {
        self.add_handler_with(handler, HandlerOptions::default())
    }

    /// Like [`add_handler`](Self::add_handler), with options.
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

    /// Like [`add_handler_with`](Self::add_handler_with), with a value that the handler keeps
    /// alive.
    pub(crate) fn add(
        &self,
        handler: Box<dyn EventHandler<T>>,
        options: HandlerOptions,
        keep_alive: HandlerGuard,
    ) -> Result<HandlerRegistration, InformerStopped> {
        let dispatcher = Box::new(Dispatcher::new(handler));
        self.shared.processor.add(&*self.shared, dispatcher, count_changes::<T>, options, keep_alive)
    }

    /// Adds indices, at any time before the informer has stopped.
    ///
    /// # Errors
    /// If an index of the same name exists, or the informer has stopped; then none is added.
    pub fn add_indexers(&self, indexers: Indexers<T>) -> Result<(), AddIndexersError> {
        if self.shared.processor.phase() == ProcessorPhase::Stopped {
            return Err(InformerStopped.into());
        }
        Ok(self.shared.store.add_indexers(indexers)?)
    }

    /// Keeps the cache synchronised and delivers events until `stop` is cancelled. Returns when all
    /// handlers have stopped.
    ///
    /// Runs once: a second call returns immediately. Dropping the future stops everything too,
    /// without waiting.
    pub async fn run(&self, stop: &CancellationToken) {
        self.running(stop).await;
    }

    /// Like [`run`](Self::run), as a boxed future.
    pub(crate) fn running<'a>(&'a self, stop: &'a CancellationToken) -> BoxFuture<'a, ()> {
        self.shared.processor.run(&*self.shared, stop)
    }

    /// Whether all objects of the initial list are in the cache. Says nothing about handlers.
    pub fn has_synced(&self) -> bool {
        self.shared.processor.has_synced()
    }

    /// Waits until all objects of the initial list are in the cache; false if the informer stopped
    /// before. Cancel safe.
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

    /// A lister over the cache.
    pub fn lister(&self) -> Lister<T> {
        Lister::new(self.shared.store.clone())
    }

    /// The health of the reflector; `None` before the informer runs. With several namespaces, that
    /// of the least healthy one.
    pub fn health(&self) -> Option<Health> {
        self.shared.health()
    }

    /// Whether the server reports that the resource does not exist, in any of the namespaces. The
    /// cache keeps its objects until there is [proof](ListerWatcher::is_gone), so reads that
    /// promise freshness must not trust it.
    pub fn is_absent(&self) -> bool {
        self.shared.reflectors.get().is_some_and(|reflectors| reflectors.iter().any(Reflector::is_absent))
    }

    /// The version that the reflector saw last; the cache may lag slightly. Empty for several
    /// namespaces, which have one version
    /// [each](crate::Snapshot::resource_version_of).
    #[doc(alias = "LastSyncResourceVersion")]
    pub fn last_sync_resource_version(&self) -> ResourceVersion {
        match self.shared.reflectors.get().map(Vec::as_slice) {
            Some([reflector]) => reflector.last_sync_resource_version(),
            _ => ResourceVersion::default(),
        }
    }

    /// All values of the informer at one moment.
    pub(crate) fn observe(&self) -> InformerSample {
        self.shared.processor.observe(&*self.shared)
    }

    /// Whether the informer has stopped.
    pub fn is_stopped(&self) -> bool {
        self.shared.processor.phase() == ProcessorPhase::Stopped
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
