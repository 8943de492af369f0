//! One cache and any number of handlers over one watch.
//!
//! ```text
//! Reflector ─> queue ─> consumer ─> Store ─> listeners, one for each handler ─> tasks of handlers
//! ```
//! The consumer applies a batch of deltas to the store and puts the events in line for each handler under one lock; a handler
//! that joins takes a snapshot under the same lock. So it sees each object once, in the snapshot or in an event, and
//! joining takes no longer for a large cache. Handlers never wait for each other, unless one is told to block.

mod delivery;
mod feed;
mod listener;
mod options;
mod processor;
mod registration;
mod told;

use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use kubewright_core::{Object, ResourceVersion};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use options::{HandlerOptions, InformerOptions, OnPanic, Overflow, QueueKind};
pub use registration::HandlerRegistration;

use super::handler::EventHandler;
use crate::lister::Lister;
use crate::lister_watcher::ListerWatcher;
use crate::metrics::Labels;
use crate::reflector::{Health, Reflector};
use crate::store::{IndexerConflict, Indexers, Store};
use crate::task::{Tasks, run_until};
use feed::Feed;
use listener::{Around, Listener, Work, nothing};
use processor::{Ended, Phase, Processor, SHORTEST_RESYNC, Shared};

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
        Self::over(Box::new(lister_watcher), options)
    }

    pub(crate) fn over(lister_watcher: Box<dyn ListerWatcher<T>>, options: InformerOptions<T>) -> Self {
        let store = Store::new(options.indexers);
        let queue = feed::queue(options.queue, Arc::new(store.clone()));
        let processor = Processor {
            listeners: Vec::new(),
            phase: Phase::New,
            resync_check: options.resync.map(|period| period.max(SHORTEST_RESYNC)),
            has_synced: false,
            lost_after: None,
        };
        let (metrics, name) = options.metrics.unzip();
        let shared = Arc::new(Shared {
            store,
            queue,
            sources: Mutex::new(Some((lister_watcher, options.reflector))),
            reflector: OnceLock::new(),
            recreated: options.recreated,
            default_resync: processor.resync_check,
            processor: Mutex::new(processor),
            told: Arc::default(),
            synced: watch::Sender::new(false),
            stop: CancellationToken::new(),
            tasks: Tasks::default(),
            labels: Labels { name: name.unwrap_or_default(), resource: options.resource },
            latency: Mutex::default(),
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
        let shared = &self.shared;
        let listener = {
            let mut processor = shared.processor();
            if processor.phase == Phase::Stopped {
                return Err(InformerStopped);
            }
            let period = processor.resync_period(&options, shared.default_resync);
            let listener = Arc::new(Listener::new(options, period));
            let snapshot = shared.store.snapshot();
            let around = Around { before: &nothing(), after: &snapshot };
            listener.push(Work::All(snapshot.clone()), &around, processor.has_synced);
            processor.listeners.push(listener.clone());
            listener
        };
        let delivery = delivery::deliver(listener.clone(), Box::new(handler));
        shared.tasks.spawn(Box::pin(delivery));
        Ok(HandlerRegistration { listener })
    }

    /// Adds indices, at any time before the informer has stopped.
    ///
    /// # Errors
    /// If there is an index of such a name, or the informer has stopped; then none is added.
    pub fn add_indexers(&self, indexers: Indexers<T>) -> Result<(), AddIndexersError> {
        if self.shared.processor().phase == Phase::Stopped {
            return Err(InformerStopped.into());
        }
        Ok(self.shared.store.add_indexers(indexers)?)
    }

    /// Keeps the cache in step and tells handlers, until `stop` is cancelled; returns when all handlers have stopped.
    ///
    /// Runs once: a second call returns at once. Dropping the future stops everything as well, without the waiting.
    pub async fn run(&self, stop: &CancellationToken) {
        let shared = &self.shared;
        let Some((lister_watcher, options)) = shared.sources.lock().unwrap_or_else(PoisonError::into_inner).take()
        else {
            tracing::warn!("the informer has been run already");
            return;
        };
        let ended = Ended(shared);
        let check = {
            let mut processor = shared.processor();
            processor.phase = Phase::Running;
            processor.resync_check
        };
        let (asking, told) = (Arc::downgrade(shared), shared.told.clone());
        let options = options
            .resync_every(check.unwrap_or_default())
            .should_resync(move || asking.upgrade().is_some_and(|shared| shared.should_resync()))
            .on_event(move || told.lock().unwrap_or_else(PoisonError::into_inner).let_go());
        let feed = Feed { queue: shared.queue.clone(), store: shared.store.clone() };
        let reflector = Reflector::over(lister_watcher, Arc::new(feed), options);
        let reflector = shared.reflector.get_or_init(|| reflector);
        // The reflector and the consumer have stopped when this returns, before the handlers do.
        run_until(stop, pin!(shared.work(reflector))).await;
        drop(ended);
        shared.tasks.ended().await;
    }

    /// Whether all objects of the first list are in the cache; says nothing about handlers.
    pub fn has_synced(&self) -> bool {
        *self.shared.synced.borrow()
    }

    /// Waits until all objects of the first list are in the cache; false if the informer stopped before. Cancel safe.
    pub async fn synced(&self) -> bool {
        let mut synced = self.shared.synced.subscribe();
        tokio::select! {
            biased;
            _ = synced.wait_for(|synced| *synced) => true,
            () = self.shared.stop.cancelled() => false,
        }
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

    /// How the reflector is doing; absent before the informer runs.
    pub fn health(&self) -> Option<Health> {
        self.shared.reflector.get().map(Reflector::health)
    }

    /// The version that the reflector has seen last; the cache may be a little behind.
    #[doc(alias = "LastSyncResourceVersion")]
    pub fn last_sync_resource_version(&self) -> ResourceVersion {
        self.shared.reflector.get().map(Reflector::last_sync_resource_version).unwrap_or_default()
    }

    /// Whether the informer has stopped.
    pub fn is_stopped(&self) -> bool {
        self.shared.processor().phase == Phase::Stopped
    }
}

impl<T: Object> fmt::Debug for SharedIndexInformer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let processor = self.shared.processor();
        f.debug_struct("SharedIndexInformer")
            .field("store", &self.shared.store)
            .field("phase", &processor.phase)
            .field("handlers", &processor.listeners.len())
            .finish()
    }
}
